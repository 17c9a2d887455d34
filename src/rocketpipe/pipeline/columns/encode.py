"""Rows to the bodies of batch sends, a column at a time.

The entries of ``record.batch``, with the property text of ``model.properties``:

    size, magic, CRC, flag, body size | body | size | name 0x01 value 0x02 … | the tail

The user's properties come first, then KEYS, TAGS and DELAY where a row has them. The tail is as
long for every row: WAIT and the unique key. Everything is joined by Arrow and computed by numpy;
no Python runs per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketpipe.model import properties as well_known
from rocketpipe.model.ids import UniqueKeys
from rocketpipe.pipeline.columns.write_rows import BadRow, Rows
from rocketpipe.record.hot import checksums
from rocketpipe.record.layout import MAX_PROPERTIES_BYTES

#: What an entry has beside body and properties.
ENTRY_BYTES: Final = 22

_HEAD: Final = np.dtype(
    [("size", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("flag", ">i4"), ("body", ">i4")]
)
_TAIL: Final = f"{well_known.WAIT}\x01true\x02{well_known.UNIQ_KEY}\x01".encode()
#: A broker adds its region and its cluster, and keeps room for what it adds later.
MOST_PROPERTIES_BYTES: Final = MAX_PROPERTIES_BYTES - 2048
_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)
_COUNTED_DIGITS: Final = 12
_NOTHING: Final = b""

Numbers = npt.NDArray[np.int64]


class KeyRun:
    """Unique keys by the thousand, for one attempt of one task.

    A key ends in milliseconds and a counter of 16 bits. Here the two are one number that goes up
    by one from key to key, and catches up with the clock from call to call.
    """

    def __init__(self, keys: UniqueKeys) -> None:
        """Take what makes the first key of each call; nobody else may take keys from it."""
        self._keys = keys
        self._next = 0

    def take(self, count: int, now_ms: int) -> npt.NDArray[np.uint8]:
        """So many keys, as a row of ASCII digits each."""
        first = self._keys.next(now_ms)
        start = max(self._next, int(first[-_COUNTED_DIGITS:], 16))
        self._next = start + count
        numbers = np.arange(start, start + count, dtype=">u8")
        counted = _HEX[numbers.view(np.uint8).reshape(count, 8)[:, 2:]]
        digits = np.empty((count, len(first)), np.uint8)
        digits[:, :-_COUNTED_DIGITS] = np.frombuffer(first[:-_COUNTED_DIGITS].encode(), np.uint8)
        digits[:, -_COUNTED_DIGITS:] = counted.view(np.uint8)
        return digits


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of batches, one behind the other."""

    joined: pa.Array
    #: Where each starts, and where the last one ends.
    starts: Numbers
    #: How much of each, at its end, is another when it is written again.
    tail_bytes: int

    @classmethod
    def of(cls, joined: pa.Array, tail_bytes: int) -> Entries:
        """Entries that are the elements of an array of binaries."""
        starts = np.frombuffer(joined.buffers()[1], np.int32, len(joined) + 1, 4 * joined.offset)
        return cls(joined, starts.astype(np.int64), tail_bytes)

    @property
    def data(self) -> memoryview:
        """All of them, as ``starts`` counts."""
        return memoryview(self.joined.buffers()[2])

    def take(self, order: Numbers) -> Entries:
        """The same in another order."""
        return Entries.of(self.joined.take(pa.array(order)), self.tail_bytes)

    def checksums(self, begin: int) -> Numbers:
        """Of what each says, whoever writes it and when; ``begin`` is that of what they share."""
        ends = self.starts[1:] - self.tail_bytes
        sums = checksums(self.data, self.starts[:-1], ends, begin)
        return np.frombuffer(sums, np.uint32).astype(np.int64)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def bodies(
        self, max_bytes: int, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[memoryview, int]]:
        """Cut a run of them into batches, each with its count; one that is too long goes alone."""
        last = len(self) if last is None else last
        starts, data = self.starts, self.data
        while first < last:
            begin = int(starts[first])
            cut = int(np.searchsorted(starts, begin + max_bytes, side="right")) - 1
            cut = min(max(cut, first + 1), last)
            yield data[begin : int(starts[cut])], cut - first
            first = cut

    def body(self, at: int) -> memoryview:
        """One of them."""
        return self.data[int(self.starts[at]) : int(self.starts[at + 1])]


def encode_rows(rows: Rows, keys: KeyRun, now_ms: int) -> Entries:
    """Write rows as entries, in their order.

    Raises:
        BadRow: If the properties of one are too long.
    """
    count = len(rows)
    named = [
        *([] if rows.properties is None else [(rows.properties, b"", b"")]),
        *([] if rows.keys is None else [(rows.keys, b"KEYS\x01", b"\x02")]),
        *([] if rows.tags is None else [(rows.tags, b"TAGS\x01", b"\x02")]),
        *([] if rows.levels is None else [(_level_texts(rows), b"DELAY\x01", b"\x02")]),
    ]
    tails = _tails(keys, count, now_ms)
    text_bytes = np.full(count, tails.shape[1], np.int64)
    pieces: list[Any] = []
    for texts, front, back in named:
        lengths = pc.binary_length(texts)
        around = len(front) + len(back)
        if texts.null_count:
            text_bytes += pc.fill_null(pc.add(lengths, around), 0).to_numpy(zero_copy_only=False)
            if around:
                texts = pc.binary_join_element_wise(front, texts, back, _NOTHING)
            pieces.append(texts)
        else:
            text_bytes += lengths.to_numpy()
            text_bytes += around
            pieces += [piece for piece in (front, texts, back) if piece is texts or piece]
    _check_lengths(rows, text_bytes)
    body_bytes = pc.binary_length(rows.body).to_numpy().astype(np.int64)
    heads = np.zeros(count, _HEAD)
    heads["size"] = ENTRY_BYTES + body_bytes + text_bytes
    heads["body"] = body_bytes
    joined = pc.binary_join_element_wise(
        _fixed(heads.view(np.uint8).reshape(count, _HEAD.itemsize)),
        rows.body,
        _fixed(text_bytes.astype(">i2").view(np.uint8).reshape(count, 2)),
        *pieces,
        _fixed(tails),
        _NOTHING,
        null_handling="replace",
        null_replacement="",
    )
    return Entries.of(joined, tails.shape[1])


def _tails(keys: KeyRun, count: int, now_ms: int) -> npt.NDArray[np.uint8]:
    digits = keys.take(count, now_ms)
    tails = np.empty((count, len(_TAIL) + digits.shape[1] + 1), np.uint8)
    tails[:, : len(_TAIL)] = np.frombuffer(_TAIL, np.uint8)
    tails[:, len(_TAIL) : -1] = digits
    tails[:, -1] = 2
    return tails


def _level_texts(rows: Rows) -> pa.Array:
    return pc.cast(pc.cast(rows.levels, pa.string()), pa.binary())


def _fixed(cells: npt.NDArray[np.uint8]) -> pa.Array:
    """Cells of one width as binaries."""
    count, width = cells.shape
    starts = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(starts), pa.py_buffer(np.ascontiguousarray(cells))]
    )


def _check_lengths(rows: Rows, text_bytes: Numbers) -> None:
    if not len(text_bytes) or int(text_bytes.max()) <= MOST_PROPERTIES_BYTES:
        return
    at = int(text_bytes.argmax())
    raise BadRow(
        "properties",
        rows.number(at),
        f"with keys and tags they are {text_bytes[at]} bytes, {MOST_PROPERTIES_BYTES} are the most",
    )
