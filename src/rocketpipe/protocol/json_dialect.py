"""The JSON that Java peers write, and what they accept, read into a plain tree.

RocketMQ's bodies come from fastjson, which goes beyond JSON in both directions:

    {0:"10.0.0.1:10911"}             numbers as keys, without quotes
    {{"topic":"T",…}:5}              objects as keys
    {'a':1, b:2,,}                   single quotes, bare names, stray commas
    /* … */ and // …                 comments
    {"$ref":"$.table.T"}             an object that was written before (resolved by ``fastjson``)

Positions count characters of the text. Depth, digits and the number of values are bounded here,
whatever the text says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, TypeAlias

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 500_000
_MAX_NUMBER_CHARS: Final = 64


class DialectError(ValueError):
    """A text outside the dialect, or beyond a bound; ``at`` is the character where it shows."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


class Real(float):
    """A number with a fraction or an exponent that remembers how it was written."""

    __slots__ = ("text",)
    text: str


@dataclass(slots=True, eq=False)
class Members:
    """An object: key, value and the value's position, in the order of the text."""

    at: int
    pairs: list[tuple[Tree, Tree, int]] = field(default_factory=list)
    _by_text: dict[str, tuple[Tree, int]] | None = None

    def named(self, text: str) -> tuple[Tree, int] | None:
        """The value under a key as its text reads, the last one if there are several."""
        if self._by_text is None:
            self._by_text = {key_text(key): (value, at) for key, value, at in self.pairs}
        return self._by_text.get(text)

    @property
    def reference(self) -> str | None:
        """The path, when this object stands for another one."""
        if len(self.pairs) == 1:
            key, value, _ = self.pairs[0]
            if key == "$ref" and isinstance(value, str):
                return value
        return None


@dataclass(slots=True, eq=False)
class Items:
    """An array: value and position."""

    at: int
    items: list[tuple[Tree, int]] = field(default_factory=list)


Tree: TypeAlias = "bool | int | Real | str | Members | Items | None"


def key_text(key: Tree) -> str:
    """How Java prints a key, which is how references spell it."""
    if isinstance(key, str):
        return key
    if isinstance(key, Members):
        # A queue is the one object that RocketMQ uses as a key; its print form is what fastjson
        # puts into paths.
        parts = [key.named(name) for name in ("topic", "brokerName", "queueId")]
        topic, broker, queue = (part and java_text(part[0]) for part in parts)
        if topic is not None and broker is not None and queue is not None:
            return f"MessageQueue [topic={topic}, brokerName={broker}, queueId={queue}]"
    return java_text(key)


def java_text(value: Tree) -> str:
    """A value as Java would print it: ``true``, ``null``, a decimal number, or JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, Real):
        # Java's BigDecimal and ours print alike (1.50, 1E+5), but Java's zero has no sign.
        return str(Decimal(value.text)) if value else str(abs(Decimal(value.text)))
    if isinstance(value, int):
        return str(value)
    return _json_text(value)


def _json_text(value: Tree) -> str:
    if isinstance(value, Members):
        last = {key_text(key): item for key, item, _ in value.pairs}
        inside = ",".join(
            f"{quote(name)}:{_json_text(item)}" for name, item in last.items() if item is not None
        )
        return f"{{{inside}}}"
    if isinstance(value, Items):
        return f"[{','.join(_json_text(item) for item, _ in value.items)}]"
    return quote(value) if isinstance(value, str) else java_text(value)


_ESCAPED: Final = re.compile('[\x00-\x1f"\\\\\x7f-\x9f\u2028\u2029]')
_SHORT_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def quote(text: str) -> str:
    """A JSON string, escaped where fastjson escapes."""
    if _ESCAPED.search(text) is None:
        return f'"{text}"'
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return _SHORT_ESCAPES.get(char) or f"\\u{ord(char):04X}"


def parse(text: str, *, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES) -> Tree:
    """Read one value and nothing after it.

    Raises:
        DialectError: If the text is not in the dialect, or goes beyond a bound.
    """
    return _Parser(text, max_depth, max_values).whole()


_GAP: Final = re.compile(r"(?:[ \t\r\n\f\b]+|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_GAP_AND_COMMAS: Final = re.compile(r"(?:[ \t\r\n\f\b,]+|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_NUMBER: Final = re.compile(r"([+-]?)([0-9]+)(\.[0-9]*)?([eE][+-]?[0-9]{1,4})?")
_JAVA_SUFFIX: Final = re.compile(r"[LSBFD](?![A-Za-z0-9_$])")
_WORD: Final = re.compile(r"[A-Za-z_$\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*")
_WORDS: Final[dict[str, bool | None]] = {
    "true": True,
    "false": False,
    "null": None,
    "undefined": None,
}
_PLAIN: Final = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_UNESCAPES: Final = {
    "b": "\b",
    "f": "\f",
    "F": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "/": "/",
    "\\": "\\",
    '"': '"',
    "'": "'",
    **{str(digit): chr(digit) for digit in range(8)},
}
_HEX: Final = re.compile(r"u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})")


class _Parser:
    def __init__(self, text: str, max_depth: int, max_values: int) -> None:
        self._text = text
        self._at = 0
        self._depth_left = max_depth
        self._values_left = max_values

    def whole(self) -> Tree:
        if self._text.startswith("\ufeff"):
            self._at = 1
        self._skip(_GAP)
        value = self._value()
        self._skip(_GAP)
        if self._at != len(self._text):
            raise DialectError("text goes on after its value", self._at)
        return value

    def _skip(self, gap: re.Pattern[str]) -> None:
        match = gap.match(self._text, self._at)
        assert match is not None, "a gap may be empty"
        self._at = match.end()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _value(self) -> Tree:
        self._values_left -= 1
        if self._values_left < 0:
            raise DialectError("more values than a body may hold", self._at)
        head = self._peek()
        if head in ('"', "'"):
            return self._string()
        if head == "{":
            return self._members()
        if head == "[":
            return self._array()
        if head.isdecimal() or head in ("-", "+"):
            return self._number()
        match = _WORD.match(self._text, self._at)
        if match is not None and match[0] in _WORDS:
            self._at = match.end()
            return _WORDS[match[0]]
        raise DialectError("a value was expected" if head else "the text ends too early", self._at)

    def _enter(self) -> None:
        self._depth_left -= 1
        if self._depth_left < 0:
            raise DialectError("nested too deeply", self._at)
        self._at += 1
        self._skip(_GAP_AND_COMMAS)

    def _members(self) -> Members:
        members = Members(self._at)
        self._enter()
        while self._peek() != "}":
            key = self._key()
            self._skip(_GAP)
            if self._peek() != ":":
                raise DialectError("a colon was expected", self._at)
            self._at += 1
            self._skip(_GAP)
            at = self._at
            members.pairs.append((key, self._value(), at))
            self._separator("}")
        self._at += 1
        self._depth_left += 1
        return members

    def _array(self) -> Items:
        array = Items(self._at)
        self._enter()
        while self._peek() != "]":
            at = self._at
            array.items.append((self._value(), at))
            self._separator("]")
        self._at += 1
        self._depth_left += 1
        return array

    def _separator(self, end: str) -> None:
        self._skip(_GAP)
        if self._peek() == ",":
            self._skip(_GAP_AND_COMMAS)
        elif self._peek() != end:
            raise DialectError(f"a comma or {end} was expected", self._at)

    def _key(self) -> Tree:
        if self._peek() not in ('"', "'", "{", "["):
            match = _WORD.match(self._text, self._at)
            if match is not None:
                self._at = match.end()
                return match[0]
        return self._value()

    def _number(self) -> int | Real:
        match = _NUMBER.match(self._text, self._at)
        if match is None:
            raise DialectError("a sign without a number", self._at)
        text = match[0]
        if len(text) > _MAX_NUMBER_CHARS:
            raise DialectError("a number with too many digits", self._at)
        self._at = match.end()
        suffix = _JAVA_SUFFIX.match(self._text, self._at)
        if suffix is not None:
            self._at = suffix.end()
        if match[3] is None and match[4] is None:
            return int(text)
        number = Real(text)
        number.text = text
        return number

    def _string(self) -> str:
        start = self._at
        plain = _PLAIN[self._text[start]]
        end_quote = self._text[start]
        pieces: list[str] = []
        self._at += 1
        while True:
            match = plain.match(self._text, self._at)
            assert match is not None, "a run may be empty"
            pieces.append(match[0])
            self._at = match.end() + 1
            stop = self._text[match.end() : self._at]
            if stop == end_quote:
                break
            if not stop:
                raise DialectError("a string without an end", start)
            pieces.append(self._unescaped())
        text = "".join(pieces)
        if len(pieces) > 1 and not text.isascii():
            # Halves of a pair come as two escapes; one half alone is no character.
            try:
                text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
            except UnicodeDecodeError:
                raise DialectError("a string with half a surrogate pair", start) from None
        return text

    def _unescaped(self) -> str:
        at = self._at
        char = _UNESCAPES.get(self._text[at : at + 1])
        if char is not None:
            self._at += 1
            return char
        match = _HEX.match(self._text, at)
        if match is None:
            raise DialectError("an escape that no string has", at)
        self._at = match.end()
        return chr(int(match[1] or match[2], 16))
