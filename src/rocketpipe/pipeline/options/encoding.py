"""The options that say what bodies are made of columns: the counterpart of ``decoding``.

encode            json, avro, protobuf
encodeSchema      for JSON the columns, ``city STRING, amount INT``, else those of the frame; for
                  Avro and Protobuf the schema itself
schemaFile, schemaRegistry, schemaSubject, messageName
                  where the schema of Avro or Protobuf is, as for a read
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from rocketpipe.pipeline.formats.body_schema import FORMATS, SchemaSource
from rocketpipe.pipeline.options.ddl import SchemaTextError, parse_schema
from rocketpipe.pipeline.options.decoding import OF_FORMATS, SCHEMA_REGISTRY, source_of
from rocketpipe.pipeline.options.text import OptionError, one_of

if TYPE_CHECKING:
    import pyarrow as pa

ENCODE: Final = "encode"
ENCODE_SCHEMA: Final = "encodeSchema"
OPTIONS: Final = (ENCODE, ENCODE_SCHEMA, *OF_FORMATS)

Encode = Literal["json", "avro", "protobuf"]


@dataclass(frozen=True, slots=True)
class Encoding:
    """What bodies are made of, as the options say."""

    encode: Encode
    #: The columns of a body in JSON; None: as the frame has them.
    schema: pa.Schema | None = None
    #: Where the schema of a body in Avro or Protobuf is.
    source: SchemaSource | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Encoding | None:
        """Check the options of a write, by their names in lower case; None: bodies are given.

        Raises:
            OptionError: If one is missing, or wrong, or goes with another kind of body.
        """
        text = given.get(ENCODE)
        if not text:
            for name in OPTIONS[1:]:
                if given.get(name.lower()):
                    raise OptionError(
                        name, f'is for bodies made of columns: add .option("{ENCODE}", "avro")'
                    )
            return None
        encode = cast("Encode", one_of(ENCODE, text, get_args(Encode)))
        schema_text = given.get(ENCODE_SCHEMA.lower()) or None
        if encode in FORMATS:
            source = source_of(encode, given, ENCODE_SCHEMA)
            if source.registry is not None and (source.text or source.file):
                raise OptionError(
                    SCHEMA_REGISTRY,
                    "is where the schema is taken from, so that readers find it by its id: leave "
                    "the other one out",
                )
            return cls(encode, source=source)
        for name in OF_FORMATS:
            if given.get(name.lower()):
                raise OptionError(
                    name, f'is for Avro and Protobuf: add .option("{ENCODE}", "avro")'
                )
        try:
            return cls(encode, None if schema_text is None else parse_schema(schema_text))
        except SchemaTextError as error:
            raise OptionError(
                ENCODE_SCHEMA, f'is wrong: {error}; write it like "city STRING, amount DOUBLE"'
            ) from error
