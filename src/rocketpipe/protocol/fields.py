"""Typed dataclasses to and from the text that headers travel as.

A header crosses the wire as ``{"queueId": "3"}``: camelCase names, every value text. ``codec_for``
reads a dataclass once and keeps the recipe, so a request costs one pass over its fields and no
reflection.

Some requests exist in two spellings, long names and single letters (a send is 10 or 310). Such a
field is declared ``wire("producerGroup", short="a")``; readers take either, as real peers mix them.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

from rocketpipe.errors import HeaderError, LocalProtocolError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bits:
    """How wide a whole number is at the peer; one that does not fit is refused."""

    width: int


#: An ``int`` that is Java's int on the wire. A plain ``int`` is Java's long.
I32 = Annotated[int, Bits(32)]

_HEADER: Final = "header"
_MAX_NUMBER_DIGITS: Final = 20


def wire(name: str | None = None, *, short: str | None = None, **field: Any) -> Any:
    """Declare a field whose name on the wire is not its camelCase name, or has a short form."""
    return dataclasses.field(metadata={"wire": name, "short": short}, **field)


def raw_body(**field: Any) -> Any:
    """Declare the field that travels as the frame's body, as it is."""
    return dataclasses.field(metadata={"place": "raw"}, **field)


def json_body(*, strict: bool = False, **field: Any) -> Any:
    """Declare the field that travels as the frame's body, as JSON.

    ``strict`` quotes every key, which all peers read; without it numbers are bare keys, as Java
    writes them.
    """
    return dataclasses.field(metadata={"place": "json", "strict": strict}, **field)


def reply_code(*accepted: int) -> Any:
    """Declare the field of a reply that holds its code; any of ``accepted`` is an answer."""
    return dataclasses.field(
        default=accepted[0], metadata={"place": "code", "accepted": frozenset(accepted)}
    )


def reply_remark() -> Any:
    """Declare the field ``remark`` of a reply: what is said beside its code, if anything."""
    return dataclasses.field(default=None, metadata={"place": "remark"})


def place_of(field: dataclasses.Field[Any]) -> str:
    """Where a field travels: ``header``, ``raw``, ``json``, or a reply's ``code``, ``remark``."""
    place: str = field.metadata.get("place", _HEADER)
    return place


@dataclass(frozen=True, slots=True)
class _Row:
    attribute: str
    name: str
    short: str
    read: Callable[[str], Any]
    required: bool


class Codec(Generic[T]):
    """How the header fields of one dataclass are written and read."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        hints = typing.get_type_hints(kind, include_extras=True)
        self.rows: tuple[_Row, ...] = tuple(
            _row(field, hints[field.name])
            for field in dataclasses.fields(kind)  # type: ignore[arg-type]
            if place_of(field) == _HEADER
        )
        self._names = tuple((row.attribute, row.name) for row in self.rows)
        self._letters = tuple((row.attribute, row.short) for row in self.rows)

    def decode(self, fields: Mapping[str, str], *, short: bool = False) -> dict[str, Any]:
        """Read the constructor arguments of ``kind`` that travel in the header.

        Either spelling of a name is taken; ``short`` says which one counts if both are there.

        Raises:
            HeaderError: If a required field is missing, or a value is not of its type.
        """
        values: dict[str, Any] = {}
        for row in self.rows:
            text = fields.get(row.short if short else row.name)
            if text is None:
                text = fields.get(row.name if short else row.short)
                if text is None:
                    if row.required:
                        raise HeaderError(f"the custom field <{row.name}> is null")
                    continue
            try:
                values[row.attribute] = row.read(text)
            except ValueError:
                raise HeaderError(
                    f"{self.kind.__name__}.{row.name} cannot be {_excerpt(text)}"
                ) from None
        return values

    def encode(self, value: T, *, short: bool = False) -> dict[str, str]:
        """Write the fields that are set, under their long names or their letters."""
        texts: dict[str, str] = {}
        for attribute, name in self._letters if short else self._names:
            item = getattr(value, attribute)
            if item is None:
                continue
            kind = type(item)
            if kind is str:
                texts[name] = item
            else:
                texts[name] = str(item) if kind is int else _text(item)
        return texts


def _row(field: dataclasses.Field[Any], hint: Any) -> _Row:
    name = field.metadata.get("wire") or camel(field.name)
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return _Row(field.name, name, field.metadata.get("short") or name, _reader(hint), required)


def camel(name: str) -> str:
    """``queue_id`` → ``queueId``."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _reader(hint: Any) -> Callable[[str], Any]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (hint,) = (arm for arm in typing.get_args(hint) if arm is not types.NoneType)
    if typing.get_origin(hint) is Annotated:
        _, bits = typing.get_args(hint)
        return _whole_number(bits.width)
    hint = getattr(hint, "__supertype__", hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum_reader(hint)
    return _READERS[hint]


def _whole_number(width: int) -> Callable[[str], int]:
    bound = 1 << (width - 1)

    def read(text: str) -> int:
        # int() alone would take "1_000", " 7 ", other scripts' digits and any length.
        if len(text) > _MAX_NUMBER_DIGITS:
            raise ValueError(text)
        number = int(text)
        if str(number) != text and not (text.isascii() and text.lstrip("+-").isdigit()):
            raise ValueError(text)
        if not -bound <= number < bound:
            raise ValueError(text)
        return number

    return read


def _flag(text: str) -> bool:
    # Java's Boolean.parseBoolean; C++ peers write 0 and 1.
    return text.lower() == "true" or text == "1"


def _enum_reader(kind: type[enum.Enum]) -> Callable[[str], enum.Enum]:
    by_name = {name.upper(): member for name, member in kind.__members__.items()}

    def read(text: str) -> enum.Enum:
        member = by_name.get(text.upper())  # Java peers read names in any letter case
        if member is None:
            raise ValueError(text)
        return member

    return read


_READERS: dict[type, Callable[[str], Any]] = {
    str: str,
    int: _whole_number(64),
    bool: _flag,
    float: float,
}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))  # an IntEnum or IntFlag is a number at the peers
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, str | float):
        return str(value)
    raise LocalProtocolError(f"a header field cannot carry {type(value).__name__}")


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


_CODECS: dict[type, Codec[Any]] = {}


def codec_for(kind: type[T]) -> Codec[T]:
    """The codec of a dataclass, made at first use."""
    codec: Codec[T] | None = _CODECS.get(kind)
    if codec is None:
        codec = _CODECS[kind] = Codec(kind)
    return codec
