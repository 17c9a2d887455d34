"""A frame's header as JSON, the form that every peer speaks.

    {"code":11,"extFields":{"queueId":"3"},"flag":0,"language":"JAVA","opaque":7,
     "remark":"…","serializeTypeCurrentRPC":"JSON","version":475}

We write the keys in this order, as Java does, and every field's value as a string: C++ clients
read a number there as 0. Peers are less strict. Numbers, truth values and nulls come as field
values (C++, Node.js), keys in any order, keys nobody knows, explicit nulls; and Java takes
whatever fastjson takes, so what is not strict JSON is read as its dialect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from rocketpipe.errors import HeaderError, LocalProtocolError
from rocketpipe.protocol.codes import Language
from rocketpipe.protocol.command import Command, HeaderKind
from rocketpipe.protocol.json_dialect import (
    DialectError,
    Members,
    Real,
    Tree,
    java_text,
    key_text,
    parse,
    quote,
)

MAX_FIELDS: Final = 1024
_MAX_DEPTH: Final = 16
_BIG_HEADER_BYTES: Final = 64 * 1024
_MAX_COLONS: Final = 100_000
_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1
_MAX_NUMBER_CHARS: Final = 11

_QUOTING: Final = re.compile(r'["\\]').search

# By name in any letter case, or by number, as fastjson reads an enum.
_LANGUAGES: Final = {**Language.__members__, **{str(int(member)): member for member in Language}}
_Int32 = Annotated[int, msgspec.Meta(ge=_INT32_MIN, le=_INT32_MAX)]


class _Header(msgspec.Struct, gc=False):
    code: _Int32
    opaque: _Int32
    flag: _Int32 = 0
    version: _Int32 = 0
    language: str | None = None
    remark: str | None = None
    fields: dict[str, str] | None = msgspec.field(name="extFields", default=None)


_decode_strict = msgspec.json.Decoder(_Header).decode


def decode(header: bytes, body: bytes = b"") -> Command:
    """Read a header; ``body`` goes with it into the command.

    Raises:
        HeaderError: If it cannot be read; ``at`` counts from the header's first byte.
    """
    if len(header) > _BIG_HEADER_BYTES and header.count(b":") > _MAX_COLONS:
        raise HeaderError("more fields than any header has", len(header))
    try:
        read = _decode_strict(header)
    except (ValueError, RecursionError):
        read = _decode_dialect(header)
    fields = read.fields or {}
    if len(fields) > MAX_FIELDS:
        raise HeaderError(f"{len(fields)} fields, {MAX_FIELDS} are the most", len(header))
    return Command(
        code=read.code,
        opaque=read.opaque,
        flag=read.flag,
        fields=fields,
        remark=read.remark,
        body=body,
        language=_language(read.language),
        version=read.version,
        header=HeaderKind.JSON,
    )


def _language(name: str | None) -> Language | None:
    if name is None:
        return None
    known = _LANGUAGES.get(name)
    return known if known is not None else _LANGUAGES.get(name.upper())


def _decode_dialect(header: bytes) -> _Header:
    text = header.decode("utf-8", "replace")  # as Java does
    try:
        tree = parse(text, max_depth=_MAX_DEPTH, max_values=2 * MAX_FIELDS + 64)
        if not isinstance(tree, Members):
            raise DialectError("a header that is no object", 0)
        return _Header(
            code=_number(tree, "code"),
            opaque=_number(tree, "opaque"),
            flag=_number(tree, "flag", 0),
            version=_number(tree, "version", 0),
            language=_text(tree, "language"),
            remark=_text(tree, "remark"),
            fields=_fields(tree),
        )
    except DialectError as error:
        raise HeaderError(error.reason, len(text[: error.at].encode())) from None


def _number(tree: Members, name: str, default: int | None = None) -> int:
    value, at = tree.named(name) or (None, tree.at)
    if value is None or value == "":
        if default is None:
            raise DialectError(f"a header without {name}", at)
        return default
    number = _whole(value)
    if number is None or not _INT32_MIN <= number <= _INT32_MAX:
        raise DialectError(f"{name} is no 32-bit number", at)
    return number


def _whole(value: Tree) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, Real) and value.is_integer():
        return int(value)
    if isinstance(value, str) and len(value) <= _MAX_NUMBER_CHARS and value.isascii():
        return int(value) if value.removeprefix("-").isdecimal() else None
    return None


def _text(tree: Members, name: str) -> str | None:
    value, _ = tree.named(name) or (None, 0)
    return None if value is None else java_text(value)


def _fields(tree: Members) -> dict[str, str] | None:
    value, at = tree.named("extFields") or (None, 0)
    if value is None or value == "":
        return None
    if not isinstance(value, Members):
        raise DialectError("extFields is no object", at)
    fields: dict[str, str] = {}
    for key, item, _ in value.pairs:
        if item is None:
            fields.pop(key_text(key), None)
        else:
            fields[key_text(key)] = java_text(item)
    return fields


def encode(command: Command) -> bytes:
    """Write a command's header.

    Raises:
        LocalProtocolError: If a number is wider than 32 bits, or a field is not text.
    """
    for number in (command.code, command.flag, command.opaque, command.version):
        if not _INT32_MIN <= number <= _INT32_MAX:
            raise LocalProtocolError(f"{number} is no 32-bit number")
    try:
        parts = [f'{{"code":{command.code:d}']
        if command.fields:
            parts.append(f'"extFields":{{{_fields_text(command.fields)}}}')
        parts.append(f'"flag":{command.flag:d}')
        if command.language is not None:
            parts.append(f'"language":"{command.language.name}"')
        parts.append(f'"opaque":{command.opaque:d}')
        if command.remark is not None:
            parts.append(f'"remark":{quote(command.remark)}')
        parts.append(f'"serializeTypeCurrentRPC":"JSON","version":{command.version:d}}}')
        return ",".join(parts).encode()
    except TypeError:
        raise LocalProtocolError("a header field that is not text") from None
    except UnicodeEncodeError:
        raise LocalProtocolError("a header cannot carry half a surrogate pair") from None


def _fields_text(fields: Mapping[str, str]) -> str:
    everything = "".join([*fields, *fields.values()])
    if everything.isascii() and everything.isprintable() and not _QUOTING(everything):
        return ",".join([f'"{name}":"{value}"' for name, value in fields.items()])
    return ",".join([f"{quote(name)}:{quote(value)}" for name, value in fields.items()])
