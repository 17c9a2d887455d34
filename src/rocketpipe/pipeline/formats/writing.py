"""Records into bodies: JSON, Avro, Protobuf, one by one.

A record is a dict as Arrow gives it, of whose maps are dicts (`plain`). What is left out or None is
left out of JSON, has its default in Avro, and is not set in Protobuf. With a registry a body begins
with the id of its schema.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any, Final

import msgspec
import pyarrow as pa

from rocketpipe.pipeline.formats.avro_schema import AvroSchema
from rocketpipe.pipeline.formats.errors import BodySchemaError
from rocketpipe.pipeline.formats.protobuf_schema import (
    ENUM,
    FREE_FORM,
    MESSAGE_TYPES,
    TIMESTAMP,
    WRAPPERS,
    descriptor_of,
    is_map,
    is_repeated,
)

#: Makes the body of a record.
Write = Callable[[Mapping[str, Any]], bytes]
#: Turns a value into another.
Fix = Callable[[Any], Any]

_WHOLE: Final = frozenset({"int", "long"})
_REAL: Final = frozenset({"float", "double"})


def json_writer(fields: pa.Schema) -> Write:
    """Bodies in JSON, as ``decode=json`` and Spark's ``from_json`` read them."""
    encode = msgspec.json.Encoder(decimal_format="number").encode
    fixes = {field.name: _for_json(field.type) for field in fields}

    def write(record: Mapping[str, Any]) -> bytes:
        return encode(
            {
                name: value if (fix := fixes[name]) is None else fix(value)
                for name, value in record.items()
                if value is not None
            }
        )

    return write


def avro_writer(text: str, head: bytes) -> Write:
    """Bodies in Avro.

    Raises:
        BodySchemaError: If it has a union of several types, or fastavro is not installed.
    """
    AvroSchema.of(text)  # what is wrong with it shows here
    _check_unions(json.loads(text))
    import fastavro

    schema = fastavro.parse_schema(json.loads(text))

    def write(record: Mapping[str, Any]) -> bytes:
        out = BytesIO()
        out.write(head)
        fastavro.schemaless_writer(
            out, schema, {name: value for name, value in record.items() if value is not None}
        )
        return out.getvalue()

    return write


def avro_optional(text: str) -> frozenset[str]:
    """The fields of a record that may be left out."""
    fields = json.loads(text)["fields"]
    return frozenset(
        each["name"]
        for each in fields
        if "default" in each
        or each["type"] == "null"
        or (isinstance(each["type"], list) and "null" in each["type"])
    )


def protobuf_writer(text: str, head: bytes) -> Write:
    """Bodies in Protobuf; ``head`` ends before what says which message it is.

    Raises:
        BodySchemaError: If there is no such message, or protobuf is not installed.
    """
    descriptor = descriptor_of(text)
    from google.protobuf.message_factory import GetMessageClass

    make: Any = GetMessageClass(descriptor)
    front = head + _indexes(descriptor) if head else b""

    def write(record: Mapping[str, Any]) -> bytes:
        message = make()
        _fill(message, record)
        return front + bytes(message.SerializeToString())

    return write


def plain(kind: pa.DataType) -> Fix | None:
    """How a value of a type becomes one whose maps are dicts; None: it is one."""
    types = pa.types
    if types.is_map(kind):
        key, item = plain(kind.key_type), plain(kind.item_type)
        return lambda value: (
            None
            if value is None
            else {(key(k) if key else k): (item(v) if item else v) for k, v in value}
        )
    if types.is_list(kind) or types.is_large_list(kind):
        one = plain(kind.value_type)
        return one and (lambda value: None if value is None else [one(each) for each in value])
    if types.is_struct(kind):
        fixes = {each.name: fix for each in kind if (fix := plain(each.type)) is not None}
        return (
            (
                lambda value: (
                    None
                    if value is None
                    else {
                        name: fixes[name](each) if name in fixes else each
                        for name, each in value.items()
                    }
                )
            )
            if fixes
            else None
        )
    return None


def _for_json(kind: pa.DataType) -> Fix | None:
    types = pa.types
    if types.is_floating(kind):
        return _number
    if types.is_map(kind):
        item = _for_json(kind.item_type)
        return lambda value: {
            _key(name): each if item is None or each is None else item(each)
            for name, each in value.items()
        }
    if types.is_list(kind) or types.is_large_list(kind):
        one = _for_json(kind.value_type)
        return one and (lambda value: [None if each is None else one(each) for each in value])
    if types.is_struct(kind):
        fixes = {each.name: _for_json(each.type) for each in kind}
        return lambda value: {
            name: each if (fix := fixes[name]) is None else fix(each)
            for name, each in value.items()
            if each is not None
        }
    return None


def _number(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _key(value: Any) -> str:
    """The name of a field, of a key of a map."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_unions(node: Any) -> None:
    """Refuse unions of which a value does not say which member it is."""
    if isinstance(node, list):
        members = [each for each in node if each != "null"]
        names = {each if isinstance(each, str) else "" for each in members}
        if len(members) > 1 and not (names <= _WHOLE or names <= _REAL):
            raise BodySchemaError(
                "the Avro schema",
                "has a union of several types, which is read but not written: give bodies "
                "yourself, as a column body",
            )
        for each in members:
            _check_unions(each)
    elif isinstance(node, dict):
        for each in node.get("fields", ()):
            _check_unions(each["type"])
        for name in ("items", "values", "type"):
            if name in node:
                _check_unions(node[name])


def _fill(message: Any, record: Mapping[str, Any]) -> None:
    for field in message.DESCRIPTOR.fields:
        value = record.get(field.name)
        if value is None:
            continue
        if is_map(field):
            _fill_map(getattr(message, field.name), field, value)
        elif is_repeated(field):
            held = getattr(message, field.name)
            for each in value:
                if each is None:
                    raise ValueError(f"{field.name}: has a NULL in it")
                if field.type in MESSAGE_TYPES:
                    _put(held.add(), each)
                else:
                    held.append(_single(field, each))
        elif field.type in MESSAGE_TYPES:
            _put(getattr(message, field.name), value)
        else:
            setattr(message, field.name, _single(field, value))


def _fill_map(held: Any, field: Any, value: Mapping[Any, Any]) -> None:
    entry = field.message_type.fields_by_name
    for key, each in value.items():
        if each is None:
            raise ValueError(f"{field.name}: has a NULL in it")
        name = _single(entry["key"], key)
        if entry["value"].type in MESSAGE_TYPES:
            _put(held[name], each)
        else:
            held[name] = _single(entry["value"], each)


def _put(message: Any, value: Any) -> None:
    name = message.DESCRIPTOR.full_name
    message.SetInParent()  # also where all of it is as it is anyway
    if name == TIMESTAMP:
        assert isinstance(value, datetime)
        message.FromDatetime(value if value.tzinfo is None else value.astimezone(UTC))
    elif name in WRAPPERS:
        inner = message.DESCRIPTOR.fields_by_name["value"]
        message.value = _single(inner, value)
    elif name in FREE_FORM:
        from google.protobuf.json_format import Parse

        Parse(value, message)
    else:
        _fill(message, value)


def _single(field: Any, value: Any) -> Any:
    if field.type == ENUM:
        known = field.enum_type.values_by_name
        if value in known:
            return known[value].number
        try:
            return int(value)
        except ValueError:
            raise ValueError(f"{field.name}: {value!r} is none of its names") from None
    return int(value) if isinstance(value, Decimal) else value


def _indexes(descriptor: Any) -> bytes:
    """Which message of its file one is, as registries' clients write it."""
    path: list[int] = []
    while descriptor is not None:
        owner = descriptor.containing_type
        beside = (
            descriptor.file.message_types_by_name.values()
            if owner is None
            else (owner.nested_types)
        )
        names = [each.full_name for each in beside]
        path.insert(0, names.index(descriptor.full_name))
        descriptor = owner
    if path == [0]:
        return b"\0"
    return b"".join(_zigzag(each) for each in (len(path), *path))


def _zigzag(number: int) -> bytes:
    value, out = number << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
