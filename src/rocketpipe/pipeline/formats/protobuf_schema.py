"""A Protobuf message as columns: which type of SQL each field has.

    bool, int32, sint32, sfixed32        BOOLEAN, INT
    int64, sint64, sfixed64              BIGINT
    uint32, fixed32                      BIGINT
    uint64, fixed64                      DECIMAL(20, 0)
    float, double, string, bytes         FLOAT, DOUBLE, STRING, BINARY
    enum                                 STRING: the name; the number, if it has none
    message                              STRUCT
    repeated, map                        ARRAY, MAP
    google.protobuf.Timestamp            TIMESTAMP, to the microsecond
    google.protobuf.…Value (wrappers)    the type inside
    google.protobuf.Struct, Value, …     STRING: the JSON of it

A field that may be told to be absent (a message, ``optional``, one of a ``oneof``, all of proto2)
is NULL then; others have their default. A message that contains itself has no end, so it is
refused.
"""

from __future__ import annotations

import base64
import binascii
import importlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from rocketpipe.pipeline.formats.errors import BodySchemaError

_GOOGLE: Final = "google.protobuf."
TIMESTAMP: Final = f"{_GOOGLE}Timestamp"
#: Messages with one field ``value``, which stand for what is in it.
WRAPPERS: Final = frozenset(
    f"{_GOOGLE}{name}Value"
    for name in ["Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes"]
)
#: Messages that may hold anything, and are shown as JSON.
FREE_FORM: Final = frozenset({f"{_GOOGLE}Struct", f"{_GOOGLE}Value", f"{_GOOGLE}ListValue"})
_MAX_DEPTH: Final = 64

# The numbers that descriptor.proto has for types.
_PLAIN: Final[dict[int, pa.DataType]] = {
    1: pa.float64(),
    2: pa.float32(),
    3: pa.int64(),
    4: pa.decimal128(20, 0),
    5: pa.int32(),
    6: pa.decimal128(20, 0),
    7: pa.int64(),
    8: pa.bool_(),
    9: pa.string(),
    12: pa.binary(),
    13: pa.int64(),
    14: pa.string(),
    15: pa.int32(),
    16: pa.int64(),
    17: pa.int32(),
    18: pa.int64(),
}
UNSIGNED_64: Final = frozenset({4, 6})
ENUM: Final = 14
MESSAGE_TYPES: Final = frozenset({10, 11})


def kept_text(descriptors: bytes, message: str) -> str:
    """A message and the files it is in, as one text."""
    return f"{message}:{base64.b64encode(descriptors).decode()}"


def descriptor_of(text: str) -> Any:
    """The message that such a text is of.

    Raises:
        BodySchemaError: If it is none, or protobuf is not installed.
    """
    message, colon, encoded = text.partition(":")
    try:
        descriptors = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        descriptors = b""
    if not (message and colon and descriptors):
        raise BodySchemaError(
            "the Protobuf schema",
            "is not MESSAGE:BASE64 of a FileDescriptorSet; give the file itself with schemaFile "
            "(--schema-file)",
        )
    return find_message(pool_of(files_in(descriptors, "the Protobuf schema")), message)


def files_in(descriptors: bytes, name: str) -> list[Any]:
    """The files of a FileDescriptorSet, as ``protoc --descriptor_set_out`` writes it.

    Raises:
        BodySchemaError: If it is none, or protobuf is not installed.
    """
    descriptor_pb2 = _module("google.protobuf.descriptor_pb2")
    error = _module("google.protobuf.message").DecodeError
    found = descriptor_pb2.FileDescriptorSet()
    try:
        found.ParseFromString(descriptors)
    except error:
        found.Clear()
    files = [each for each in found.file if each.name]
    if not files:
        raise BodySchemaError(
            name,
            "is no FileDescriptorSet: compile it ahead with protoc --include_imports "
            "--descriptor_set_out=orders.desc orders.proto",
        )
    return files


def file_of(encoded: str, name: str) -> Any | None:
    """The one file that a registry gives in Base64; None if it is something else."""
    descriptor_pb2 = _module("google.protobuf.descriptor_pb2")
    error = _module("google.protobuf.message").DecodeError
    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(
            base64.b64decode(encoded, validate=True)
        )
    except (binascii.Error, ValueError, error):
        return None
    found.name = name
    return found


def set_of(files: Iterable[Any]) -> bytes:
    """Files as one FileDescriptorSet."""
    found = _module("google.protobuf.descriptor_pb2").FileDescriptorSet()
    found.file.extend(files)
    return bytes(found.SerializeToString())


def pool_of(files: Iterable[Any]) -> Any:
    """What files define, put together; Google's own are known.

    Raises:
        BodySchemaError: If one of them is wrong, or needs one that is not there.
    """
    pool = _module("google.protobuf.descriptor_pool").DescriptorPool()
    by_name = {each.name: each for each in files}
    begun: set[str] = set()

    def add(name: str) -> None:
        if name in begun:
            return
        begun.add(name)
        file = by_name.get(name) or _googles(name)
        if file is None:
            raise BodySchemaError(
                "the Protobuf schema",
                f"{name} is imported and not there: compile with protoc --include_imports",
            )
        for needed in file.dependency:
            add(needed)
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:
            raise BodySchemaError("the Protobuf schema", f"{name}: {error}") from error

    for name in by_name:
        add(name)
    return pool


def find_message(pool: Any, name: str) -> Any:
    """A message by its full name.

    Raises:
        BodySchemaError: If there is none.
    """
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        raise BodySchemaError(
            "the Protobuf schema", f"there is no message {name!r} in it: give its full name"
        ) from None


def message_names(file: Any) -> list[str]:
    """The messages of a file, of the first level, by their full names."""
    package = f"{file.package}." if file.package else ""
    return [f"{package}{each.name}" for each in file.message_type]


def main_message(files: Sequence[Any], name: str | None) -> str:
    """The message that is meant: the one that was named, or the only one of the last file.

    Raises:
        BodySchemaError: If there are several.
    """
    if name:
        return name
    names = message_names(files[-1])
    if len(names) == 1:
        return names[0]
    there = ", ".join(names[:10]) or "none"
    raise BodySchemaError(
        "the Protobuf schema",
        f"say which message bodies are, with messageName (--message): there are {there}",
    )


def schema_of(descriptor: Any) -> pa.Schema:
    """The columns of a message.

    Raises:
        BodySchemaError: If it has none, or no end.
    """
    found = _struct(descriptor, [])
    if not found.num_fields:
        raise BodySchemaError(descriptor.full_name, "has no fields, so it has no columns")
    return pa.schema(list(found))


def _struct(descriptor: Any, inside: list[str]) -> pa.DataType:
    name = descriptor.full_name
    if name in inside or len(inside) > _MAX_DEPTH:
        raise BodySchemaError(
            inside[0],
            f"message {name} contains itself, so it has no end; leave the field out in a schema "
            "file of your own",
        )
    return pa.struct([(each.name, _type(each, [*inside, name])) for each in descriptor.fields])


def _type(field: Any, inside: list[str]) -> pa.DataType:
    if is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_single(entry["key"], inside), _single(entry["value"], inside))
    single = _single(field, inside)
    return pa.list_(single) if is_repeated(field) else single


def _single(field: Any, inside: list[str]) -> pa.DataType:
    if field.type not in MESSAGE_TYPES:
        return _PLAIN[field.type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return pa.timestamp("us", tz="UTC")
    if name in WRAPPERS:
        return _PLAIN[field.message_type.fields_by_name["value"].type]
    if name in FREE_FORM:
        return pa.string()
    return _struct(field.message_type, inside)


def is_repeated(field: Any) -> bool:
    """Whether there may be several of it; newer protobufs have another name for that."""
    known = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if known is None else known)


def is_map(field: Any) -> bool:
    """Whether it is a map, which is written as repeated entries."""
    return field.type == 11 and is_repeated(field) and field.message_type.GetOptions().map_entry


def _googles(name: str) -> Any | None:
    if not name.startswith("google/protobuf/") or not name.endswith(".proto"):
        return None
    try:
        module = importlib.import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
    except ImportError:
        return None
    return _module("google.protobuf.descriptor_pb2").FileDescriptorProto.FromString(
        module.DESCRIPTOR.serialized_pb
    )


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BodySchemaError(
            "decode=protobuf", "protobuf is not installed: pip install protobuf"
        ) from error
