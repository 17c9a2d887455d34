"""Plain records, read and taken apart in one pass: `PlainRecords` has the columns of `Records`.

Most batches hold nothing unusual: every record is there, whole, with the topic of its queue, and
its body as it was sent. Of those only what was asked for is taken, in one compiled pass over the
log. In any other case there are no `PlainRecords`, and whoever asked reads as ever: what is wrong
is found out and told there. So is everything where nothing is compiled, as numpy is quicker then.
``_sweep.pyx`` is the compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rocketpipe import compiled
from rocketpipe.model import properties
from rocketpipe.pipeline.columns.byte_runs import Ints, Octets, is_utf8, texts
from rocketpipe.pipeline.columns.properties import key_lists
from rocketpipe.pipeline.columns.records import times
from rocketpipe.pipeline.log import reading
from rocketpipe.pipeline.log.directory import LogDirectory
from rocketpipe.pipeline.log.queue_view import ENTRY, Entries
from rocketpipe.pipeline.planning.ranges import QueueRange
from rocketpipe.store.files.disk import DiskError

#: Numbers that records begin with, as `sweep` counts them.
FIELDS: Final = (
    "queue_id",
    "queue_offset",
    "sys_flag",
    "born_timestamp",
    "store_timestamp",
    "reconsume_times",
)
_NAMES: Final = {
    "tags": properties.TAGS,
    "keys": properties.KEYS,
    "unique_key": properties.UNIQ_KEY,
}
_BODY: Final = "body"
#: Columns that need more than this knows of a record.
_OTHERS: Final = frozenset({"properties", "message_id"})


def merge(pieces: tuple[Any, ...], room: Any) -> bool:
    """Fill a room with the entries of some pieces, all in the order of the log.

    False, with nothing said of what was filled, if a piece is not in that order by itself, or there
    are too many.
    """
    return False


def sweep(
    file: int,
    base: int,
    entries: Any,
    fields: bytes,
    heads: Any,
    topic: bytes | None,
    names: tuple[bytes, ...],
    with_bodies: bool,
    edges: Any,
    data: Any,
) -> bool:
    """Take apart the records of some entries, all in one file of the log, which begins at ``base``.

    Fills a row of ``heads`` for each of the ``fields``, and for each name, which ends in 0x01, and
    then for bodies, a row of ``data`` with the texts, and of ``edges`` with where they end; what a
    record lacks is empty. False, with nothing said of what was filled, if one is not plain: not
    whole, not of this topic where one is given, or its body is compressed or damaged.
    """
    return False


class PlainRecords:
    """Columns of records of which none is unusual."""

    def __init__(
        self,
        entries: Entries,
        topic: str,
        heads: Mapping[str, Ints],
        found: Mapping[str, pa.Array],
    ) -> None:
        self.count = int(entries.size)
        #: Rows whose bodies cannot be read: none.
        self.lost: Mapping[int, str] = {}
        self._entries = entries
        self._topic = topic
        self._heads = heads
        self._found = found

    def column(self, name: str, broker: str) -> pa.Array:
        """One of the columns that were asked for; ``broker`` is who has the records."""
        match name:
            case "topic" | "broker":
                value = self._topic if name == "topic" else broker
                return pa.repeat(pa.scalar(value, pa.string()), self.count)
            case "queue_id" | "sys_flag" | "reconsume_times":
                return pa.array(self._heads[name].astype(np.int32))
            case "queue_offset":
                return pa.array(self._heads[name])
            case "log_offset":
                return pa.array(self._entries["at"].astype(np.int64))
            case "born_timestamp" | "store_timestamp":
                return times(self._heads[name])
            case "keys":
                return key_lists(self._found[name])
        return self._found[name]


class Sweep:
    """Reads plain records of a directory for some columns."""

    def __init__(self, directory: LogDirectory, columns: Collection[str]) -> None:
        self._directory = directory
        self._knows_all = _OTHERS.isdisjoint(columns)
        self._has_topic = "topic" in columns
        self._fields = [name for name in FIELDS if name in columns]
        self._named = [name for name in _NAMES if name in columns]
        self._has_bodies = _BODY in columns
        self._texts = [*self._named, *([_BODY] if self._has_bodies else ())]
        #: Kept from one batch to the next: to get as much anew would have it cleared each time.
        self._room: Octets = np.empty(0, np.uint8)
        self._merged: Octets = np.empty(0, np.uint8)

    def read(self, parts: Sequence[QueueRange]) -> list[PlainRecords] | None:
        """The records of short ranges, in the order of the log; None if it cannot be.

        Raises:
            DiskError: If the files of queues cannot be read.
        """
        topics = {part.queue.topic for part in parts}
        if not self._knows_all or len(topics) > 1:
            return None
        entries = self._entries(parts)
        total = int(entries["size"].sum(dtype=np.int64))
        if not entries.size or total > reading.READ_BYTES:
            return None
        [topic] = topics
        found = []
        for first, last in pairwise(self._edges(entries)):
            records = self._of_file(entries[first:last], topic)
            if records is None:
                return None
            found.append(records)
        return found

    def _entries(self, parts: Sequence[QueueRange]) -> Entries:
        """The entries of some ranges, in the order of the log; they are there until the next."""
        pieces = reading.pieces_of(self._directory, parts)
        if len(pieces) == 1:
            return pieces[0]
        octets = tuple(piece.view(np.uint8) for piece in pieces)
        size = sum(piece.size for piece in octets)
        if self._merged.size < size:
            self._merged = np.empty(size, np.uint8)
        room = self._merged[:size]
        return room.view(ENTRY) if merge(octets, room) else reading.in_log_order(pieces)

    def _edges(self, entries: Entries) -> list[int]:
        """Where among entries in the order of the log each of its files begins, and the end."""
        size = self._directory.log.segment_bytes
        if entries["at"][0] // size == entries["at"][-1] // size:
            return [0, entries.size]
        files = entries["at"].astype(np.int64) // size
        return [0, *(np.flatnonzero(np.diff(files)) + 1).tolist(), entries.size]

    def _of_file(self, entries: Entries, topic: str) -> PlainRecords | None:
        log, place = self._directory.log, int(entries["at"][0])
        count, total = int(entries.size), int(entries["size"].sum(dtype=np.int64))
        if total <= 0 or not log.first_offset <= place < log.end:
            return None
        heads = np.empty((len(self._fields), count), np.int64)
        edges = np.empty((len(self._texts), count + 1), np.int32)
        room = self._room_for(total)
        try:
            base, file = self._directory.segment_of(place)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            return None
        is_plain = sweep(
            file.fileno(),
            base,
            entries.view(np.uint8),
            bytes(FIELDS.index(name) for name in self._fields),
            heads,
            topic.encode() if self._has_topic else None,
            tuple(_NAMES[name].encode() + b"\x01" for name in self._named),
            self._has_bodies,
            edges,
            room,
        )
        if not is_plain:
            return None
        found: dict[str, pa.Array] = {}
        for name, ends, octets in zip(self._texts, edges, room, strict=True):
            found[name] = self._array(ends, octets, may_lack=name != _BODY)
            if name != _BODY:
                if not is_utf8(found[name]):
                    return None
                found[name] = texts(found[name])
        return PlainRecords(entries, topic, dict(zip(self._fields, heads, strict=True)), found)

    def _room_for(self, total: int) -> Octets:
        """A row for the texts of each column, which have room for all of the records."""
        size = len(self._texts) * total
        if self._room.size < size:
            self._room = np.empty(size, np.uint8)
        return self._room[:size].reshape(len(self._texts), total)

    def _array(self, ends: Any, octets: Octets, *, may_lack: bool) -> pa.Array:
        """The texts in a row; those that are absent are NULL."""
        used = octets[: int(ends[-1])]
        if 2 * used.size < octets.size:
            used = used.copy()
        else:
            self._room = np.empty(0, np.uint8)  # it is the array's from now on
        valid = None
        if may_lack and not (there := ends[1:] > ends[:-1]).all():
            valid = pa.py_buffer(np.packbits(there, bitorder="little"))
        buffers = [valid, pa.py_buffer(ends), pa.py_buffer(used)]
        return pa.Array.from_buffers(pa.binary(), ends.size - 1, buffers)


compiled.take_over(globals(), "rocketpipe.pipeline.log._sweep")
