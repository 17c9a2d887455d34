"""As much of YAML as a ``plain_acl.yml`` needs, and no more: maps, lists and texts by indentation.

    accounts:
      - accessKey: alice          # a comment
        topicPerms: [a=PUB, b=SUB]

Every value is a text. What YAML knows beside that (tabs, anchors, aliases, tags, documents, texts
of several lines, keys that are set twice) is refused with its line: whoever meant it should not get
something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from rocketpipe.errors import RocketPipeError

#: Ten thousand accounts have a third of it.
MAX_BYTES: Final = 8 << 20
_MAX_DEPTH: Final = 8
_KEY: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ ]*:(?:[ ]+(.*))?$", re.DOTALL)
_NOTHING: Final = frozenset({"", "~", "null", "Null", "NULL"})
#: What a plain text cannot begin with, and what it would mean there.
_MEANS_MORE: Final = {
    "&": "an anchor",
    "*": "an alias",
    "!": "a tag",
    "|": "a text of several lines",
    ">": "a text of several lines",
    "{": "a map in one line",
    "%": "a directive",
    "@": "reserved",
    "`": "reserved",
    "?": "a key of several lines",
}


class YamlRefused(RocketPipeError):
    """A text that is not of the part of YAML that is read here."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Text:
    """A text; None where nothing is said."""

    value: str | None
    line: int


@dataclass(frozen=True, slots=True)
class Texts:
    """A list."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Fields:
    """A map."""

    items: dict[str, Node]
    #: Where each key stands.
    lines: dict[str, int]
    line: int


Node: TypeAlias = Text | Texts | Fields


@dataclass(slots=True)
class _Line:
    number: int
    indent: int
    text: str


def read_yaml(data: bytes) -> Fields:
    """Read a file whose outermost value is a map; an empty one is an empty map.

    Raises:
        YamlRefused: If it is anything else.
    """
    if len(data) > MAX_BYTES:
        raise YamlRefused(
            data.count(b"\n", 0, MAX_BYTES) + 1, f"more than {MAX_BYTES} bytes are no list of users"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlRefused(data.count(b"\n", 0, error.start) + 1, "is not UTF-8") from None
    reader = _Reader(list(_lines(text)))
    found = reader.whole()
    if not isinstance(found, Fields):
        raise YamlRefused(found.line, "keys are expected, such as accounts:")
    return found


def _lines(text: str) -> Iterator[_Line]:
    # Not splitlines: it would end lines at characters that YAML takes for text.
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.removesuffix("\r").rstrip(" ")
        if "\t" in line:
            raise YamlRefused(number, "has a tab: indent with blanks")
        if not line.replace(" ", "x").isprintable():
            raise YamlRefused(number, "has a character that cannot be seen")
        bare = line.lstrip(" ")
        if not bare or bare.startswith("#"):
            continue
        if line == "---" and number == 1:
            continue
        if line.startswith(("---", "...")):
            raise YamlRefused(number, "a second document begins here: one is read")
        yield _Line(number, len(line) - len(bare), bare)


class _Reader:
    """Reads lines one after the other."""

    def __init__(self, lines: list[_Line]) -> None:
        self._lines = lines
        self._at = 0

    def whole(self) -> Node:
        if not self._lines:
            return Fields({}, {}, 1)
        found = self._block(self._lines[0].indent, 0)
        if (rest := self._next()) is not None:
            raise YamlRefused(rest.number, "is indented less than what it would belong to")
        return found

    def _next(self) -> _Line | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def _block(self, indent: int, depth: int) -> Node:
        line = self._lines[self._at]
        if depth > _MAX_DEPTH:
            raise YamlRefused(line.number, "is nested too deeply")
        return self._list(indent, depth) if _is_item(line) else self._map(indent, depth)

    def _list(self, indent: int, depth: int) -> Texts:
        items: list[Node] = []
        first = self._lines[self._at].number
        while (line := self._next()) is not None and line.indent == indent and _is_item(line):
            rest = line.text[1:].lstrip(" ")
            if not rest or rest.startswith("#"):
                self._at += 1
                items.append(self._nested(indent, depth, line.number))
            elif _KEY.match(rest):
                line.indent += len(line.text) - len(rest)
                line.text = rest
                items.append(self._map(line.indent, depth + 1))
            else:
                if _is_item(_Line(line.number, 0, rest)):
                    raise YamlRefused(line.number, "is a list in a list")
                self._at += 1
                items.append(_value(rest, line.number))
        self._end(indent)
        return Texts(tuple(items), first)

    def _map(self, indent: int, depth: int) -> Fields:
        items: dict[str, Node] = {}
        lines: dict[str, int] = {}
        first = self._lines[self._at].number
        while (line := self._next()) is not None and line.indent == indent and not _is_item(line):
            found = _KEY.match(line.text)
            if found is None:
                _refuse(line)
            key, rest = found[1], (found[2] or "").strip(" ")
            if key in items:
                raise YamlRefused(line.number, f"{key} is said in line {lines[key]} already")
            self._at += 1
            lines[key] = line.number
            if rest and not rest.startswith("#"):
                items[key] = _value(rest, line.number)
            else:
                items[key] = self._nested(indent, depth, line.number, lists_too=True)
        self._end(indent)
        return Fields(items, lines, first)

    def _nested(self, indent: int, depth: int, number: int, *, lists_too: bool = False) -> Node:
        """What stands below a key or a dash; nothing if there is nothing."""
        line = self._next()
        if line is not None and (
            line.indent > indent or (lists_too and line.indent == indent and _is_item(line))
        ):
            return self._block(line.indent, depth + 1)
        return Text(None, number)

    def _end(self, indent: int) -> None:
        line = self._next()
        if line is not None and line.indent > indent:
            raise YamlRefused(line.number, "is indented more than what stands before it")


def _is_item(line: _Line) -> bool:
    return line.text == "-" or line.text.startswith("- ")


def _refuse(line: _Line) -> NoReturn:
    more = _MEANS_MORE.get(line.text[0])
    if line.text.startswith("<<"):
        more = "a map that is merged in"
    raise YamlRefused(line.number, f"begins with {more}" if more else "is no 'key: value'")


def _value(text: str, number: int) -> Node:
    if text.startswith("["):
        return _flow(text, number)
    value, rest = _scalar(text, number, "")
    if rest:
        raise YamlRefused(number, f"{rest[:40]!r} follows a text that has ended")
    return Text(value, number)


def _flow(text: str, number: int) -> Texts:
    items: list[Node] = []
    rest = text[1:].lstrip(" ")
    while not rest.startswith("]"):
        value, rest = _scalar(rest, number, ",]")
        items.append(Text(value, number))
        rest = rest.lstrip(" ")
        if rest.startswith(","):
            rest = rest[1:].lstrip(" ")
        elif not rest.startswith("]"):
            raise YamlRefused(number, "a list that begins with [ ends with ] in the same line")
    if (behind := rest[1:].strip(" ")) and not behind.startswith("#"):
        raise YamlRefused(number, f"{behind[:40]!r} follows a list that has ended")
    return Texts(tuple(items), number)


def _scalar(text: str, number: int, ends: str) -> tuple[str | None, str]:
    """Read one text, and give what follows it; ``ends`` are characters that end a plain one."""
    if text[:1] in ("'", '"'):
        value, rest = _quoted(text, number)
        return value, "" if rest.startswith(" ") and rest.lstrip(" ").startswith("#") else rest
    if (more := _MEANS_MORE.get(text[:1])) is not None:
        raise YamlRefused(number, f"begins with {more}: put quotes around it if it is a text")
    if text[:1] in ("[", "]", ","):
        raise YamlRefused(number, "a list in a list, or one without a text between its commas")
    end = len(text)
    for place, letter in enumerate(text):
        if letter in ends or (letter == "#" and text[place - 1 : place] == " "):
            end = place
            break
        if letter == ":" and text[place + 1 : place + 2] in ("", " "):
            raise YamlRefused(number, "a key in a text: put quotes around it if it is one")
    value = text[:end].strip(" ")
    rest = text[end:]
    return (None if value in _NOTHING else value), "" if rest.startswith("#") else rest


def _quoted(text: str, number: int) -> tuple[str, str]:
    quote, place, found = text[0], 1, list[str]()
    while place < len(text):
        letter = text[place]
        following = text[place + 1 : place + 2]
        if letter == quote == "'" and following == "'":
            found.append("'")
            place += 2
        elif letter == quote:
            return "".join(found), text[place + 1 :]
        elif letter == "\\" and quote == '"':
            if following not in ('"', "\\"):
                raise YamlRefused(number, f"\\{following} is not read here: use single quotes")
            found.append(following)
            place += 2
        else:
            found.append(letter)
            place += 1
    raise YamlRefused(number, f"the text that begins with {quote} does not end in its line")
