"""Runs of bytes in one buffer as Arrow arrays, without a step in Python for each.

A run is where it starts and how long it is. Arrow copies many of them at once: the buffer is
looked at as an array whose elements are, in turn, what lies between two runs, and a run.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

#: Arrow counts the bytes of an array of this kind in 32 bits.
MAX_BUFFER_BYTES: Final = (1 << 31) - 1

_HEX_PAIRS: Final = np.frombuffer(
    "".join(f"{octet:02X}" for octet in range(256)).encode("ascii"), np.uint16
)


def runs(buffer: Any, starts: Ints, lengths: Ints, *, padded: bool = False) -> pa.Array:
    """Copy runs, in the order of the buffer and apart from each other, into a binary array.

    ``padded`` adds an element of whatever lies before the first run, so that words which begin in
    the last run can be read whole.
    """
    count = starts.size
    edges = np.empty(2 * count + 2, np.int32)
    edges[0] = 0
    edges[1:-1:2] = starts
    edges[2:-1:2] = starts + lengths
    edges[-1] = edges[-2]
    whole = pa.Array.from_buffers(
        pa.binary(), 2 * count + 1, [None, pa.py_buffer(edges), pa.py_buffer(buffer)]
    )
    wanted = np.arange(1, 2 * count + 2, 2, dtype=np.int32)
    if padded:
        wanted[-1] = 0
        return whole.take(pa.array(wanted))
    return whole.take(pa.array(wanted[:-1]))


def octets_of(array: pa.Array) -> tuple[Octets, Ints]:
    """All bytes of a binary or text array, and where in them elements begin and the last ends."""
    _, edges, data = array.buffers()
    places = np.frombuffer(edges, np.int32)[array.offset : array.offset + len(array) + 1]
    octets = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return octets, places.astype(np.int64)


def words_at(octets: Octets, places: Ints, kind: str | np.dtype[Any]) -> Any:
    """Read one number, or one group of fields, at each place; it need not be aligned."""
    dtype = np.dtype(kind)
    # As bytes without a meaning, which are copied at once and not field by field.
    raw = np.dtype((np.void, dtype.itemsize)) if dtype.names else dtype
    every = np.ndarray((octets.size - dtype.itemsize + 1,), raw, octets, strides=(1,))
    return every[places].view(dtype) if dtype.names else every[places]


def texts(values: pa.Array) -> pa.Array:
    """Look at bytes that are known to be UTF-8 as text."""
    return values.view(pa.string())


def is_utf8(values: pa.Array) -> bool:
    """Tell whether each element is UTF-8 by itself."""
    octets, places = octets_of(values)
    if octets[places[0] : places[-1]].max(initial=0) < 0x80:
        return True
    try:
        texts(values).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def replaced(values: pa.Array, rows: Ints, by: list[bytes]) -> pa.Array:
    """Put other bytes in the place of those of some rows, which ascend."""
    mask = np.zeros(len(values), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(values, pa.array(mask), pa.array(by, values.type))


def hex_texts(rows: Octets) -> pa.Array:
    """Write each row of bytes as upper-case hexadecimal."""
    count, width = rows.shape
    edges = np.arange(count + 1, dtype=np.int32) * np.int32(2 * width)
    digits = np.ascontiguousarray(_HEX_PAIRS[rows])
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(edges), pa.py_buffer(digits)]
    )


def placed(values: pa.Array, rows: Ints, count: int) -> pa.Array:
    """Spread values over ``count`` rows: NULL where none goes, the last where several do."""
    if rows.size == count and count == len(values) and bool((rows[1:] > rows[:-1]).all()):
        return values
    chosen = np.full(count, -1, np.int64)
    chosen[rows] = np.arange(rows.size)
    return values.take(pa.array(chosen, mask=chosen < 0))
