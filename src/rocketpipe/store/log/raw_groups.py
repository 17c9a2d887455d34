"""The log of a leader as it comes over a connection: bytes in any portions, whole groups out.

    bytes of the log ──▶ add ──▶ RawPiece: groups that are complete, and fillers between them
                          └──▶   the rest waits until what it begins with is complete

Every record is looked at before a byte of it is given out: that it is at its place, that no
segment ends within it, that its checksum holds. A group ends where its mark says, and a record
without one is a group by itself; a filler goes with the group behind it. So whoever writes pieces
one after the other has at any moment a log that the leader could have left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocketpipe.model.offsets import LogOffset
from rocketpipe.record.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    MAX_RECORD_BYTES,
    MIN_RECORD_BYTES,
    SIZE_AND_MAGIC,
)
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.log.batch_mark import read_mark
from rocketpipe.store.log.commit_log import FILLER_BYTES
from rocketpipe.store.log.end import problem_of, stored_ms_of
from rocketpipe.store.log.records import is_sealed, sealed_run
from rocketpipe.store.state.checkpoint import NEVER

#: No group is longer, nor is more kept of a filler.
MOST_BYTES: Final = 64 << 20
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_LOG_OFFSET_AT: Final = 28
_LOG_OFFSET_END: Final = _LOG_OFFSET_AT + 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPiece:
    """Whole groups of a log, from ``at`` up to ``end``.

    A filler that is longer than a piece may be comes alone, with no more than its head as data.
    """

    at: LogOffset
    data: bytes
    end: LogOffset
    #: Where the last record starts, and when it was stored; −1 and 0 if there is none.
    last_record: int
    stored_ms: int
    records: int
    #: From where on every record has a checksum, as far as has come; `NEVER` if that is not known.
    sealed_from: int


@dataclass(slots=True)
class _Found:
    """How far records go in a buffer, by their places in it."""

    #: Behind the last record, and where that starts; −1 if there is none.
    end: int = 0
    last: int = -1
    records: int = 0
    #: How many bytes there have to be before it is worth while to look again.
    needed: int = 0
    #: A filler that is too long to wait for: where it is, and where it ends.
    long_filler: tuple[int, int] | None = None


class RawGroups:
    """Takes the bytes of a log in order, from an offset at which a group starts."""

    def __init__(
        self,
        start: LogOffset,
        segment_bytes: int,
        *,
        sealed_from: int,
        most: int = MOST_BYTES,
        ours: bool = True,
    ) -> None:
        """``sealed_from`` is the log's: records from there on must have a checksum.

        ``ours`` says that the leader writes records as we do: from the first checksum on all have
        one. Of another's log that cannot be said, nor do its clients' marks make groups.
        """
        self._at = int(start)
        self._segment_bytes = segment_bytes
        self._most = most
        self._ours = ours
        self._rest = bytearray()
        self._needed = 0
        #: How much of a long filler is still to come.
        self._passing = 0
        self.sealed_from = sealed_from if ours else NEVER

    @property
    def at(self) -> LogOffset:
        """Where the next piece will begin."""
        return LogOffset(self._at)

    @property
    def pending_bytes(self) -> int:
        """How much waits for more."""
        return len(self._rest)

    def add(self, data: bytes | memoryview) -> RawPiece | None:
        """Take the bytes that follow; gives what is complete with them, if something is.

        Raises:
            RecordCorrupt: They cannot be that log: a record is not whole or not where it says it
                is, has no checksum where one must be, or belongs to a group that is too long.
        """
        if self._passing:
            passed = min(self._passing, len(data))
            self._passing -= passed
            data = data[passed:]
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return None
            buffer = bytes(self._rest)
        else:
            buffer = bytes(data)
        found = self._walk(buffer)
        if found.last >= 0:
            self._leave_out_unfinished(buffer, found)
        if found.last >= 0:
            return self._take(buffer, found)
        if found.long_filler is not None:
            return self._pass(buffer, *found.long_filler)
        if not self._rest:
            self._rest += buffer
        self._needed = found.needed
        return None

    def _walk(self, buffer: bytes) -> _Found:
        """Check record after record as far as they are there."""
        at, length, found = self._at, len(buffer), _Found()
        place = 0
        while True:
            begin = place
            place, last, many = sealed_run(buffer, at, place)
            if many:
                self._check_segment(at + begin, at + last, at + place)
                if self._ours and self.sealed_from > at + begin:
                    self.sealed_from = at + begin
                found.end, found.last = place, last
                found.records += many
            found.needed = place + SIZE_AND_MAGIC.size
            if length < found.needed:
                return found
            size, magic = SIZE_AND_MAGIC.unpack_from(buffer, place)
            left = self._segment_bytes - (at + place) % self._segment_bytes
            if magic == BLANK_MAGIC:
                if size != left:
                    raise RecordCorrupt(at + place, f"a filler of {size} bytes, {left} are left")
                found.needed = place + left
                if left > self._most:
                    found.needed, found.long_filler = 0, (place, place + left)
                    return found
                if length < found.needed:
                    return found
                place += left
                continue
            self._check_head(buffer, place, size, magic, left)
            found.needed = place + size
            if length < found.needed:
                return found
            self._check_record(buffer[place : place + size], at + place)
            found.last, found.end = place, place + size
            found.records += 1
            place += size

    def _check_segment(self, start: int, last: int, end: int) -> None:
        segment_end = start - start % self._segment_bytes + self._segment_bytes
        if end > segment_end - FILLER_BYTES:
            raise RecordCorrupt(last, f"it goes up to {end}, and its segment to {segment_end}")

    def _check_head(self, buffer: bytes, place: int, size: int, magic: int, left: int) -> None:
        at = self._at + place
        if magic not in _MAGICS:
            raise RecordCorrupt(at, f"{magic & 0xFFFFFFFF:#010x} is no magic")
        if not MIN_RECORD_BYTES <= size <= min(MAX_RECORD_BYTES, left - FILLER_BYTES):
            raise RecordCorrupt(at, f"a size of {size}, with {left} bytes left in its segment")
        said = buffer[place + _LOG_OFFSET_AT : place + _LOG_OFFSET_END]
        if len(said) == 8 and said != at.to_bytes(8, "big"):
            raise RecordCorrupt(at, f"it says that it is at {int.from_bytes(said, 'big')}")

    def _check_record(self, record: bytes, at: int) -> None:
        """Look at a record that is there as a whole and has no checksum that holds."""
        problem = problem_of(record, at, sealed=at >= self.sealed_from)
        if problem is not None:
            raise RecordCorrupt(at, problem)

    def _leave_out_unfinished(self, buffer: bytes, found: _Found) -> None:
        """End before the group that the last record belongs to, if it is not complete."""
        group = self._group_of(buffer[found.last : found.end], self._at + found.last)
        if group is None or group[1] == self._at + found.end:
            return
        start, end = group
        if end - start > self._most:
            raise RecordCorrupt(start, f"a group of {end - start} bytes, of {self._most} at most")
        found.needed = max(found.needed, end - self._at)
        found.long_filler = None
        self._end_before(start - self._at, buffer, found)

    def _group_of(self, record: bytes, at: int) -> tuple[int, int] | None:
        sealed = is_sealed(record)
        if not sealed and not self._ours:
            return None
        group = read_mark(record, sealed=sealed)
        if group is None:
            return None
        start, end = group
        if start < self._at and self._at % self._segment_bytes == 0:
            start = self._at  # the log begins here, and what lay before is gone
        if not self._at <= start <= at or end < at + len(record):
            raise RecordCorrupt(at, f"it is in no group from {start} to {end}")
        return start, end

    def _end_before(self, stop: int, buffer: bytes, found: _Found) -> None:
        found.end, found.last, found.records = 0, -1, 0
        before = buffer[:stop]
        place = 0
        while True:
            place, last, many = sealed_run(before, self._at, place)
            if many:
                found.end, found.last = place, last
                found.records += many
            if place >= stop:
                break
            size, magic = SIZE_AND_MAGIC.unpack_from(buffer, place)
            if magic != BLANK_MAGIC:
                found.end, found.last = place + size, place
                found.records += 1
            place += size
        if place != stop:
            raise RecordCorrupt(self._at + stop, "a group starts there, and no record does")

    def _take(self, buffer: bytes, found: _Found) -> RawPiece:
        at, end = self._at, found.end
        piece = RawPiece(
            at=LogOffset(at),
            data=buffer[:end] if end < len(buffer) else buffer,
            end=LogOffset(at + end),
            last_record=at + found.last,
            stored_ms=stored_ms_of(buffer[found.last : end]),
            records=found.records,
            sealed_from=self.sealed_from if self.sealed_from < at + end else NEVER,
        )
        self._go_on(buffer, end, found.needed - end)
        return piece

    def _pass(self, buffer: bytes, place: int, end: int) -> RawPiece:
        """Give what matters of a long filler, and do without the rest of it."""
        piece = RawPiece(
            at=LogOffset(self._at),
            data=buffer[: place + FILLER_BYTES],
            end=LogOffset(self._at + end),
            last_record=-1,
            stored_ms=0,
            records=0,
            sealed_from=self.sealed_from if self.sealed_from < self._at + end else NEVER,
        )
        self._passing = max(0, end - len(buffer))
        self._go_on(buffer, end, 0)
        return piece

    def _go_on(self, buffer: bytes, end: int, needed: int) -> None:
        self._rest = bytearray(memoryview(buffer)[end:])
        self._at += end
        self._needed = needed
