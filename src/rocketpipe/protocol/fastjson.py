"""JSON bodies to and from typed values, as Java peers write and read them.

``read`` takes strict JSON and fastjson's dialect alike, ``write`` gives fastjson's text:

    field order       alphabetical by wire name          null fields        left out
    enums             by name; read also by ordinal      bytes              base64
    integer keys      0:"addr", or "0":"addr" if strict  sets               arrays
    object keys       {"queueId":0,…}:5, or the object's JSON text in quotes if strict

Bodies are ``Body`` classes (msgspec structs). What strict JSON can say is read by msgspec in one
pass; only the rest is parsed here. As at Java's peers, unknown keys are ignored, the last of equal
keys wins, and a null (or an enum name nobody knows) leaves a field at its default.
"""

from __future__ import annotations

import base64
import enum
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeVar

import msgspec

from rocketpipe.errors import BodyError, LocalProtocolError
from rocketpipe.model.body import Body
from rocketpipe.protocol.json_dialect import MAX_VALUES, DialectError, parse, quote
from rocketpipe.protocol.json_fit import Fitting, Shape, shape_of

__all__ = ["MAX_BODY_BYTES", "Body", "read", "write"]

T = TypeVar("T")

MAX_BODY_BYTES: Final = 16 * 1024 * 1024


def read(
    data: bytes | str,
    kind: type[T],
    *,
    max_bytes: int = MAX_BODY_BYTES,
    max_odd_values: int = MAX_VALUES,
) -> T:
    """Read a body as a value of ``kind``: a struct, or a dict, list or set of such.

    Plain JSON is read quickly whatever it holds; of anything else, which takes some microseconds a
    value, there may be ``max_odd_values``.

    Raises:
        BodyError: If the text is neither JSON nor fastjson's dialect, is not of this kind, or is
            larger, deeper or fuller than any body.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    if not data:
        raise BodyError(f"an empty body cannot be {_name_of(kind)}", 0)
    if len(data) > max_bytes:
        raise BodyError(f"a body of {len(data)} bytes, {max_bytes} are the most", max_bytes)
    if data.count(b":") + data.count(b",") > MAX_VALUES:
        raise BodyError("more values than a body may hold", len(data))
    shape = shape_of(kind)
    if shape.decoder is not None and b"$ref" not in data:
        try:
            value: T = shape.decoder.decode(data)
            return value
        except (ValueError, RecursionError):
            # Perhaps the dialect, perhaps nonsense: the slow way knows, and says where.
            pass
    return _read_dialect(data, kind, shape, max_odd_values)


def _read_dialect(data: bytes, kind: type[T], shape: Shape, max_values: int) -> T:
    text = data.decode("utf-8", "replace")  # as Java does
    try:
        tree = parse(text, max_values=max_values)
        value = Fitting(tree).fit(shape, tree, 0, ())
        if value is None:
            raise DialectError(f"null cannot be {_name_of(kind)}", 0)
    except DialectError as error:
        raise BodyError(error.reason, len(text[: error.at].encode())) from None
    fitted: T = value
    return fitted


def _name_of(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)


def write(value: Any, *, strict: bool = False) -> bytes:
    """Write a body compactly, as fastjson would; ``strict`` quotes every key.

    Raises:
        LocalProtocolError: If the value holds something that no body carries.
    """
    try:
        return _text(value, strict).encode()
    except UnicodeEncodeError:
        raise LocalProtocolError("a body cannot carry half a surrogate pair") from None


def _text(value: Any, strict: bool) -> str:
    writer = _WRITERS.get(type(value))
    if writer is None:
        writer = _WRITERS[type(value)] = _writer_for(type(value))
    return writer(value, strict)


def _struct_writer(kind: type[msgspec.Struct]) -> Callable[[Any, bool], str]:
    rows = sorted((f.encode_name, f.name) for f in msgspec.structs.fields(kind))
    table = [(f"{quote(wire_name)}:", name) for wire_name, name in rows]

    def write_struct(value: Any, strict: bool) -> str:
        parts = [
            head + _text(item, strict)
            for head, name in table
            if (item := getattr(value, name)) is not None
        ]
        return f"{{{','.join(parts)}}}"

    return write_struct


def _write_dict(value: Mapping[Any, Any], strict: bool) -> str:
    parts = [
        f"{_key(key, strict)}:{_text(item, strict)}"
        for key, item in value.items()
        if item is not None
    ]
    return f"{{{','.join(parts)}}}"


def _key(key: Any, strict: bool) -> str:
    text = _text(key, strict)
    return quote(text) if strict and not text.startswith('"') else text


def _write_array(value: Any, strict: bool) -> str:
    if all(type(item) is int for item in value):
        return f"[{','.join(map(str, value))}]"
    return f"[{','.join(_text(item, strict) for item in value)}]"


def _write_set(value: Any, strict: bool) -> str:
    # Java's order is its hash order; ours is at least the same every time.
    return f"[{','.join(sorted(_text(item, strict) for item in value))}]"


def _write_float(value: float, _: bool) -> str:
    """As Java prints it: 0.001 to 9999999.0 plainly, else 1.0E7."""
    if not math.isfinite(value):
        return "null"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), "a finite number has an exponent"
    power = len(digits) + exponent - 1
    if value == 0 or -3 <= power < 7:
        text = f"{Decimal(repr(value)):f}"
        return text if "." in text else f"{text}.0"
    mantissa = "".join(map(str, digits)).rstrip("0")
    return f"{'-' * sign}{mantissa[0]}.{mantissa[1:] or '0'}E{power}"


_WRITERS: dict[type, Callable[[Any, bool], str]] = {
    str: lambda value, _: quote(value),
    int: lambda value, _: str(value),
    bool: lambda value, _: "true" if value else "false",
    type(None): lambda value, _: "null",
    float: _write_float,
    bytes: lambda value, _: f'"{base64.b64encode(value).decode()}"',
    dict: _write_dict,
    list: _write_array,
    tuple: _write_array,
    set: _write_set,
    frozenset: _write_set,
}


def _writer_for(kind: type) -> Callable[[Any, bool], str]:
    if issubclass(kind, msgspec.Struct):
        return _struct_writer(kind)
    if issubclass(kind, enum.Flag):
        return lambda value, _: str(value.value)  # bits are a number at the peers
    if issubclass(kind, enum.Enum):
        return lambda value, _: quote(value.name)
    for base in (str, int, float, bytes, dict, list, tuple):
        if issubclass(kind, base):
            return _WRITERS[base]
    raise LocalProtocolError(f"a body cannot carry {kind.__name__}")
