"""Binary headers: every length checked, and what does not fit refused."""

from __future__ import annotations

import struct

import pytest

from rocketpipe.errors import HeaderError, LocalProtocolError
from rocketpipe.protocol.codes import Language
from rocketpipe.protocol.command import Command, HeaderKind
from rocketpipe.protocol.header_binary import decode, encode
from rocketpipe.protocol.header_json import MAX_FIELDS

FIXED = struct.pack(">hBhii", 34, 3, 399, 7, 0)


def counted(text: bytes, form: str = ">i") -> bytes:
    return struct.pack(form, len(text)) + text


def field(name: bytes, value: bytes) -> bytes:
    return counted(name, ">h") + counted(value)


def binary(**values: object) -> Command:
    return Command(header=HeaderKind.BINARY, **{"code": 1, "opaque": 1, **values})  # type: ignore[arg-type]


def test_every_part_is_read() -> None:
    header = FIXED + counted(b"weil") + counted(field(b"topic", b"T") + field(b"q", b"3"))
    assert decode(header, b"body") == binary(
        code=34, opaque=7, version=399, remark="weil", body=b"body",
        fields={"topic": "T", "q": "3"}, language=Language.PYTHON,
    )  # fmt: skip


def test_an_empty_name_or_value_is_no_field() -> None:
    block = field(b"", b"x") + field(b"empty", b"") + field(b"a", b"1")
    assert decode(FIXED + counted(b"") + counted(block)).fields == {"a": "1"}


def test_an_unknown_language_is_none_and_none_is_written_as_other() -> None:
    strange = struct.pack(">hBhii", 34, 200, 399, 7, 0) + counted(b"") + counted(b"")
    assert decode(strange).language is None
    assert decode(encode(binary(language=None))).language is Language.OTHER


def test_bytes_that_are_no_text_are_replaced_as_java_does() -> None:
    assert decode(FIXED + counted(b"\xff") + counted(field(b"a", b"\xc3"))).remark == "\ufffd"


@pytest.mark.parametrize(
    ("header", "at"),
    [
        (b"", 0),
        (FIXED[:-1], 12),
        (FIXED, 13),
        (FIXED + b"\0\0\0", 13),
        (FIXED + struct.pack(">i", -1), 13),
        (FIXED + struct.pack(">i", 1), 13),
        (FIXED + struct.pack(">i", 0x7FFFFFFF) + b"x", 13),
        (FIXED + counted(b""), 17),
        (FIXED + counted(b"") + struct.pack(">i", -1), 17),
        (FIXED + counted(b"") + struct.pack(">i", 5), 17),
        (FIXED + counted(b"") + counted(b"") + b"x", 21),
        (FIXED + counted(b"") + counted(b"\0"), 21),
        (FIXED + counted(b"") + counted(b"\xff\xff"), 21),
        (FIXED + counted(b"") + counted(b"\0\x01a"), 24),
        (FIXED + counted(b"") + counted(b"\0\x01a\0\0\0\x02v"), 24),
        (FIXED + counted(b"") + counted(b"\0\x01a\xff\xff\xff\xff"), 24),
    ],
)
def test_a_length_that_does_not_add_up_says_where(header: bytes, at: int) -> None:
    with pytest.raises(HeaderError) as caught:
        decode(header)
    assert caught.value.at == at


def test_fields_are_counted() -> None:
    block = field(b"a", b"1") * (MAX_FIELDS + 1)
    with pytest.raises(HeaderError, match="more than 1024 fields"):
        decode(FIXED + counted(b"") + counted(block))
    assert decode(FIXED + counted(b"") + counted(block[: -len(field(b"a", b"1"))])).fields


@pytest.mark.parametrize(
    "command",
    [
        binary(code=200050),  # a pop
        binary(code=-40000),
        binary(version=1 << 15),
        binary(opaque=1 << 31),
        binary(fields={"a": 5}),
        binary(fields={"k" * 40000: "v"}),
        binary(fields={"a": "\ud800"}),
        binary(remark="\udfff"),
    ],
)
def test_what_does_not_fit_is_not_written(command: Command) -> None:
    with pytest.raises(LocalProtocolError):
        encode(command)
