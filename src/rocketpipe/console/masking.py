"""Fields that nobody sees by a console: their values are left out of bodies and properties.

A field is known by its name, wherever it stands in a body of JSON, also in JSON that is written as
text within it. A body of another kind, or one too long to be looked through, cannot be told apart
into what may be seen and what may not, so none of it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

#: What stands where a value was.
MASK: Final = "******"
#: Longer bodies are not looked through.
MAX_MASKED: Final = 1 << 20
_MAX_DEPTH: Final = 64
_MAX_NAME: Final = 128


class _TooDeep(Exception):
    """JSON in JSON in JSON."""


class Masks:
    """Leaves out the values of fields by their names, in capitals or not; without any, nothing."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Take the names.

        Raises:
            ValueError: If one is empty or too long.
        """
        self._names = frozenset(name.strip().casefold() for name in names)
        if any(not name or len(name) > _MAX_NAME for name in self._names):
            raise ValueError(f"a field's name has 1 to {_MAX_NAME} characters")

    def __bool__(self) -> bool:
        return bool(self._names)

    @property
    def names(self) -> list[str]:
        """What is masked, in order."""
        return sorted(self._names)

    def body(self, body: bytes) -> bytes | None:
        """A body without the values of masked fields; None if these cannot be told."""
        if not self._names or not body:
            return body
        if len(body) > MAX_MASKED:
            return None
        try:
            return msgspec.json.encode(self._value(msgspec.json.decode(body), 0))
        except (msgspec.MsgspecError, _TooDeep, RecursionError, UnicodeError):
            return None

    def properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Properties without the values of masked ones."""
        return {
            name: MASK if name.casefold() in self._names else self._text(value, 0)
            for name, value in properties.items()
        }

    def _value(self, value: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise _TooDeep
        if isinstance(value, dict):
            return {
                name: MASK
                if name.strip().casefold() in self._names
                else self._value(each, depth + 1)
                for name, each in value.items()
            }
        if isinstance(value, list):
            return [self._value(each, depth + 1) for each in value]
        return self._text(value, depth) if isinstance(value, str) else value

    def _text(self, text: str, depth: int) -> str:
        """A text, and JSON that it may be."""
        if text.lstrip()[:1] not in ("{", "["):
            return text
        try:
            inner = msgspec.json.decode(text)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            # It begins so and is none; what names a field may have its value too.
            lower = text.casefold()
            return MASK if any(name in lower for name in self._names) else text
        return msgspec.json.encode(self._value(inner, depth + 1)).decode()
