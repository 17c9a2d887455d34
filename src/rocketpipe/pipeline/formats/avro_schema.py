"""An Avro schema as columns: which type of SQL each field has, and how Arrow gets it.

    boolean, int, long, float, double     BOOLEAN, INT, BIGINT, FLOAT, DOUBLE
    string, enum, uuid                    STRING
    bytes, fixed, duration                BINARY
    decimal                               DECIMAL of the same digits; with more than 38, BINARY
    date                                  DATE
    time-millis, time-micros              INT, BIGINT: since midnight
    timestamp-millis, -micros, -nanos     TIMESTAMP, to the microsecond
    local-timestamp-…                     TIMESTAMP_NTZ
    record, array, map                    STRUCT, ARRAY, MAP<STRING, …>
    null and one other                    that other
    int and long, float and double        BIGINT, DOUBLE
    any other union                       STRUCT<member0, member1, …>, of which one is not NULL

Every column may be NULL. A type that contains itself has no end, so it is refused: a reader's
schema may leave the field out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from rocketpipe.pipeline.formats.errors import BodySchemaError

MAX_DIGITS: Final = 38

#: A value of a body as Arrow takes it; None where it is taken as it is.
Fix = Callable[[Any], Any] | None
#: A column's type, the one that Arrow reads it as, and what to do to values first.
Column = tuple[pa.DataType, pa.DataType, Fix]

_PLAIN: Final[dict[str, Column]] = {
    "null": (pa.string(), pa.string(), None),
    "boolean": (pa.bool_(), pa.bool_(), None),
    "int": (pa.int32(), pa.int32(), None),
    "long": (pa.int64(), pa.int64(), None),
    "float": (pa.float32(), pa.float32(), None),
    "double": (pa.float64(), pa.float64(), None),
    "string": (pa.string(), pa.string(), None),
    "bytes": (pa.binary(), pa.binary(), None),
    "fixed": (pa.binary(), pa.binary(), None),
    "enum": (pa.string(), pa.string(), None),
}
_LOGICAL: Final[dict[tuple[str, str], Column]] = {
    ("int", "date"): (pa.date32(), pa.date32(), None),
    ("fixed", "uuid"): (pa.string(), pa.string(), lambda value: str(UUID(bytes=value))),
    **{
        ("long", f"{local}timestamp-{name}"): (kind, pa.timestamp(unit, tz=zone), None)
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
        for local, kind, zone in (
            ("", pa.timestamp("us", tz="UTC"), "UTC"),
            ("local-", pa.timestamp("us"), None),
        )
    },
}
_NUMBERS: Final = ("int", "long", "float", "double")
#: What Python has for a branch of a union; branches with the same cannot be told apart.
_PYTHON: Final[dict[str, type]] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "enum": str,
    "bytes": bytes,
    "fixed": bytes,
    "array": list,
    "map": dict,
}
_MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema of records, checked."""

    #: As fastavro reads by it: without the types that Arrow makes itself.
    parsed: Mapping[str, Any]
    columns: Mapping[str, Column]
    #: Logical types by the path of their fields.
    logical: Mapping[str, str]
    #: Whether records in unions have to say what they are.
    names_records: bool

    @classmethod
    def of(cls, text: str, name: str = "the Avro schema") -> AvroSchema:
        """Read a schema, of which ``name`` is what to call it.

        Raises:
            BodySchemaError: If it is none, none of a record, or has no end.
        """
        fastavro = _fastavro()
        try:
            given = json.loads(text)
            fastavro.parse_schema(given)
            parsed = fastavro.parse_schema(_plain(given))
        except (ValueError, RecursionError) as error:
            reason = "it nests too deep" if isinstance(error, RecursionError) else error
            raise BodySchemaError(name, f"is no Avro schema ({reason})") from error
        except Exception as error:  # of fastavro, which has a class for each mistake
            raise BodySchemaError(name, f"is no Avro schema: {_said(error)}") from error
        if not isinstance(given, dict) or given.get("type") not in ("record", "error"):
            raise BodySchemaError(name, "is not of a record, so it has no columns")
        walk = _Walk(name)
        try:
            columns = walk.fields(fastavro.parse_schema(given))
        except RecursionError:
            raise BodySchemaError(name, "nests too deep") from None
        if not columns:
            raise BodySchemaError(name, "has no fields, so it has no columns")
        return cls(parsed, columns, walk.logical, walk.names_records)

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return pa.schema([(name, kind) for name, (kind, _, _) in self.columns.items()])


def inlined(text: str, used: Mapping[str, str]) -> str:
    """A schema with what it uses of others in it, by the name of each.

    Raises:
        BodySchemaError: If one of them is no schema.
    """
    if not used:
        return text
    try:
        given = json.loads(text)
        others = {name: json.loads(each) for name, each in used.items()}
    except ValueError as error:
        raise BodySchemaError("the Avro schema", f"a part of it is no JSON ({error})") from error
    done: set[str] = set()

    def put(node: Any) -> Any:
        if isinstance(node, str):
            if node not in others or node in done:
                return node
            done.add(node)
            return put(others[node])
        if isinstance(node, list):
            return [put(each) for each in node]
        if not isinstance(node, dict):
            return node
        inside = {name: put(node[name]) for name in ("type", "items", "values") if name in node}
        if isinstance(node.get("fields"), list):
            inside["fields"] = [put(each) for each in node["fields"]]
        return node | inside

    return json.dumps(put(given))


def conflict(writer: AvroSchema, reader: AvroSchema) -> str | None:
    """A field that both have, and that means another thing to each; None if there is none."""
    for path, meant in writer.logical.items():
        wanted = reader.logical.get(path, meant)
        if wanted != meant:
            return f"{path} was written as {meant}, and is to be read as {wanted}"
    return None


class _Walk:
    """One walk through a schema."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._types: dict[str, Any] = {}
        self._inside: list[str] = []
        self.logical: dict[str, str] = {}
        self.names_records = False

    def fields(self, record: Mapping[str, Any], path: str = "") -> dict[str, Column]:
        """The column of each field of a record."""
        name = record["name"]
        self._types[name] = record
        if name in self._inside or len(self._inside) > _MAX_DEPTH:
            raise BodySchemaError(
                self._name,
                f"{path.strip('.') or name}: type {name} contains itself, so it has no end; leave "
                "that field out in a reader's schema of your own",
            )
        self._inside.append(name)
        found = {
            each["name"]: self._column(each["type"], f"{path}{each['name']}")
            for each in record["fields"]
        }
        self._inside.pop()
        return found

    def _column(self, node: Any, path: str) -> Column:
        if isinstance(node, list):
            return self._union(node, path)
        if isinstance(node, str):
            if node in _PLAIN:
                return _PLAIN[node]
            return self._column(self._types[node], path)
        kind = node["type"]
        if not isinstance(kind, str):
            return self._column(kind, path)
        if "name" in node:
            self._types[node["name"]] = node
        if kind in ("record", "error"):
            return _struct(self.fields(node, f"{path}."))
        if kind == "array":
            return self._array(node["items"], path)
        if kind == "map":
            shown, arrow, fix = self._column(node["values"], f"{path}{{}}")
            each = (lambda value: {key: fix(one) for key, one in value.items()}) if fix else None
            return pa.map_(pa.string(), shown), pa.map_(pa.string(), arrow), _or_none(each)
        logical = node.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            return self._decimal(node, path)
        if (kind, logical) in _LOGICAL:
            self.logical[path] = str(logical)
            return _LOGICAL[kind, str(logical)]
        return _PLAIN[kind] if kind in _PLAIN else self._column(self._types[kind], path)

    def _array(self, items: Any, path: str) -> Column:
        if self._is_empty(items):
            raise BodySchemaError(
                self._name,
                f"{path}: its elements take no bytes, so a body could claim any number of them; "
                "leave the field out in a reader's schema of your own",
            )
        shown, arrow, fix = self._column(items, f"{path}[]")
        each = (lambda value: [fix(one) for one in value]) if fix else None
        return pa.list_(shown), pa.list_(arrow), _or_none(each)

    def _is_empty(self, node: Any) -> bool:
        """Whether values of a type may have no bytes at all."""
        if isinstance(node, str):
            return node == "null" or (node in self._types and self._is_empty(self._types[node]))
        if isinstance(node, list):
            return False
        if node["type"] in ("record", "error"):
            if node["name"] in self._inside:
                return False
            self._types[node["name"]] = node
            return all(self._is_empty(each["type"]) for each in node["fields"])
        return bool(node["type"] == "null" or (node["type"] == "fixed" and not node["size"]))

    def _decimal(self, node: Mapping[str, Any], path: str) -> Column:
        precision, scale = node.get("precision", 0), node.get("scale", 0)
        if not is_decimal(node):
            return _PLAIN["bytes"]
        self.logical[path] = f"decimal({precision}, {scale})"
        return pa.decimal128(precision, scale), pa.decimal128(precision, scale), None

    def _union(self, node: list[Any], path: str) -> Column:
        branches = [each for each in node if _type_name(each) != "null"]
        if not branches:
            return _PLAIN["null"]
        if len(branches) == 1:
            return self._column(branches[0], path)
        names = [self._kind(each) for each in branches]
        if all(each in _NUMBERS for each in branches):
            return _PLAIN["double" if {"float", "double"} & set(names) else "long"]
        columns = [self._column(each, f"{path}.{at}") for at, each in enumerate(branches)]
        return self._members(branches, names, columns, path)

    def _members(
        self, branches: list[Any], names: list[str], columns: list[Column], path: str
    ) -> Column:
        by_name: dict[str, int] = {}
        by_type: dict[type, int] = {}
        records = [at for at, kind in enumerate(names) if kind == "record"]
        for at, kind in enumerate(names):
            if kind == "record" and len(records) > 1:
                self.names_records = True
                by_name[_type_name(branches[at])] = at
                continue
            python = _PYTHON.get(kind, dict)
            if pa.types.is_decimal(columns[at][0]):
                python = Decimal
            if python in by_type:
                raise BodySchemaError(
                    self._name,
                    f"{path}: values of {names[by_type[python]]} and {kind} cannot be told apart; "
                    "leave the field out in a reader's schema of your own",
                )
            by_type[python] = at

        def pick(value: Any) -> Any:
            if type(value) is tuple:
                name, value = value
                at = by_name[name]
            else:
                at = by_type[type(value)]
            fix = columns[at][2]
            return {f"member{at}": value if fix is None else fix(value)}

        shown = pa.struct([(f"member{at}", each[0]) for at, each in enumerate(columns)])
        arrow = pa.struct([(f"member{at}", each[1]) for at, each in enumerate(columns)])
        return shown, arrow, _or_none(pick)

    def _kind(self, node: Any) -> str:
        if isinstance(node, str):
            return node if node in _PLAIN else self._kind(self._types[node])
        kind = node["type"]
        return "record" if kind == "error" else str(kind)


def is_decimal(node: Mapping[str, Any]) -> bool:
    """Whether a decimal has room in one of Spark's."""
    precision, scale = node.get("precision", 0), node.get("scale", 0)
    return (
        type(precision) is int
        and type(scale) is int
        and 0 < precision <= MAX_DIGITS
        and 0 <= scale <= precision
    )


def _plain(node: Any) -> Any:
    """The same schema without the logical types that Arrow makes of plain ones."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {name: each for name, each in node.items() if not name.startswith("__")}
    if node.get("logicalType") is not None and not (
        node["logicalType"] == "decimal" and is_decimal(node)
    ):
        del kept["logicalType"]
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = _plain(kept[name])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_plain(each) for each in kept["fields"]]
    return kept


def _struct(columns: Mapping[str, Column]) -> Column:
    shown = pa.struct([(name, each[0]) for name, each in columns.items()])
    arrow = pa.struct([(name, each[1]) for name, each in columns.items()])
    fixes = {name: each[2] for name, each in columns.items() if each[2] is not None}
    if not fixes:
        return shown, arrow, None

    def fixed(value: dict[str, Any]) -> dict[str, Any]:
        return value | {name: fix(value[name]) for name, fix in fixes.items()}

    return shown, arrow, _or_none(fixed)


def _or_none(fix: Fix) -> Fix:
    return None if fix is None else lambda value: None if value is None else fix(value)


def _type_name(node: Any) -> str:
    return str(node if isinstance(node, str) else node.get("name") or node["type"])


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removeprefix("SchemaParseException: ")[:200]


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise BodySchemaError(
            "decode=avro", "fastavro is not installed: pip install fastavro"
        ) from error
    return fastavro
