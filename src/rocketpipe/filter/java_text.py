"""How Java makes numbers out of text, for expressions that must mean here what they mean there.

    Integer, Long   a sign, then decimal digits of any script in the first Unicode plane; no blanks
    Double          blanks and control characters around it, a sign, then one of
                      NaN   Infinity
                      12   12.   12.5   .5   each with e-7, and with f, F, d or D at the end
                      0x1.8p3   hexadecimal: the exponent of two is not optional
    Boolean         "true" in any case is true, all else is false

Python's own ``int`` and ``float`` differ: they take ``1_000`` and ``inf``, refuse ``1.5f`` and
``0x1p3``, and strip other blanks. Reading takes time linear in the text, whatever is in it.
"""

from __future__ import annotations

import math
import re
import struct
import unicodedata
from typing import Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_BLANKS: Final = "".join(map(chr, range(0x21)))
_LONG_DIGITS: Final = len(str(LONG_MAX))
_INT_SURE_DIGITS: Final = len(str(INT_MAX)) - 1

_AS_DOUBLE: Final = struct.Struct(">d")
_AS_LONG: Final = struct.Struct(">q")

# Quantifiers are possessive (``++``): what they took is never given back, so nothing backtracks.
_WHOLE: Final = re.compile(r"([+-]?)0*+([0-9]*+)")
_DECIMAL: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?)"
)
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]++\.?|[0-9a-fA-F]*+\.[0-9a-fA-F]++)[pP][+-]?[0-9]++[fFdD]?"
)


def trim(text: str) -> str:
    """Cut blanks as ``String.trim`` does: all up to U+0020, and no others."""
    return text.strip(_BLANKS)


def read_int(text: str) -> int:
    """Read as ``Integer.valueOf`` does.

    Raises:
        ValueError: If this is not a number, or takes more than 32 bits.
    """
    # Nearly every number is short and plain.
    if len(text) <= _INT_SURE_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    return _read_whole(text, INT_MAX)


def read_long(text: str) -> int:
    """Read as ``Long.valueOf`` does.

    Raises:
        ValueError: If this is not a number, or takes more than 64 bits.
    """
    return _read_whole(text, LONG_MAX)


def read_double(text: str) -> float:
    """Read as ``Double.valueOf`` does; what is too large becomes infinite, too small zero.

    Raises:
        ValueError: If this is not a number.
    """
    trimmed = trim(text)
    if _DECIMAL.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD"))
    if _HEXADECIMAL.fullmatch(trimmed):
        try:
            return float.fromhex(trimmed.rstrip("fFdD"))
        except OverflowError:
            return -math.inf if trimmed[0] == "-" else math.inf
    raise _not_a("double", text)


def read_boolean(text: str) -> bool:
    """Read as ``Boolean.valueOf`` does: nothing is refused."""
    return text.lower() == "true"


def double_rank(value: float) -> int:
    """Give a whole number that orders doubles as ``Double.compareTo`` does.

    Unlike ``<``, that order is total: -0.0 comes before 0.0, and NaN after everything.
    """
    if math.isnan(value):
        return 1 << 63
    bits: int = _AS_LONG.unpack(_AS_DOUBLE.pack(value))[0]
    return bits if bits >= 0 else -1 - (bits & LONG_MAX)


def _read_whole(text: str, most: int) -> int:
    if not text.isascii():
        text = "".join(map(_ascii_digit, text))
    match = _WHOLE.fullmatch(text)
    if match is None or not text[-1:].isdigit() or len(match[2]) > _LONG_DIGITS:
        raise _not_a("whole number", text)
    number = int(match[2] or "0")
    if match[1] == "-":
        number = -number
    if not -most - 1 <= number <= most:
        raise _not_a(f"number of {most.bit_length() + 1} bits", text)
    return number


def _ascii_digit(char: str) -> str:
    # Java walks UTF-16 units, so digits beyond the first plane are none to it.
    digit = unicodedata.decimal(char, None) if char <= "\uffff" else None
    return char if digit is None else str(digit)


def _not_a(kind: str, text: str) -> ValueError:
    return ValueError(f"not a {kind}: {text[:40]!r}{'…' if len(text) > 40 else ''}")
