r"""RocketMQ's ``.conf`` files, which are Java's properties files.

    # a comment, and so is what begins with !
    brokerName = broker-a        key and value are parted by =, : or blanks
    namesrvAddr=10.0.0.1:9876;\
                10.0.0.2:9876    a backslash at the end goes on in the next line
    region = \u5317\u4eac        and before a letter it stands for another one

A ``\`` before any other character is dropped, as Java does. Java reads such files as Latin-1; this
reads UTF-8, and what is not UTF-8 as Latin-1. Of a key that stands there twice, the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocketpipe.errors import ConfigError

MAX_BYTES: Final = 1 << 20

_BLANKS: Final = " \t\f"
_NATURAL_LINE: Final = re.compile(r"\r\n|\r|\n")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX: Final = re.compile(r"[0-9A-Fa-f]{4}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value, and the line they begin in, counted from 1."""

    key: str
    value: str
    line: int


def conf_values(data: bytes, name: str) -> dict[str, str]:
    """Read settings that came in a request; of a key that stands there twice, the last counts.

    Raises:
        ConfigError: As by ``read_conf``.
    """
    return {entry.key: entry.value for entry in read_conf(data, name)}


def read_conf(data: bytes, name: str) -> list[Entry]:
    """Read a whole file, which errors call ``name``.

    Raises:
        ConfigError: If it is too large, or has an escape that stands for nothing.
    """
    if len(data) > MAX_BYTES:
        raise ConfigError(name, f"{len(data)} bytes are too many for settings ({MAX_BYTES})")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    entries = []
    for number, line in _logical_lines(text):
        key, value = _parted(line)
        try:
            entries.append(Entry(_unescaped(key), _unescaped(value), number))
        except ValueError as error:
            raise ConfigError(f"{name} line {number}", str(error)) from error
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Give the lines that say something, joined where they go on, with their numbers."""
    begun, begun_at = "", 0
    for number, natural in enumerate(_NATURAL_LINE.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not begun:
            if not line or line[0] in "#!":
                continue
            begun_at = number
        ending = len(line) - len(line.rstrip("\\"))
        begun += line[:-1] if ending % 2 else line
        if ending % 2 == 0:
            yield begun_at, begun
            begun = ""
    if begun:
        yield begun_at, begun


def _parted(line: str) -> tuple[str, str]:
    """Part a line at the first ``=``, ``:`` or blank that has no backslash before it."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANKS:
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    parts, at = [], 0
    while (slash := text.find("\\", at)) >= 0:
        parts.append(text[at:slash])
        letter = text[slash + 1 : slash + 2]
        at = slash + 2
        if letter == "u":
            digits = text[at : at + 4]
            if not _HEX.fullmatch(digits):
                raise ValueError(f"\\u{digits} is no character: four hexadecimal digits follow \\u")
            parts.append(chr(int(digits, 16)))
            at += 4
        else:
            parts.append(_ESCAPES.get(letter, letter))
    parts.append(text[at:])
    # Beyond 16 bits Java writes two halves; here they are one character.
    joined = "".join(parts)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
