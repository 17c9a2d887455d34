"""Records to Arrow columns, a whole batch at a time.

``record.layout`` has the bytes and ``record.codec`` is the definition: each column holds what
`RecordView` gives for each record, found by arithmetic on all records at once. Fields of fixed
width are gathered with numpy, what has a length is copied by Arrow out of the one buffer, and the
text of the properties is parted only if a column asks for it. Inflating bodies is the one thing
done record by record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from struct import Struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketpipe.errors import RecordError
from rocketpipe.model import properties
from rocketpipe.model.flags import BORN_HOST_V6, COMPRESSED, STORE_HOST_V6
from rocketpipe.pipeline.columns.byte_runs import (
    MAX_BUFFER_BYTES,
    Ints,
    Mask,
    hex_texts,
    is_utf8,
    replaced,
    runs,
    texts,
    words_at,
)
from rocketpipe.pipeline.columns.properties import PropertyTexts, key_lists
from rocketpipe.record import compression
from rocketpipe.record.codec import RecordView
from rocketpipe.record.hot import checksums
from rocketpipe.record.layout import (
    HOST_BITS,
    MAGIC_V1,
    MAGIC_V2,
    MAX_TOPIC_V1_BYTES,
    MIN_RECORD_BYTES,
)

#: From here to the year 9999, in ms: other times Spark cannot show.
FIRST_SHOWABLE_MS: Final = -62_135_596_800_000
BEHIND_SHOWABLE_MS: Final = 253_402_300_800_000

_TIME: Final = pa.timestamp("us", tz="UTC")
#: The fields of fixed width, as they stand when both hosts are IPv4.
_HEAD: Final = np.dtype(
    [
        ("size", ">i4"),
        ("magic", ">i4"),
        ("crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("log_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_ms", ">i8"),
        ("born_host", "V8"),
        ("stored_ms", ">i8"),
        ("store_host", "V8"),
        ("reconsume_times", ">i4"),
        ("prepared_offset", ">i8"),
        ("body_bytes", ">i4"),
    ]
)
_SIZE: Final = Struct(">i")
_STORED_AT: Final = 56
_STORE_HOST_AT: Final = 64
_TAIL_AT: Final = 72
_TAIL: Final = [("reconsume_times", ">i4"), ("prepared_offset", ">i8"), ("body_bytes", ">i4")]
#: By how much an address is longer in IPv6.
_WIDER: Final = 12


class DamagedRecord(RecordError):
    """One of many records cannot be read; ``row`` says which."""

    def __init__(self, row: int, queue_id: int, queue_offset: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.queue_id = queue_id
        self.queue_offset = queue_offset

    @property
    def is_ours(self) -> bool:
        """Whether nothing is wrong with the record, but a library to read it is missing here."""
        return self.__cause__ is not None and isinstance(self.__cause__.__cause__, ImportError)


def walk(buffer: bytes | memoryview) -> tuple[Ints, Ints]:
    """Where records that follow each other start, as in a pull body, and their sizes.

    Raises:
        RecordError: If one has a size that cannot be.
    """
    places: list[int] = []
    at, end = 0, len(buffer)
    last = end - MIN_RECORD_BYTES
    unpack, note = _SIZE.unpack_from, places.append
    while at <= last:
        note(at)
        size: int = unpack(buffer, at)[0]
        if size < MIN_RECORD_BYTES:
            raise RecordError(f"a size of {size}, with {end - at} bytes there", at)
        at += size
    if at != end:
        raise RecordError(f"{end - places[-1] if places else end} bytes are no record", at)
    edges = np.array([*places, end], np.int64)
    return edges[:-1], np.diff(edges)


class Records:
    """Records in one buffer, in its order; columns are made when they are asked for.

    Raises:
        DamagedRecord: If one is not a whole record, or its lengths do not add up.
    """

    def __init__(
        self,
        buffer: bytes | memoryview,
        starts: Ints,
        sizes: Ints,
        inflated: list[bytes] | None = None,
        lost: Mapping[int, str] | None = None,
    ) -> None:
        assert len(buffer) <= MAX_BUFFER_BYTES
        self._buffer = buffer
        self._octets = np.frombuffer(buffer, np.uint8)
        self._starts = starts
        self._stops = starts + sizes
        self.count = int(starts.size)
        #: The bodies of those that are compressed, where somebody has inflated them already.
        self._inflated = inflated
        #: Rows whose bodies cannot be read, and why: these are NULL.
        self.lost: Mapping[int, str] = lost or {}
        if not self.count:
            return
        assert bool((self._starts[1:] >= self._stops[:-1]).all())
        assert int(self._stops[-1]) <= len(buffer)
        self._refuse(sizes < MIN_RECORD_BYTES)
        self._head = words_at(self._octets, starts, _HEAD)
        self._refuse(self._head["size"] != sizes)
        self._sys_flag = self._head["sys_flag"].astype(np.int32)
        self._find_parts()

    def _find_parts(self) -> None:
        """Where body, topic and properties are; every length is checked before it is followed."""
        starts, stops, head = self._starts, self._stops, self._head
        self._stored_ms = head["stored_ms"]
        tail: Any = head
        body_at = starts + _HEAD.itemsize
        if bool((self._sys_flag & HOST_BITS).any()):
            born = _WIDER * ((self._sys_flag & BORN_HOST_V6) != 0).astype(np.int64)
            both = born + _WIDER * ((self._sys_flag & STORE_HOST_V6) != 0)
            body_at = body_at + both
            self._refuse(body_at > stops)
            self._stored_ms = words_at(self._octets, starts + _STORED_AT + born, ">i8")
            tail = words_at(self._octets, starts + _TAIL_AT + both, np.dtype(_TAIL))
        self._reconsume_times = tail["reconsume_times"]
        self._body_at = body_at
        self._body_bytes = tail["body_bytes"].astype(np.int64)
        topic_at = body_at + self._body_bytes
        self._refuse((self._body_bytes < 0) | (topic_at + 3 > stops))
        self._find_topic_and_properties(topic_at)

    def _find_topic_and_properties(self, topic_at: Ints) -> None:
        stops, magic = self._stops, self._head["magic"]
        topic_bytes = self._octets[topic_at].astype(np.int64)
        is_long = magic != MAGIC_V1
        if bool(is_long.any()):
            self._refuse(is_long & (magic != MAGIC_V2))
            wide = words_at(self._octets, topic_at, ">i2").astype(np.int64)
            self._refuse(~is_long & (topic_bytes > MAX_TOPIC_V1_BYTES))
            topic_bytes = np.where(is_long, wide, topic_bytes)
            topic_at = topic_at + 1 + is_long
        else:
            self._refuse(topic_bytes > MAX_TOPIC_V1_BYTES)
            topic_at = topic_at + 1
        properties_at = topic_at + topic_bytes + 2
        self._refuse((topic_bytes < 0) | (properties_at > stops))
        properties_bytes = words_at(self._octets, properties_at - 2, ">i2")
        self._refuse(properties_at + properties_bytes != stops)
        self._topic_at, self._topic_bytes, self._properties_at = (
            topic_at,
            topic_bytes,
            properties_at,
        )

    def _refuse(self, wrong: Mask) -> None:
        """Raise for the first of the records that are wrong, with the reason the codec has."""
        if not wrong.any():
            return
        row = int(np.flatnonzero(wrong)[0])
        try:
            RecordView(self._buffer, int(self._starts[row]), int(self._stops[row]))
            raise RecordError("its size is not the one it was stored with")
        except RecordError as error:
            raise self._damaged(row, error.reason) from error

    def _damaged(self, row: int, reason: str) -> DamagedRecord:
        # A record too short for these is called by its number alone.
        whole = hasattr(self, "_head")
        queue_id = int(self._head["queue_id"][row]) if whole else -1
        queue_offset = int(self._head["queue_offset"][row]) if whole else -1
        return DamagedRecord(row, queue_id, queue_offset, reason)

    def take(self, rows: Ints) -> Records:
        """Just some of the records, in the same order."""
        sizes = (self._stops - self._starts)[rows]
        lost: dict[int, str] = {}
        if self.lost:
            places = enumerate(rows.tolist())
            lost = {row: self.lost[before] for row, before in places if before in self.lost}
        return Records(self._buffer, self._starts[rows], sizes, lost=lost)

    def without_bodies(self, lost: Mapping[int, str]) -> Records:
        """The same records, of which these rows have no bodies, for the reasons given."""
        sizes = self._stops - self._starts
        return Records(self._buffer, self._starts, sizes, lost={**self.lost, **lost})

    def unreadable_topics(self) -> dict[int, str]:
        """The rows that do not say which topic they are of."""
        found = runs(self._buffer, self._topic_at, self._topic_bytes)
        rows = () if is_utf8(found) else range(self.count)
        reason = "a topic that is not UTF-8"
        return {row: reason for row in rows if not is_utf8(found.slice(row, 1))}

    def unreadable_bodies(self) -> dict[int, str]:
        """The rows whose bodies are not those that were stored, or do not inflate, and why.

        Raises:
            DamagedRecord: If one cannot be told, as a library is missing.
        """
        doubtful = self._differ_from_their_sums() | (self._sys_flag & COMPRESSED != 0)
        found: dict[int, str] = {}
        for row in np.flatnonzero(doubtful).tolist():
            try:
                if row not in self.lost:
                    self._read_body(row)
            except DamagedRecord as error:
                if error.is_ours:
                    raise
                found[row] = error.reason
        return found

    def raw(self, row: int) -> bytes:
        """The bytes of one record."""
        return bytes(self._buffer[int(self._starts[row]) : int(self._stops[row])])

    def parted(self, limit: int) -> Iterator[Records]:
        """Inflate bodies; part the records so that those of each part have no more than that.

        One body is never parted. What is not compressed is not counted: its records are in hand.

        Raises:
            DamagedRecord: If a body is not the one that was stored, or does not inflate.
        """
        packed = self._packed().tolist() if self.count else []
        if not packed:
            yield self
            return
        first, held = 0, 0
        inflated: list[bytes] = []
        for row in packed:
            body = self._read_body(row)
            if inflated and held + len(body) > limit:
                yield self._run(first, row, inflated)
                first, held, inflated = row, 0, []
            inflated.append(body)
            held += len(body)
        yield self._run(first, self.count, inflated)

    def _run(self, first: int, last: int, inflated: list[bytes]) -> Records:
        sizes = (self._stops - self._starts)[first:last]
        lost = {row - first: why for row, why in self.lost.items() if first <= row < last}
        return Records(self._buffer, self._starts[first:last], sizes, inflated, lost)

    def _packed(self) -> Ints:
        """The rows whose bodies are compressed, and can be read."""
        rows = np.flatnonzero(self._sys_flag & COMPRESSED)
        return rows[~np.isin(rows, list(self.lost))] if self.lost else rows

    @property
    def queue_offsets(self) -> Ints:
        """The place of each in its queue."""
        return self._head["queue_offset"].astype(np.int64) if self.count else np.empty(0, np.int64)

    @property
    def log_offsets(self) -> Ints:
        """The place of each in the log."""
        return self._head["log_offset"].astype(np.int64) if self.count else np.empty(0, np.int64)

    @property
    def stored_ms(self) -> Ints:
        """When each was stored."""
        return self._stored_ms.astype(np.int64) if self.count else np.empty(0, np.int64)

    def column(self, name: str, broker: str = "") -> pa.Array:
        """One column; ``broker`` is who has the records.

        Raises:
            DamagedRecord: If a record does not have what the column shows.
        """
        match name:
            case "queue_id" | "queue_offset" | "log_offset":
                field = self._head[name]
                return pa.array(field.astype(field.dtype.newbyteorder("=")))
            case "reconsume_times":
                return pa.array(self._reconsume_times.astype(np.int32))
            case "sys_flag":
                return pa.array(self._sys_flag)
            case "born_timestamp":
                return times(self._head["born_ms"])
            case "store_timestamp":
                return times(self._stored_ms)
            case "broker":
                return pa.repeat(pa.scalar(broker, pa.string()), self.count)
            case "properties":
                return self._properties.maps()
        return self._text_column(name)

    def _text_column(self, name: str) -> pa.Array:
        match name:
            case "topic":
                return self._topic()
            case "body":
                return self._body()
            case "keys":
                return self._keys
            case "tags":
                return self._tags
            case "unique_key":
                return self._unique_keys
        assert name == "message_id"
        return self._message_ids()

    def _topic(self) -> pa.Array:
        found = runs(self._buffer, self._topic_at[:1], self._topic_bytes[:1])
        if self._have_one_topic():
            if not is_utf8(found):
                raise self._damaged(0, "a topic that is not UTF-8")
            return pa.repeat(texts(found)[0], self.count)
        found = runs(self._buffer, self._topic_at, self._topic_bytes)
        if not is_utf8(found):
            for row in range(self.count):
                if not is_utf8(found.slice(row, 1)):
                    raise self._damaged(row, "a topic that is not UTF-8")
        return texts(found)

    def _have_one_topic(self) -> bool:
        first = int(self._topic_bytes[0])
        if bool((self._topic_bytes != first).any()):
            return False
        width = 8
        # The last word overlaps the one before it, so that nothing else is compared; a short
        # topic stands behind more than a word of its own record.
        ends = self._topic_at + first
        places = [ends - width] if first >= width else []
        places += [self._topic_at + at for at in range(0, first - width, width)]
        if not places:
            shift = np.uint64(8 * (width - first))
            words = words_at(self._octets, ends - width, "<u8") >> shift if first else None
            return words is None or bool((words == words[0]).all())
        for place in places:
            words = words_at(self._octets, place, "<u8")
            if bool((words != words[0]).any()):
                return False
        return True

    def _body(self) -> pa.Array:
        bodies = runs(self._buffer, self._body_at, self._body_bytes)
        # Nothing else would notice a bit that flipped on the disk.
        for row in np.flatnonzero(self._differ_from_their_sums()).tolist():
            if row not in self.lost:
                self._read_body(row)  # which raises
        packed = self._packed()
        if packed.size:
            inflated = self._inflated
            if inflated is None:
                inflated = [self._read_body(row) for row in packed.tolist()]
            assert len(inflated) == packed.size
            bodies = replaced(bodies, packed, inflated)
        if self.lost:
            is_lost = np.zeros(self.count, np.bool_)
            is_lost[list(self.lost)] = True
            bodies = pc.if_else(pa.array(is_lost), pa.scalar(None, pa.binary()), bodies)
        return bodies

    def _differ_from_their_sums(self) -> Mask:
        """Whether each body, as it is stored, is another than it was."""
        ends = self._body_at + self._body_bytes
        found = np.frombuffer(checksums(self._buffer, self._body_at, ends), np.uint32)
        differ: Mask = (found & 0x7FFFFFFF) != self._head["crc"]
        return differ

    def _read_body(self, row: int) -> bytes:
        try:
            view = RecordView(self._buffer, int(self._starts[row]), int(self._stops[row]))
            return view.read_body(limit=compression.DEFAULT_LIMIT)
        except RecordError as error:
            raise self._damaged(row, error.reason) from error

    @cached_property
    def _properties(self) -> PropertyTexts:
        lengths = self._stops - self._properties_at
        return PropertyTexts(runs(self._buffer, self._properties_at, lengths, padded=True))

    @cached_property
    def _unique_keys(self) -> pa.Array:
        return self._properties.values(properties.UNIQ_KEY)

    @cached_property
    def _tags(self) -> pa.Array:
        return self._properties.values(properties.TAGS)

    @cached_property
    def _keys(self) -> pa.Array:
        return key_lists(self._properties.values(properties.KEYS))

    def _message_ids(self) -> pa.Array:
        """The unique keys, and for who has none its place: host and offset in the log."""
        keys = self._unique_keys
        if not keys.null_count:
            return keys
        rows = np.flatnonzero(np.asarray(keys.is_null()))
        if bool((self._sys_flag[rows] & HOST_BITS).any()):
            places = [(int(self._starts[row]), int(self._stops[row])) for row in rows.tolist()]
            ids = pa.array([RecordView(self._buffer, *place).offset_id for place in places])
        else:
            hosts = words_at(self._octets, self._starts[rows] + _STORE_HOST_AT, "V8")
            offsets = self._head["log_offset"][rows]
            sides = [np.ascontiguousarray(side).view(np.uint8) for side in (hosts, offsets)]
            ids = hex_texts(np.hstack([side.reshape(-1, 8) for side in sides]))
        return pc.replace_with_mask(keys, keys.is_null(), ids)


def times(ms: Any) -> pa.Array:
    """Moments in milliseconds as a column; those that cannot be shown are NULL."""
    found = ms.astype(np.int64)
    hidden = (found < FIRST_SHOWABLE_MS) | (found >= BEHIND_SHOWABLE_MS)
    found[hidden] = 0
    return pa.array(found * 1000, mask=hidden if hidden.any() else None).view(_TIME)
