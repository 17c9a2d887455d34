"""What `scan` is told, as the options that the Spark source has.

An argument means what the option means: names are Python's (``on_gap`` is ``onGap``), values too
(a list where the option has a text with commas, a datetime where it has one in ISO 8601). So there
is one definition, and what is wrong is told in the words of who is told.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from rocketpipe.model.subscription import EVERYTHING
from rocketpipe.pipeline.options.decoding import DECODE_SCHEMA
from rocketpipe.pipeline.options.read import (
    ENDING_OFFSETS,
    ENDING_TIMESTAMP,
    NAME_SERVER,
    PATH,
    QUARANTINE_PATH,
    STARTING_OFFSETS,
    STARTING_TIMESTAMP,
    ReadOptions,
)
from rocketpipe.pipeline.options.selection import SUBSCRIBE
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.remoting.tls_settings import TlsSettings

#: Offsets by topic, broker and number of a queue: ``{"orders": {"broker-a": {0: 42}}}``.
Offsets: TypeAlias = Mapping[str, Mapping[str, Mapping[int, int]]]
#: Where a scan begins or ends.
Place: TypeAlias = Literal["first", "last"] | datetime | str | Offsets
#: One of something, or several.
Some: TypeAlias = str | Iterable[str]

#: Options whose arguments have another name than their own in Python's spelling.
_CALLED: Final = {
    NAME_SERVER: "name_servers",
    PATH: "log",
    SUBSCRIBE: "topic",
    DECODE_SCHEMA: "schema",
    STARTING_OFFSETS: "start",
    STARTING_TIMESTAMP: "start",
    ENDING_OFFSETS: "end",
    ENDING_TIMESTAMP: "end",
    QUARANTINE_PATH: "quarantine",
}
_OPTION_OF: Final = {name: option for option, name in _CALLED.items() if name not in "start end"}
_TO_ADD: Final = re.compile(r'\.option\("(\w+)", ("[^"]*")\)')
_NAMED: Final = re.compile(r"\b([a-z]+[A-Z]\w*)=")
#: What only Spark's users can do.
_OF_SPARK: Final = (
    " before Spark starts",
    ", or use readStream",
    ", or .schema(…)",
    ", or subscribePattern or assign",
    ", on a disk that all executors see under this name",
)
_QUOTED: Final = re.compile(r"'([a-z]+[A-Z]\w*|path|subscribe)'")


@dataclass(frozen=True, slots=True)
class Request:
    """What is read, and which of its rows."""

    options: ReadOptions
    wanted: RowFilter


def request(
    topic: Some,
    *,
    start: Place,
    end: Place,
    tags: Some | None,
    schema: str | pa.Schema | None,
    tls: bool | TlsSettings | None,
    **given: Any,
) -> Request:
    """Check what `scan` was told.

    Raises:
        OptionError: If an argument is missing or wrong.
        BodySchemaError: If the schema of bodies is not there, or none.
        RegistryError: If the schema registry does not answer.
    """
    if given.get("log") is not None and given.get("name_servers") is not None:
        raise OptionError("log", "is given beside 'name_servers': leave one of them out")
    text = {"subscribe": _joined("topic", topic)}
    text |= _place("start", start, STARTING_OFFSETS, STARTING_TIMESTAMP)
    text |= _place("end", end, ENDING_OFFSETS, ENDING_TIMESTAMP)
    for name, value in given.items():
        if value is not None:
            text[_OPTION_OF.get(name) or _camel(name)] = _text(name, value)
    if isinstance(schema, str):
        text[DECODE_SCHEMA] = schema
    if isinstance(tls, bool):
        text["tls"] = str(tls).lower()
    with in_python():
        options = ReadOptions.parse(text).resolved()
        options.check_batch()
    if isinstance(schema, pa.Schema):
        if options.decode != "json":
            raise OptionError("schema", 'is for JSON bodies: add decode="json"')
        for name in schema.names:
            if len(schema.get_all_field_indices(name)) > 1:
                raise OptionError("schema", f"is wrong: column {name!r} is there twice")
        options = dataclasses.replace(options, decode_schema=schema)
    if isinstance(tls, TlsSettings):
        options = dataclasses.replace(options, access=dataclasses.replace(options.access, tls=tls))
    return Request(options, dataclasses.replace(options.wanted, tags=_tags(tags)))


def _place(name: str, value: Place, by_offset: str, by_time: str) -> dict[str, str]:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise OptionError(
                name, "has no zone: say datetime.now(UTC) - …, or .astimezone() of local time"
            )
        return {by_time: str(int(value.timestamp() * 1000))}
    if isinstance(value, Mapping):
        return {by_offset: json.dumps(value)}
    if value == ("last" if name == "end" else "first"):
        return {}
    if value == "last":
        raise OptionError(name, 'is "last", where nothing is to be read yet: give another place')
    if value == "first":
        raise OptionError(name, 'is "first", so nothing would be read: give another place')
    if not isinstance(value, str):
        raise OptionError(name, f"is {value!r}: give 'first', 'last', a datetime or offsets")
    return {by_offset if value.startswith("{") else by_time: value}


def _tags(tags: Some | None) -> frozenset[str] | None:
    """Those that are wanted, as a list or as RocketMQ writes it: ``a || b``."""
    if tags is None or tags == EVERYTHING:
        return None
    try:
        names = tags.split("||") if isinstance(tags, str) else tags
        found = frozenset(name.strip() for name in names)
    except (TypeError, AttributeError):
        raise OptionError("tags", f"is {tags!r}: give a text, or several of them") from None
    if not found or "" in found:
        raise OptionError("tags", "names nothing: give one, or several as a list or 'a || b'")
    return found


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    return _joined(name, value)


def _joined(name: str, values: Some) -> str:
    if isinstance(values, str):
        return values
    try:
        return ",".join(values)
    except TypeError:
        raise OptionError(name, f"is {values!r}: give a text, or several of them") from None


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)


def _snake(option: str) -> str:
    return _CALLED.get(option) or re.sub(r"(?<=[a-z])([A-Z])", r"_\1", option).lower()


@contextmanager
def in_python() -> Iterator[None]:
    """Tell what is wrong with an option where options are arguments."""
    try:
        yield
    except OptionError as error:
        reason = _TO_ADD.sub(lambda found: f"{_snake(found[1])}={found[2]}", error.reason)
        reason = _QUOTED.sub(lambda found: f"'{_snake(found[1])}'", reason)
        reason = _NAMED.sub(lambda found: f"{_snake(found[1])}=", reason)
        for of_spark in _OF_SPARK:
            reason = reason.replace(of_spark, "")
        raise OptionError(_snake(error.option), reason) from None
