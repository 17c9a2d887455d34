"""Properties of many messages at once: single ones as columns, or all of them as maps.

``model.properties`` has the text form and is the definition: for each message the same comes out
here as from its ``decode_bytes``. What is not UTF-8, and what names a property twice, is written
anew for its message before it is looked at, so that the rest has to know nothing of it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketpipe.model import properties
from rocketpipe.pipeline.columns.byte_runs import (
    Ints,
    Mask,
    Octets,
    is_utf8,
    octets_of,
    placed,
    replaced,
    runs,
    texts,
    words_at,
)

_PADDING: Final = b"\0" * 16
_NAME_END: Final = 1
_VALUE_END: Final = 2
#: With so many names a bit each, and as many properties as a record has room for, sums stay in 64.
_MAX_BITS: Final = 48


class PropertyTexts:
    """The properties of each message of a batch, as the text that records carry."""

    def __init__(self, padded: pa.Array) -> None:
        """Take a binary array that has one element more than there are messages.

        The last one only has to be of eight bytes or more.
        """
        self.count = len(padded) - 1
        self._text = _terminated(_valid(padded))

    @cached_property
    def _octets(self) -> Octets:
        return octets_of(self._text)[0]

    @cached_property
    def _edges(self) -> Ints:
        """Where the text of each message begins, and that of the last one ends."""
        edges: Ints = octets_of(self._text)[1][:-1]
        return edges

    @cached_property
    def _ends(self) -> Ints:
        """Where each piece ends: at its separator."""
        first, last = self._edges[0], self._edges[-1]
        ends: Ints = np.flatnonzero(self._octets[first:last] == _VALUE_END) + first
        return ends

    @cached_property
    def _starts(self) -> Ints:
        # Each text ends in a separator, so a piece begins right behind the one before it.
        starts = np.empty_like(self._ends)
        starts[:1] = self._edges[0]
        starts[1:] = self._ends[:-1] + 1
        return starts

    @cached_property
    def _words(self) -> np.ndarray:
        """The first eight bytes of each piece, and of what follows where it is shorter."""
        return np.asarray(words_at(self._octets, self._starts, "<u8"))

    def values(self, name: str) -> pa.Array:
        """One property of each message, NULL where it has none."""
        prefix = name.encode("utf-8") + b"\x01"
        head = prefix[:8]
        mask = np.uint64((1 << 8 * len(head)) - 1)
        found = np.flatnonzero((self._words & mask) == np.uint64(int.from_bytes(head, "little")))
        begin, end = self._starts[found] + len(prefix), self._ends[found]
        fits = end > begin  # one without a value counts as not there
        for at in range(8, len(prefix)):
            behind = np.minimum(begin - len(prefix) + at, self._octets.size - 1)
            fits &= self._octets[behind] == prefix[at]
        if not fits.all():
            begin, end = begin[fits], end[fits]
        data = self._text.buffers()[2]
        values = texts(runs(data, begin, end - begin))
        return placed(values, self._rows_of(begin), self.count)

    def _rows_of(self, places: Ints) -> Ints:
        edges = self._edges
        if places.size == self.count and bool(
            ((places >= edges[:-1]) & (places < edges[1:])).all()
        ):
            return np.arange(self.count)
        return np.searchsorted(edges, places, side="right") - 1

    def maps(self) -> pa.Array:
        """All properties of each message."""
        begin, middle, end = self._named()
        counts = self._counts(begin)
        edges = np.zeros(self.count + 1, np.int32)
        np.cumsum(counts, out=edges[1:])
        data = self._text.buffers()[2]
        names = texts(runs(data, begin, middle - begin))
        twice = _rows_naming_twice(names, edges)
        if twice.size:
            return self._without_repeats(twice).maps()
        values = texts(runs(data, middle + 1, end - middle - 1))
        return pa.MapArray.from_arrays(pa.array(edges), names, values)

    def _named(self) -> tuple[Ints, Ints, Ints]:
        """The pieces that have a name and a value: where they begin, are divided, and end."""
        first, last = self._edges[0], self._edges[-1]
        marks = np.flatnonzero(self._octets[first:last] == _NAME_END) + first
        begin, end = self._starts, self._ends
        if marks.size == begin.size and bool(((marks > begin) & (marks + 1 < end)).all()):
            return begin, marks, end
        # Some piece has no name, no value or several marks: of those the first counts.
        marks = np.append(marks, last)
        middle = marks[np.searchsorted(marks, begin)]
        whole = (middle > begin) & (middle + 1 < end)
        return begin[whole], middle[whole], end[whole]

    def _counts(self, begin: Ints) -> Ints:
        return np.diff(np.searchsorted(begin, self._edges))

    def _without_repeats(self, rows: Ints) -> PropertyTexts:
        written = []
        for row in rows.tolist():
            found = properties.decode_bytes(self._text[row].as_py())
            written.append("".join(f"{name}\x01{value}\x02" for name, value in found.items()))
        return PropertyTexts(replaced(self._text, rows, [text.encode() for text in written]))


def key_lists(values: pa.Array) -> pa.Array:
    """The keys of each message from its property ``KEYS``: parted at blanks, none where NULL."""
    octets, places = octets_of(values)
    present = np.asarray(values.is_valid())
    edges = np.zeros(len(values) + 1, np.int32)
    if (octets[places[0] : places[-1]] == ord(properties.KEY_SEPARATOR)).any():
        parted = pc.split_pattern(values, properties.KEY_SEPARATOR)
        pieces = parted.flatten()
        kept = np.asarray(pc.binary_length(pieces)) > 0
        rows = np.asarray(pc.list_parent_indices(parted))[kept]
        np.cumsum(np.bincount(rows, minlength=len(values)), out=edges[1:])
        return pa.ListArray.from_arrays(pa.array(edges), pieces.filter(pa.array(kept)))
    np.cumsum(present, out=edges[1:])
    return pa.ListArray.from_arrays(pa.array(edges), values.drop_null())


def _valid(padded: pa.Array) -> pa.Array:
    """The texts with what is not UTF-8 replaced as Java does."""
    body = padded.slice(0, len(padded) - 1)
    if is_utf8(body):
        return padded
    octets, places = octets_of(body)
    odd = np.flatnonzero(octets[places[0] : places[-1]] >= 0x80) + places[0]
    rows = np.unique(np.searchsorted(places, odd, side="right") - 1)
    read = [properties.read_text(body[row].as_py()).encode() for row in rows.tolist()]
    return pa.concat_arrays([replaced(body, rows, read), pa.array([_PADDING], pa.binary())])


def _terminated(padded: pa.Array) -> pa.Array:
    """The texts with a separator at the end of each: 4.9 leaves out the last one."""
    octets, places = octets_of(padded)
    starts, stops = places[:-2], places[1:-1]
    filled = stops > starts
    if filled.all() and bool((octets[stops - 1] == _VALUE_END).all()):
        return padded
    # One that was there already makes an empty piece, which is dropped.
    return pc.binary_join_element_wise(padded, b"", b"\x02")


def _rows_naming_twice(names: pa.Array, edges: np.ndarray) -> Ints:
    """The rows in which a name stands more than once."""
    rows = edges.size - 1
    if not len(names):
        return np.empty(0, np.int64)
    width = int(edges[1])
    if width and len(names) == rows * width and _alike(names, edges, width):
        first = names.slice(0, width).to_pylist()
        return np.arange(rows if len(set(first)) < width else 0)
    codes = names.dictionary_encode()
    numbers = np.asarray(codes.indices)
    row_of = np.repeat(np.arange(rows), np.diff(edges))
    if len(codes.dictionary) <= _MAX_BITS:
        return _rows_by_bits(numbers, edges)
    order = np.lexsort((numbers, row_of))
    again = (np.diff(numbers[order]) == 0) & (np.diff(row_of[order]) == 0)
    return np.unique(row_of[order][1:][again])


def _rows_by_bits(numbers: Ints, edges: np.ndarray) -> Ints:
    bits = np.uint64(1) << numbers.astype(np.uint64)
    filled = np.flatnonzero(np.diff(edges))
    begins = edges[filled]
    # Adding up different bits is the same as joining them.
    differs: Mask = np.add.reduceat(bits, begins) != np.bitwise_or.reduceat(bits, begins)
    return filled[differs]


def _alike(names: pa.Array, edges: np.ndarray, width: int) -> bool:
    """Tell whether each row has the same names in the same order, as most batches do."""
    rows = edges.size - 1
    if not bool((np.diff(edges) == width).all()):
        return False
    octets, places = octets_of(names)
    lengths = np.diff(places).reshape(rows, width)
    if not bool((lengths == lengths[0]).all()):
        return False
    grid = octets[places[0] : places[-1]].reshape(rows, int(lengths[0].sum()))
    return bool((grid == grid[0]).all())
