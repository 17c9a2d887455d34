"""The options that say what bodies hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rocketpipe.pipeline.formats.body_schema import FORMATS, Format, SchemaSource
from rocketpipe.pipeline.options.ddl import SchemaTextError, parse_schema
from rocketpipe.pipeline.options.text import OptionError, one_of

if TYPE_CHECKING:
    import pyarrow as pa

DECODE: Final = "decode"
DECODE_SCHEMA: Final = "decodeSchema"
SCHEMA_FILE: Final = "schemaFile"
SCHEMA_REGISTRY: Final = "schemaRegistry"
SCHEMA_SUBJECT: Final = "schemaSubject"
MESSAGE_NAME: Final = "messageName"
TIME_ZONE: Final = "timeZone"

Decode = Literal["json", "text", "avro", "protobuf"]
#: Those that are for bodies whose schema has types of its own.
OF_FORMATS: Final = (SCHEMA_FILE, SCHEMA_REGISTRY, SCHEMA_SUBJECT, MESSAGE_NAME)


@dataclass(frozen=True, slots=True)
class Decoding:
    """What bodies hold, as the options say."""

    decode: Decode | None = None
    #: The columns of a body that is JSON.
    schema: pa.Schema | None = None
    #: Where the schema of a body in Avro or Protobuf is.
    source: SchemaSource | None = None
    time_zone: str = "UTC"

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Decoding:
        """Check the options of a read, by their names in lower case.

        Raises:
            OptionError: If one is missing, or wrong, or goes with another kind of body.
        """
        text = given.get(DECODE)
        decode = cast("Decode", one_of(DECODE, text, get_args(Decode))) if text else None
        schema_text = given.get(DECODE_SCHEMA.lower())
        for option in OF_FORMATS:
            if given.get(option.lower()) and decode not in FORMATS:
                raise OptionError(
                    option, f'is for Avro and Protobuf: add .option("{DECODE}", "avro")'
                )
        source = None
        schema = None
        if decode in FORMATS:
            source = source_of(decode, given, DECODE_SCHEMA)
        elif schema_text:
            schema = _columns(decode, schema_text)
        return cls(decode, schema, source, _time_zone(given, decode))


def source_of(kind: Format, given: Mapping[str, str], text_option: str) -> SchemaSource:
    """Where the schema of Avro or Protobuf is, of options by their names in lower case.

    Raises:
        OptionError: If nothing names it, or two do.
    """
    text = given.get(text_option.lower()) or None
    file, registry, subject, message = (given.get(name.lower()) or None for name in OF_FORMATS)
    if text and file:
        raise OptionError(SCHEMA_FILE, f"is given beside {text_option!r}: leave one of them out")
    if not (text or file or registry):
        raise OptionError(
            SCHEMA_FILE,
            f'is missing: add .option("{SCHEMA_FILE}", "orders.{_ENDINGS[kind]}"), or '
            f'.option("{SCHEMA_REGISTRY}", "http://registry:8081")',
        )
    if subject and (text or file or not registry):
        raise OptionError(
            SCHEMA_SUBJECT, f"is for a schema of the registry: add {SCHEMA_REGISTRY!r} alone"
        )
    if message and (kind != "protobuf" or text):
        raise OptionError(MESSAGE_NAME, "says which message of a Protobuf file bodies are")
    return SchemaSource(kind, text, file, registry, subject, message)


_ENDINGS: Final = {"avro": "avsc", "protobuf": "desc"}


def _columns(decode: str | None, text: str) -> pa.Schema:
    if decode != "json":
        raise OptionError(DECODE_SCHEMA, f'is for JSON bodies: add .option("{DECODE}", "json")')
    try:
        return parse_schema(text)
    except SchemaTextError as error:
        raise OptionError(
            DECODE_SCHEMA, f'is wrong: {error}; write it like "city STRING, amount DOUBLE"'
        ) from error


def _time_zone(given: Mapping[str, str], decode: str | None) -> str:
    name = given.get(TIME_ZONE.lower())
    if not name:
        return "UTC"
    if decode != "json":
        raise OptionError(TIME_ZONE, f'is for JSON bodies: add .option("{DECODE}", "json")')
    if name.upper() == "UTC":
        return "UTC"
    try:
        ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise OptionError(
            TIME_ZONE, f'is {name!r}, which is no zone here: write it like "Europe/Oslo" or "UTC"'
        ) from None
    return name
