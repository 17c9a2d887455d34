"""Columns as Spark has them: from and to Arrow's, and the options that travel with a table's.

Below this everything speaks of columns as Arrow does, and needs no Spark. What is inside a column
may always be NULL here: bodies promise nothing.

The options of a table in Spark's catalogue travel as metadata of its first column, where nobody but
this source looks. What is given with the read itself (``WITH (…)``) goes before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rocketpipe.pipeline.columns.rows import not_read_as
from rocketpipe.pipeline.options.table import given, is_of_table

METADATA: Final = "rocketpipe.options"

_PLAIN: Final[dict[type[DataType], pa.DataType]] = {
    StringType: pa.string(),
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
}
_BACK: Final = {arrow: spark for spark, arrow in _PLAIN.items()}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema in which Spark takes these columns.

    Raises:
        ColumnError: If one has a type that messages and their bodies never have.
    """
    return pa.schema(
        [
            pa.field(field.name, _arrow_type(field.name, field.dataType), nullable=field.nullable)
            for field in schema.fields
        ]
    )


def spark_schema(schema: pa.Schema) -> StructType:
    """Columns that a read has, as Spark is told of them."""
    return StructType(
        [StructField(field.name, _spark_type(field.type), field.nullable) for field in schema]
    )


def _arrow_type(name: str, kind: DataType) -> pa.DataType:
    """Spark's own function for this has other arguments in each version."""
    plain = _PLAIN.get(type(kind))
    if plain is not None:
        return plain
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, ArrayType):
        return pa.list_(_arrow_type(name, kind.elementType))
    if isinstance(kind, MapType):
        return pa.map_(_arrow_type(name, kind.keyType), _arrow_type(name, kind.valueType))
    if isinstance(kind, StructType):
        return pa.struct([(field.name, _arrow_type(name, field.dataType)) for field in kind.fields])
    raise not_read_as(name, kind.simpleString())


def _spark_type(kind: pa.DataType) -> DataType:
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_list(kind):
        return ArrayType(_spark_type(kind.value_type))
    if pa.types.is_map(kind):
        return MapType(_spark_type(kind.key_type), _spark_type(kind.item_type))
    if pa.types.is_struct(kind):
        return StructType([StructField(field.name, _spark_type(field.type)) for field in kind])
    return _BACK[kind]()


def remembering(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The same columns, which know the options of their table."""
    if not is_of_table(options) or not schema.fields:
        return schema
    first, *others = schema.fields
    metadata = {**(first.metadata or {}), METADATA: given(options)}
    kept = StructField(first.name, first.dataType, first.nullable, metadata)
    return StructType([kept, *others])


def remembered(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a read, with those that its table was made with where it has none itself."""
    found: dict[str, str] = {}
    for field in schema.fields:
        kept = (field.metadata or {}).get(METADATA)
        if isinstance(kept, dict):
            found.update({str(name): str(value) for name, value in kept.items()})
    return {**found, **given(options)}
