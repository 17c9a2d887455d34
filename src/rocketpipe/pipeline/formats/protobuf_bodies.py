"""Bodies in Protobuf as columns: all messages of a batch are parsed, then taken field by field.

Written with a registry, a body begins with the id of a schema and says which of its messages it is;
one that is another message than the reader's is no row. Fields go by their numbers, so that writer
and reader may have different versions of a message.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rocketpipe.pipeline.formats.assembling import assembled, check_times
from rocketpipe.pipeline.formats.avro_bodies import no_id
from rocketpipe.pipeline.formats.errors import NotRegistered
from rocketpipe.pipeline.formats.protobuf_schema import (
    ENUM,
    FREE_FORM,
    MESSAGE_TYPES,
    TIMESTAMP,
    WRAPPERS,
    descriptor_of,
    file_of,
    is_map,
    is_repeated,
)
from rocketpipe.pipeline.formats.registry import HEAD_BYTES, Registry, registry_at

_MOST_INDEXES = 32


class ProtobufBodies:
    """Decodes one batch after the other."""

    def __init__(self, text: str, registry: str | None, fields: Sequence[pa.Field]) -> None:
        """Read by a message, as these columns of it.

        Raises:
            BodySchemaError: If there is no such message, or protobuf is not installed.
        """
        self._descriptor = descriptor_of(text)
        from google.protobuf.message_factory import GetMessageClass

        self._parse: Any = GetMessageClass(self._descriptor).FromString
        self._fields = list(fields)
        self._takes = [self._descriptor.fields_by_name[field.name] for field in fields]
        self._registry: Registry | None = None if registry is None else registry_at(registry)
        #: What a body that names an id and indexes is, if it is not ours.
        self._problems: dict[tuple[int, tuple[int, ...]], str | None] = {}

    def columns(self, bodies: pa.Array, errors: dict[int, str]) -> dict[str, pa.Array]:
        """Each field of each row; rows that have none are noted with the reason.

        Raises:
            RegistryError: If the registry cannot be asked what an id means.
        """
        from google.protobuf.message import DecodeError

        messages: list[Any] = []
        rows: list[int] = []
        for row, body in enumerate(bodies.to_pylist()):
            if body is None:
                continue
            content = body
            if self._registry is not None:
                problem, start = self._head(body)
                if problem is not None:
                    errors[row] = problem
                    continue
                content = body[start:]
            try:
                messages.append(self._parse(content))
            except (DecodeError, ValueError) as error:
                errors[row] = f"not Protobuf: {str(error).splitlines()[0]}"
                continue
            rows.append(row)
        return assembled(messages, rows, len(bodies), self._fields, self._arrays, errors)

    def _arrays(self, messages: Sequence[Any]) -> list[pa.Array]:
        found = []
        for field, take in zip(self._fields, self._takes, strict=True):
            column = _column(messages, take, field.type)
            check_times(column)
            found.append(column)
        return found

    def _head(self, body: bytes) -> tuple[str | None, int]:
        """Why a body is not ours, and where the message begins."""
        if len(body) < HEAD_BYTES or body[0]:
            return no_id(body), 0
        try:
            indexes, start = _indexes(body)
        except ValueError as error:
            return f"not Protobuf: {error}", 0
        key = (int.from_bytes(body[1:HEAD_BYTES], "big"), indexes)
        if key not in self._problems:
            problem, is_final = self._problem(*key)
            if not is_final:
                return problem, start
            if len(self._problems) >= 10_000:
                self._problems.clear()
            self._problems[key] = problem
        return self._problems[key], start

    def _problem(self, number: int, indexes: tuple[int, ...]) -> tuple[str | None, bool]:
        """Why a message of a registered file is not ours; and whether that is so for ever."""
        assert self._registry is not None
        try:
            registered = self._registry.by_id(number)
        except NotRegistered:
            return f"the registry has no schema {number}", False
        if registered.kind != "PROTOBUF":
            return f"schema {number} of the registry is {registered.kind}, not PROTOBUF", True
        file = file_of(registered.text, f"schema-{number}")
        if file is None:  # a registry that gives nothing but text: by our own file then
            own = self._descriptor.file
            file = type_of_file().FromString(own.serialized_pb)
        name = _name_at(file, indexes)
        if name is None:
            return f"schema {number} of the registry has no message at {list(indexes)}", True
        ours = self._descriptor.full_name
        return (None if name == ours else f"it is a {name}, not a {ours}"), True


def type_of_file() -> Any:
    """Protobuf's own description of a file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    return FileDescriptorProto


def _indexes(body: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of its file a body is, and where that begins; raises ValueError."""
    count, at = _zigzag(body, HEAD_BYTES)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_INDEXES:
        raise ValueError(f"{count} indexes of messages")
    found = []
    for _ in range(count):
        index, at = _zigzag(body, at)
        found.append(index)
    return tuple(found), at


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(body) or shift > 28:
            raise ValueError("it does not say which message it is")
        octet = body[at]
        at += 1
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _name_at(file: Any, indexes: tuple[int, ...]) -> str | None:
    names = [file.package] if file.package else []
    inside = file.message_type
    for index in indexes:
        if not 0 <= index < len(inside):
            return None
        names.append(inside[index].name)
        inside = inside[index].nested_type
    return ".".join(names)


def _column(messages: Sequence[Any], field: Any, kind: pa.DataType) -> pa.Array:
    """One field of messages, of which none is None."""
    name = field.name
    if is_map(field):
        return _map(messages, field, kind)
    values = [getattr(message, name) for message in messages]
    if is_repeated(field):
        offsets = np.zeros(len(values) + 1, np.int32)
        np.cumsum([len(each) for each in values], out=offsets[1:])
        flat = [each for some in values for each in some]
        return pa.ListArray.from_arrays(pa.array(offsets), _single(flat, field, kind.value_type))
    if field.has_presence:
        values = [
            value if message.HasField(name) else None
            for message, value in zip(messages, values, strict=True)
        ]
    return _single(values, field, kind)


def _map(messages: Sequence[Any], field: Any, kind: pa.DataType) -> pa.Array:
    # Sorted: what order they come in is another one in each process.
    maps = [getattr(message, field.name) for message in messages]
    offsets = np.zeros(len(maps) + 1, np.int32)
    np.cumsum([len(each) for each in maps], out=offsets[1:])
    entry = field.message_type.fields_by_name
    names = [sorted(each) for each in maps]
    keys = _single([key for each in names for key in each], entry["key"], kind.key_type)
    values = [each[key] for each, some in zip(maps, names, strict=True) for key in some]
    items = _single(values, entry["value"], kind.item_type)
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items)


def _single(values: Sequence[Any], field: Any, kind: pa.DataType) -> pa.Array:
    """Values of which each may be None."""
    if field.type == ENUM:
        return pa.array(_enum_names(values, field), kind)
    if field.type not in MESSAGE_TYPES:
        return pa.array(values, kind)
    name = field.message_type.full_name
    if name == TIMESTAMP:
        micros = [None if v is None else v.seconds * 1_000_000 + v.nanos // 1_000 for v in values]
        return pa.array(micros, kind)
    if name in WRAPPERS:
        inner = field.message_type.fields_by_name["value"]
        return _single([None if v is None else v.value for v in values], inner, kind)
    if name in FREE_FORM:
        return pa.array([None if v is None else _json(v) for v in values], kind)
    empty = None
    if any(value is None for value in values):
        from google.protobuf.message_factory import GetMessageClass

        empty = GetMessageClass(field.message_type)()
    filled = [empty if value is None else value for value in values]
    by_name = field.message_type.fields_by_name
    children = [_column(filled, by_name[each.name], each.type) for each in kind]
    mask = pa.array([value is None for value in values]) if empty is not None else None
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _enum_names(values: Sequence[Any], field: Any) -> list[str | None]:
    known = field.enum_type.values_by_number
    return [
        None if value is None else known[value].name if value in known else str(value)
        for value in values
    ]


def _json(value: Any) -> str:
    from google.protobuf.json_format import MessageToDict

    try:
        found = MessageToDict(value)
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    except (RecursionError, TypeError) as error:
        raise ValueError(f"{value.DESCRIPTOR.full_name} cannot be shown: {error}") from error
