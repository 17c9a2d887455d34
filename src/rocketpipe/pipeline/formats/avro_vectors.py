"""Avro records of a whole batch at once, field by field: as fastavro reads them one by one, or not.

All bodies lie in one buffer, and a field is read of all of them in one step, each at its own place.
A body that does not come out to the byte, or has a value outside of its type, is left to fastavro,
whose word is the definition. So are schemas with arrays, maps, decimals and unions of more than
null and one other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Arrays of numpy's: of numbers, of truths.
Ints = Any
Mask = Any

#: Reads one field of all rows; raises ArrowInvalid if one is text that is not UTF-8.
Field = Callable[["Rows"], pa.Array]

#: So many bytes may be looked at behind the end of a body.
PADDING: Final = 16
_MAX_BUFFER: Final = (1 << 31) - 1 - PADDING
_INTS: Final[dict[str, tuple[Any, pa.DataType]]] = {
    "int": (np.int32, pa.int32()),
    "long": (np.int64, pa.int64()),
}
_FLOATS: Final[dict[str, tuple[Any, pa.DataType]]] = {
    "float": (np.dtype("<f4"), pa.float32()),
    "double": (np.dtype("<f8"), pa.float64()),
}


class Rows:
    """How far each body has been read."""

    __slots__ = ("bad", "data", "end", "place")

    def __init__(self, data: Any, place: Ints, end: Ints, bad: Mask) -> None:
        self.data = data
        self.place = place
        self.end = end
        self.bad = bad

    def some(self, rows: Ints) -> Rows:
        """Those of some rows."""
        return Rows(self.data, self.place[rows], self.end[rows], self.bad[rows])

    def take_back(self, rows: Ints, some: Rows) -> None:
        """Go on from where some rows have come to."""
        self.place[rows] = some.place
        self.bad[rows] = some.bad

    def move(self, lengths: Any) -> Ints:
        """Pass over bytes of each; gives where they begin. Who has too few is bad, at its end."""
        start = self.place
        short = (lengths < 0) | (lengths > self.end - start)
        if short.any():
            self.bad |= short
            start = np.where(short, self.end, start)
            lengths = np.where(short, 0, lengths)
        self.place = start + lengths
        return start

    def longs(self) -> Ints:
        """The next number of each, as Avro writes it."""
        place = self.place.copy()
        octets = self.data[place]
        value = (octets & 0x7F).astype(np.uint64)
        place += 1
        more = np.flatnonzero(octets >= 0x80)
        shift = 7
        while more.size:
            if shift > 63:
                self.bad[more] = True
                break
            octets = self.data[place[more]]
            value[more] |= (octets & 0x7F).astype(np.uint64) << np.uint64(shift)
            place[more] += 1
            more = more[octets >= 0x80]
            shift += 7
        self.move(place - self.place)
        return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)


class Records:
    """Reads the records of one schema."""

    def __init__(self, schema: Mapping[str, Any], kinds: Mapping[str, pa.DataType]) -> None:
        """Take a schema as fastavro has parsed it, and the types of its fields.

        Raises:
            NotImplementedError: If it has what is not read here.
        """
        self._fields = _fields(schema, kinds, {})

    def read(self, data: Any, start: Ints, end: Ints) -> tuple[dict[str, pa.Array], Mask]:
        """The fields of each body, and which bodies came out; of others they mean nothing.

        ``data`` are octets, with `PADDING` behind them; bodies do not overlap, and ascend.

        Raises:
            ArrowInvalid: If text is not UTF-8.
        """
        rows = Rows(data, start.astype(np.int64), end, np.zeros(start.size, np.bool_))
        columns = {name: read(rows) for name, read in self._fields.items()}
        return columns, ~rows.bad & (rows.place == end)


def octets_of(bodies: pa.Array) -> tuple[Any, Ints, Ints] | None:
    """The octets of bodies, with padding, and where each begins and ends; None if they are many."""
    _, offsets, content = bodies.buffers()
    places = np.frombuffer(offsets, np.int32)[bodies.offset : bodies.offset + len(bodies) + 1]
    places = places.astype(np.int64)
    first, last = int(places[0]), int(places[-1])
    if content is None or last - first > _MAX_BUFFER:
        return None
    data = np.zeros(last - first + PADDING, np.uint8)
    data[: last - first] = np.frombuffer(content, np.uint8)[first:last]
    return data, places[:-1] - first, places[1:] - first


def _fields(
    record: Mapping[str, Any], kinds: Mapping[str, pa.DataType], types: dict[str, Any]
) -> dict[str, Field]:
    types[record["name"]] = record
    return {
        each["name"]: _field(each["type"], kinds[each["name"]], types) for each in record["fields"]
    }


def _field(node: Any, kind: pa.DataType, types: dict[str, Any]) -> Field:
    if isinstance(node, list):
        return _optional(node, kind, types)
    name = node if isinstance(node, str) else node["type"]
    if isinstance(node, str) and name in types:
        return _field(types[name], kind, types)
    if name in _INTS:
        return _whole(name, kind)
    if name in _FLOATS:
        return _float(name)
    if name == "boolean":
        return _boolean
    if name == "null":
        return lambda rows: pa.nulls(rows.place.size, kind)
    if (name in ("string", "bytes")) and not (isinstance(node, dict) and "logicalType" in node):
        return lambda rows: _octets(rows, rows.longs(), kind)
    if not isinstance(node, dict):
        raise NotImplementedError(name)
    if name == "record":
        return _record(node, kind, types)
    types[node.get("name", "")] = node
    if name == "enum":
        return _enum(pa.array(node["symbols"], pa.string()))
    if name == "fixed" and kind == pa.binary() and "logicalType" not in node:
        return lambda rows: _octets(rows, np.full(rows.place.size, node["size"]), kind)
    raise NotImplementedError(str(name))


def _whole(name: str, kind: pa.DataType) -> Field:
    number, plain = _INTS[name]
    limits = np.iinfo(number)

    def whole(rows: Rows) -> pa.Array:
        value = rows.longs()
        if name == "int":
            rows.bad |= (value < limits.min) | (value > limits.max)
        found = pa.array(value.astype(number))
        return found if kind == plain else found.view(kind)

    return whole


def _float(name: str) -> Field:
    number, kind = _FLOATS[name]

    def floats(rows: Rows) -> pa.Array:
        start = rows.move(np.full(rows.place.size, number.itemsize))
        every = np.ndarray((rows.data.size - number.itemsize + 1,), number, rows.data, strides=(1,))
        return pa.array(every[start], kind)

    return floats


def _boolean(rows: Rows) -> pa.Array:
    octets = rows.data[rows.move(np.ones(rows.place.size, np.int64))]
    rows.bad |= octets > 1
    return pa.array(octets == 1)


def _octets(rows: Rows, lengths: Ints, kind: pa.DataType) -> pa.Array:
    """Bytes of each: every other element of an array that has those between them as well."""
    count = lengths.size
    if not count:
        return pa.array([], kind)
    start = rows.move(lengths)
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = start
    edges[1::2] = rows.place
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(rows.data)]
    every = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    found = every.take(pa.array(np.arange(0, 2 * count - 1, 2)))
    if kind == pa.string():
        found = found.view(kind)
        found.validate(full=True)
    return found


def _enum(symbols: pa.Array) -> Field:
    def names(rows: Rows) -> pa.Array:
        index = rows.longs()
        wrong = (index < 0) | (index >= len(symbols))
        rows.bad |= wrong
        return pc.take(symbols, pa.array(np.where(wrong, 0, index)))

    return names


def _record(node: Mapping[str, Any], kind: pa.DataType, types: dict[str, Any]) -> Field:
    fields = _fields(node, {each.name: each.type for each in kind}, types)

    def struct(rows: Rows) -> pa.Array:
        # Types may still be those that Avro has.
        columns = [read(rows) for read in fields.values()]
        return pa.StructArray.from_arrays(columns, list(fields))

    return struct


def _optional(node: list[Any], kind: pa.DataType, types: dict[str, Any]) -> Field:
    if len(node) != 2 or "null" not in node:
        raise NotImplementedError("union")
    empty = node.index("null")
    read = _field(node[1 - empty], kind, types)

    def optional(rows: Rows) -> pa.Array:
        branch = rows.longs()
        rows.bad |= (branch != 0) & (branch != 1)
        there = np.flatnonzero((branch == 1 - empty) & ~rows.bad)
        some = rows.some(there)
        values = read(some)
        rows.take_back(there, some)
        if there.size == branch.size:
            return values
        index = np.full(branch.size, -1, np.int64)
        index[there] = np.arange(there.size)
        return values.take(pa.array(index, mask=index < 0))

    return optional
