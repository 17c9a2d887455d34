"""One JSON body as the fields that were asked for: what each type takes, row by row.

This is the definition of ``decode=json``; ``body_decode`` has the same for a whole batch at once,
wherever that is certain to come out alike. Types take what Spark's ``from_json`` takes:

    missing field, or null     NULL
    field nobody asked for     left out; of one that is there twice, the last counts
    BOOLEAN                    true, false
    TINYINT to BIGINT          a number without fraction and exponent, in their range
    FLOAT, DOUBLE              any number; "NaN", "Infinity", "-Infinity" as text
    DECIMAL                    a number or its text, rounded half up to the scale
    STRING                     text; anything else as the JSON of it, numbers as they were written
    DATE                       "2013-01-31"
    TIMESTAMP                  "2013-01-31T05:15:00.123456Z", any offset; without one it is a time
                               of the option ``timeZone``. A whole number is seconds since 1970
    TIMESTAMP_NTZ              the same text without an offset
    ARRAY, STRUCT, MAP         an array; an object; an object, whose names are text

A value that does not fit is NULL where it stands, and noted; all others keep theirs. A body that is
not exactly one JSON object, in UTF-8, has no fields at all. A byte order mark before it is skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa

#: Bodies that nest deeper are not read: parsers recurse, and stacks end.
MAX_DEPTH: Final = 128

FIRST_MOMENT_US: Final = -62_135_596_800_000_000
#: The years 1 to 9999, beyond which Spark shows nothing.
BEHIND_MOMENTS_US: Final = 253_402_300_800_000_000

_MAX_SHOWN: Final = 40
_TOLD_FIELDS: Final = 5
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME: Final = re.compile(
    _DATE.pattern + r"(?:[T ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?)?"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_NO_NUMBERS: Final = {
    **dict.fromkeys(("NaN",), float("nan")),
    **dict.fromkeys(("INF", "+INF", "Infinity", "+Infinity"), float("inf")),
    **dict.fromkeys(("-INF", "-Infinity"), float("-inf")),
}


class NotAnObject(ValueError):
    """A body that is not exactly one JSON object; the text says what it is instead."""


class _Misfit(Exception):
    """A value that its field does not take."""

    def __init__(self, more: str = "") -> None:
        self.more = more


class Number(str):
    """A number of a body, as it was written."""

    __slots__ = ()


def _refused(word: str) -> NoReturn:
    raise json.JSONDecodeError(f"{word} is no value", "", 0)


_DECODER: Final = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_refused)


def parse_object(body: bytes) -> dict[str, Any]:
    """The names and values of a body; numbers are given as `Number`.

    Raises:
        NotAnObject: If it is anything but one JSON object in UTF-8.
    """
    if is_too_deep(body):
        raise NotAnObject(f"not JSON: nested more than {MAX_DEPTH} deep")
    try:
        value = _DECODER.decode(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise NotAnObject(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise NotAnObject(f"not JSON: {error}") from None
    except RecursionError:  # brackets that no text hides, though nothing closes them
        raise NotAnObject(f"not JSON: nested more than {MAX_DEPTH} deep") from None
    if type(value) is not dict:
        raise NotAnObject("not a JSON object")
    return value


def is_too_deep(body: bytes) -> bool:
    """Whether its arrays and objects nest deeper than is read."""
    if len(body) <= 2 * MAX_DEPTH or body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return False
    octets = np.frombuffer(_TEXT.sub(b"", body), np.uint8)
    steps = np.zeros(octets.size, np.int8)
    steps[(octets == ord("{")) | (octets == ord("["))] = 1
    steps[(octets == ord("}")) | (octets == ord("]"))] = -1
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0)) > MAX_DEPTH


class FieldReader:
    """Reads the same fields out of one body after the other."""

    def __init__(self, fields: Sequence[pa.Field], zone: tzinfo = UTC) -> None:
        """``zone`` is where times are from that name no offset."""
        self._zone = zone
        self._fields = [(field.name, self._taker(field.type)) for field in fields]

    def read(self, body: bytes) -> tuple[list[Any], str | None]:
        """The value of each field, as Arrow takes it, and what did not fit, if something did not.

        Raises:
            NotAnObject: If the body is no JSON object.
        """
        value = parse_object(body)
        misfits: list[str] = []
        row = [_taken(take, value.get(name), name, misfits) for name, take in self._fields]
        if not misfits:
            return row, None
        more = len(misfits) - _TOLD_FIELDS
        told = "; ".join(misfits[:_TOLD_FIELDS]) + (f"; and {more} more" if more > 0 else "")
        return row, told.encode("utf-8", "replace").decode()  # halves of surrogate pairs

    def _taker(self, kind: pa.DataType) -> _Taker:
        """What makes a value of this type; it raises `_Misfit`, or notes what is inside it."""
        types = pa.types
        if types.is_integer(kind):
            bits = kind.bit_width - 1
            return _plain(lambda value: _integer(value, -1 << bits, (1 << bits) - 1))
        if types.is_decimal(kind):
            return _plain(lambda value: _decimal(value, kind.precision, kind.scale))
        if types.is_timestamp(kind):
            return _plain(self._moment if kind.tz is not None else _local_time)
        if types.is_list(kind):
            return _elements(self._taker(kind.value_type))
        if types.is_map(kind):
            return _entries(self._taker(kind.item_type))
        if types.is_struct(kind):
            return _members({field.name: self._taker(field.type) for field in kind})
        if types.is_floating(kind):
            return _plain(_float)
        simple = {pa.bool_(): _boolean, pa.string(): _string, pa.date32(): _date}
        return _plain(simple[kind])

    def _moment(self, value: Any) -> int:
        if type(value) is Number and _WHOLE.fullmatch(value):
            micros = int(value) * 1_000_000
            if not FIRST_MOMENT_US <= micros < BEHIND_MOMENTS_US:
                raise _Misfit(
                    ", which would be seconds since 1970: read milliseconds as BIGINT, then use "
                    "timestamp_millis"
                )
            return micros
        local, offset = _time_of(value)
        zone = self._zone if offset is None else _zone_of(offset)
        try:
            micros = (local.replace(tzinfo=zone) - _EPOCH) // _MICROSECOND
        except OverflowError:
            raise _Misfit from None
        if not FIRST_MOMENT_US <= micros < BEHIND_MOMENTS_US:
            raise _Misfit
        return micros


_Taker = Callable[[Any, str, list[str]], Any]


def _taken(take: _Taker, value: Any, place: str, misfits: list[str]) -> Any:
    if value is None:
        return None
    try:
        return take(value, place, misfits)
    except _Misfit as misfit:
        shown = as_text(value)
        shown = shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "…"
        shown = shown if type(value) is not str else f'"{shown}"'
        misfits.append(f"{place}: {shown} does not fit{misfit.more}")
        return None


def _plain(make: Callable[[Any], Any]) -> _Taker:
    return lambda value, place, misfits: make(value)


def _elements(take: _Taker) -> _Taker:
    def elements(value: Any, place: str, misfits: list[str]) -> list[Any]:
        if type(value) is not list:
            raise _Misfit
        return [_taken(take, each, f"{place}[{at}]", misfits) for at, each in enumerate(value)]

    return elements


def _entries(take: _Taker) -> _Taker:
    def entries(value: Any, place: str, misfits: list[str]) -> list[tuple[str, Any]]:
        if type(value) is not dict:
            raise _Misfit
        return [
            (_string(name), _taken(take, each, f"{place}.{name}", misfits))
            for name, each in value.items()
        ]

    return entries


def _members(takers: dict[str, _Taker]) -> _Taker:
    def members(value: Any, place: str, misfits: list[str]) -> dict[str, Any]:
        if type(value) is not dict:
            raise _Misfit
        return {
            name: _taken(take, value.get(name), f"{place}.{name}", misfits)
            for name, take in takers.items()
        }

    return members


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _Misfit
    return value


def _integer(value: Any, least: int, most: int) -> int:
    if type(value) is not Number or _WHOLE.fullmatch(value) is None:
        raise _Misfit
    number = int(value)
    if not least <= number <= most:
        raise _Misfit
    return number


def _float(value: Any) -> float:
    if type(value) is Number:
        return float(value)
    if type(value) is str and value in _NO_NUMBERS:
        return _NO_NUMBERS[value]
    raise _Misfit


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if type(value) not in (Number, str) or _DECIMAL.fullmatch(value) is None:
        raise _Misfit
    context = Context(prec=precision, rounding=ROUND_HALF_UP, Emin=-999_999_999, Emax=999_999_999)
    try:
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), context=context)
    except InvalidOperation:  # more digits than it has room for
        raise _Misfit from None


def _string(value: Any) -> str:
    text = as_text(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            raise _Misfit from None
    return text


def as_text(value: Any) -> str:
    """A value as a text column shows it: text as it is, all else as JSON without blanks."""
    if type(value) is str:
        return value
    return _json(value)


def _json(value: Any) -> str:
    if type(value) is dict:
        return "{" + ",".join([f"{_quoted(name)}:{_json(value[name])}" for name in value]) + "}"
    if type(value) is list:
        return "[" + ",".join([_json(each) for each in value]) + "]"
    if type(value) is Number:
        return str(value)
    return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _date(value: Any) -> int:
    found = _DATE.fullmatch(value) if type(value) is str else None
    if found is None:
        raise _Misfit
    try:
        return (date(int(found[1]), int(found[2]), int(found[3])) - _EPOCH_DAY).days
    except ValueError:
        raise _Misfit from None


def _local_time(value: Any) -> int:
    local, offset = _time_of(value)
    if offset is not None:
        raise _Misfit(", as it names an offset")
    return (local.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def _time_of(value: Any) -> tuple[datetime, str | None]:
    """A time without a zone, and the offset that its text names."""
    found = _TIME.fullmatch(value) if type(value) is str else None
    if found is None:
        raise _Misfit
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction = int((found[7] or "")[:6].ljust(6, "0"))
    try:
        local = datetime(year, month, day, hour, minute, second, fraction)
    except ValueError:
        raise _Misfit from None
    return local, found[8]


def _zone_of(offset: str) -> tzinfo:
    if offset == "Z":
        return UTC
    minutes = int(offset[1:3]) * 60 + int(offset[-2:] if len(offset) > 3 else 0)
    if minutes > 18 * 60 or (len(offset) > 3 and int(offset[-2:]) > 59):
        raise _Misfit
    return timezone(timedelta(minutes=-minutes if offset[0] == "-" else minutes))
