"""Arrow columns of texts, looked at as bytes: hashes and rules for all rows at once."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]

_BLANK: Final = 0x20
_NAME_END: Final = 1
_VALUE_END: Final = 2


class Wrong(NamedTuple):
    """The first text of a column that breaks a rule, and which."""

    at: int
    reason: str


def texts_of(array: pa.Array) -> tuple[npt.NDArray[np.uint8], Numbers]:
    """The bytes of texts, or of binaries, and where each starts and the last one ends."""
    if not len(array):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    starts = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
    raw = array.buffers()[2]
    data = np.frombuffer(raw, np.uint8) if raw is not None else np.empty(0, np.uint8)
    first = int(starts[0])
    return data[first : int(starts[-1])], starts.astype(np.int64) - first


def java_hashes(texts: pa.Array) -> Numbers:
    """Java's ``String.hashCode`` of each text, 0 of those that are null."""
    data, starts = texts_of(texts)
    units: npt.NDArray[np.uint8] | npt.NDArray[np.uint16] = data
    if data.size and int(data.max()) >= 0x80:
        # Java counts units of UTF-16: one where a character starts, two if it takes four bytes.
        before = np.zeros(data.size + 1, np.int64)
        np.cumsum(((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0), out=before[1:])
        starts = before[starts]
        units = np.frombuffer(data.tobytes().decode().encode("utf-16-le"), np.uint16)
    lengths = np.diff(starts)
    powers = np.full(int(lengths.max(initial=0)) + 1, 31, np.uint32)
    powers[0] = 1
    powers = np.cumprod(powers, dtype=np.uint32)
    behind = np.repeat(starts[1:], lengths) - 1 - np.arange(units.size)
    sums = np.zeros(units.size + 1, np.uint32)
    np.cumsum(units.astype(np.uint32) * powers[behind], dtype=np.uint32, out=sums[1:])
    return (sums[starts[1:]] - sums[starts[:-1]]).view(np.int32).astype(np.int64)


def integer_hashes(numbers: Numbers) -> Numbers:
    """Java's ``hashCode`` of each number: of an Integer, or of a Long where it is none."""
    folded = (numbers ^ (numbers >> 32)).astype(np.int32).astype(np.int64)
    return np.where(numbers == numbers.astype(np.int32), numbers, folded)


def first_wrong(texts: pa.Array, *, one_word: bool = False) -> Wrong | None:
    """Find a text that a property cannot carry; what is null breaks no rule.

    It is not UTF-8, is blank, has one of the separators in it, or a blank where it must be
    ``one_word``.
    """
    data, starts = texts_of(texts)
    not_utf8 = _first_not_utf8(texts)
    if not_utf8 is not None:
        return Wrong(not_utf8, "is not UTF-8")
    low = data <= _BLANK
    lengths = np.diff(starts)
    if not low.any() and (not len(lengths) or int(lengths.min()) > 0):
        return None
    for mark in (_NAME_END, _VALUE_END):
        found = np.flatnonzero(data == mark)
        if found.size:
            return Wrong(_index_of(starts, int(found[0])), f"has 0x0{mark} in it, a separator")
    solid = np.zeros(data.size + 1, np.int64)
    np.cumsum(~low, out=solid[1:])
    blank = solid[starts[1:]] == solid[starts[:-1]]
    if texts.null_count:
        blank &= texts.is_valid().to_numpy(zero_copy_only=False)
    if blank.any():
        return Wrong(int(blank.argmax()), "is blank")
    if one_word:
        found = np.flatnonzero(data == _BLANK)
        if found.size:
            return Wrong(
                _index_of(starts, int(found[0])), "has a blank in it, which separates keys"
            )
    return None


def _first_not_utf8(texts: pa.Array) -> int | None:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        data, starts = texts_of(texts)
        for at in range(len(texts)):
            try:
                data[int(starts[at]) : int(starts[at + 1])].tobytes().decode()
            except UnicodeDecodeError:
                return at
    return None


def _index_of(starts: Numbers, byte: int) -> int:
    """The text that a byte belongs to."""
    return int(np.searchsorted(starts, byte, side="right")) - 1
