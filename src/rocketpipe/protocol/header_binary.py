"""A frame's header in RocketMQ's own binary form.

     0  2  code                      requests above 32767 (the POP family) do not fit
     2  1  language
     3  2  version
     5  4  opaque
     9  4  flag
    13  4  length of the remark, and the remark; 0 is none
     …  4  length of the fields block, and the fields; 0 is none

A field is a 2-byte length and its name, a 4-byte length and its value. Text is UTF-8. An empty
value reads as no value at all: Java writes both the same way and reads null.
"""

from __future__ import annotations

import struct
from typing import Final

from rocketpipe.errors import HeaderError, LocalProtocolError
from rocketpipe.protocol.codes import Language
from rocketpipe.protocol.command import Command, HeaderKind
from rocketpipe.protocol.header_json import MAX_FIELDS

_FIXED: Final = struct.Struct(">hBhii")
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_MAX_NAME_BYTES: Final = 0x7FFF

_LANGUAGES: Final = {int(language): language for language in Language}


def decode(header: bytes, body: bytes = b"") -> Command:
    """Read a header; ``body`` goes with it into the command.

    Raises:
        HeaderError: If it cannot be read; ``at`` counts from the header's first byte.
    """
    if len(header) < _FIXED.size:
        raise HeaderError(f"a binary header of {len(header)} bytes", len(header))
    code, language, version, opaque, flag = _FIXED.unpack_from(header)
    remark, at = _counted(header, _FIXED.size, _INT, "the remark")
    block, end = _counted(header, at, _INT, "the fields")
    if end != len(header):
        raise HeaderError(f"{len(header) - end} bytes after the fields", end)
    return Command(
        code=code,
        opaque=opaque,
        flag=flag,
        fields=_fields(header, at + _INT.size, end) if block else {},
        remark=_text(remark) if remark else None,
        body=body,
        language=_LANGUAGES.get(language),
        version=version,
        header=HeaderKind.BINARY,
    )


def _fields(header: bytes, at: int, end: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    count = 0
    while at < end:
        count += 1
        if count > MAX_FIELDS:
            raise HeaderError(f"more than {MAX_FIELDS} fields", at)
        name, at = _counted(header, at, _SHORT, "a field's name")
        value, at = _counted(header, at, _INT, "a field's value")
        if name and value:
            fields[_text(name)] = _text(value)
    return fields


def _counted(header: bytes, at: int, count: struct.Struct, what: str) -> tuple[bytes, int]:
    start = at + count.size
    if start > len(header):
        raise HeaderError(f"the header ends within the length of {what}", at)
    (length,) = count.unpack_from(header, at)
    if length < 0 or start + length > len(header):
        raise HeaderError(f"{what} of length {length}, {len(header) - start} bytes are left", at)
    return header[start : start + length], start + length


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")  # as Java does


def encode(command: Command) -> bytes:
    """Write a command's header.

    Raises:
        LocalProtocolError: If a number does not fit its bytes, or a field is not text.
    """
    language = Language.OTHER if command.language is None else command.language
    try:
        fixed = _FIXED.pack(command.code, language, command.version, command.opaque, command.flag)
        remark = (command.remark or "").encode()
        block = b"".join([_field(name, value) for name, value in command.fields.items()])
    except struct.error as error:
        raise LocalProtocolError(
            f"code {int(command.code)} or another number is too wide for a binary header"
        ) from error
    except AttributeError:
        raise LocalProtocolError("a header field that is not text") from None
    except UnicodeEncodeError:
        raise LocalProtocolError("a header cannot carry half a surrogate pair") from None
    return b"".join((fixed, _INT.pack(len(remark)), remark, _INT.pack(len(block)), block))


def _field(name: str, value: str) -> bytes:
    name_bytes, value_bytes = name.encode(), value.encode()
    if len(name_bytes) > _MAX_NAME_BYTES:
        raise LocalProtocolError(f"a field name of {len(name_bytes)} bytes")
    return b"".join(
        (_SHORT.pack(len(name_bytes)), name_bytes, _INT.pack(len(value_bytes)), value_bytes)
    )
