"""All records of all topics, in the order they came.

Records follow each other in segments; ``record.layout`` has their bytes. A record never crosses
into the next segment, and eight bytes are always left behind it. Where it does not fit so, the
rest of the segment is closed by

    0  4  how many bytes remain, these included
    4  4  the blank magic, 0xCBD43194

and it goes to the start of the next one. Behind the last record everything is zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rocketpipe.model.offsets import LogOffset
from rocketpipe.record.checksum import is_sealed
from rocketpipe.record.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    SIZE_AND_MAGIC,
)
from rocketpipe.store.errors import RecordCorrupt, RecordTooLarge
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.layout import file_name
from rocketpipe.store.log.puts import Chunk
from rocketpipe.store.log.segment_run import SegmentRun
from rocketpipe.store.state.checkpoint import NEVER

#: What is kept free behind each record, for the filler.
FILLER_BYTES: Final = SIZE_AND_MAGIC.size
WALK_BYTES: Final = 1 << 20


def filler(remaining: int) -> bytes:
    """What closes a segment in which so many bytes are left."""
    return SIZE_AND_MAGIC.pack(remaining, BLANK_MAGIC)


class CommitLog:
    """Records by their offset. It knows nothing of how far they are durable or may be seen."""

    def __init__(self, disk: Disk, directory: Path, segment_bytes: int) -> None:
        """Open the segments that are there; ``segment_bytes`` is used if there are none.

        Raises:
            OddSegment: A file among them cannot be a segment.
            DiskError: The directory cannot be used.
        """
        self.run = SegmentRun(disk, directory, segment_bytes, preallocate=True)
        self.directory = directory
        #: Records from here on, and before the other, have a checksum; one that has none is
        #: damaged where it was, however well it looks.
        self.sealed_from = NEVER
        self.sealed_to = NEVER

    @property
    def segment_bytes(self) -> int:
        """How long each segment is."""
        return self.run.size

    @property
    def first_offset(self) -> LogOffset:
        """The offset of the oldest byte there is."""
        return LogOffset(self.run.first)

    @property
    def largest_record(self) -> int:
        """No record may be longer."""
        return self.run.size - FILLER_BYTES

    def path_of(self, offset: int) -> Path:
        """The file that has an offset, or would have it."""
        return self.directory / file_name(offset - offset % self.run.size)

    def delete_before(self, offset: LogOffset) -> int:
        """Remove the segments that end at or before ``offset``, but the last; tell how many.

        Raises:
            DiskError: One cannot be removed.
        """
        return self.run.delete_before(offset)

    def place(self, start: int, sizes: Sequence[int]) -> list[LogOffset]:
        """Say where records of these sizes will be if the log ends at ``start``.

        Raises:
            RecordTooLarge: One of them fits into no segment.
        """
        segment = self.run.size
        limit = start - start % segment + segment - FILLER_BYTES
        at = start
        offsets = []
        for size in sizes:
            if at + size > limit:
                if size > segment - FILLER_BYTES:
                    raise RecordTooLarge(size, segment - FILLER_BYTES)
                at = limit + FILLER_BYTES
                limit += segment
            offsets.append(LogOffset(at))
            at += size
        return offsets

    def make_room(self, start: int, end: int) -> None:
        """Make the segments that bytes from ``start``, the end of the log, up to ``end`` need.

        Raises:
            DiskError: One cannot be made; nothing of the log has changed.
        """
        while self.run.end < end:
            self.run.create_next(base=start - start % self.run.size)

    def append(self, chunks: Sequence[Chunk]) -> None:
        """Write encoded records and fillers where they belong; their segments are there.

        Raises:
            DiskError: Not everything was written; ``written`` says how many bytes were.
        """
        if len(chunks) > 1:
            self.run.open_all(offset for offset, _ in chunks)
        done = 0
        for offset, data in chunks:
            try:
                self.run.write(offset, data)
            except DiskError as error:
                error.written += done
                raise
            done += len(data)

    def read(self, offset: LogOffset, size: int) -> bytes:
        """The bytes of one record, or of several that follow each other in one segment.

        They are as the disk has them: who shows them to others checks them first.

        Raises:
            RecordCorrupt: The log does not have so many bytes there.
            DiskError: They cannot be read.
        """
        data = self.run.read(offset, size)
        if len(data) != size:
            raise RecordCorrupt(offset, f"{size} bytes are not in the log")
        return data

    def walk(
        self, start: LogOffset, end: LogOffset, *, partly: bool = False
    ) -> Iterator[tuple[LogOffset, bytes]]:
        """Step from record to record up to ``end``, where one ends.

        That a checksum is there is looked at where one must be, but not what it says. With
        ``partly`` the end may lie anywhere, and the walk ends before what goes beyond it.

        Raises:
            RecordCorrupt: Neither a record nor the end of a segment is where one should be.
            DiskError: The log cannot be read.
        """
        unpack = SIZE_AND_MAGIC.unpack_from
        at = int(start)
        while at < end:
            wanted = min(WALK_BYTES, end - at)
            data = self.run.read(at, wanted)
            place, length = 0, len(data)
            if length < FILLER_BYTES:
                if partly and length == wanted:
                    return
                raise RecordCorrupt(at, "the log ends before it should")
            while place + FILLER_BYTES <= length:
                size, magic = unpack(data, place)
                if magic == BLANK_MAGIC:
                    at += place
                    at += self.run.size - at % self.run.size
                    break
                if magic not in (MAGIC_V1, MAGIC_V2):
                    raise RecordCorrupt(at + place, f"{magic & 0xFFFFFFFF:#010x} is no magic")
                if size < MIN_RECORD_BYTES:
                    raise RecordCorrupt(at + place, f"a size of {size}")
                if place + size > length:
                    at += place
                    if place == 0:
                        if partly and end - at < size <= self.largest_record:
                            return
                        # It is longer than what was read: all of it at once.
                        yield LogOffset(at), self._whole(at, size, end)
                        at += size
                    break
                record = data[place : place + size]
                if at + place >= self.sealed_from and not is_sealed(record):
                    raise RecordCorrupt(at + place, "its checksum is gone")
                yield LogOffset(at + place), record
                place += size
            else:
                at += place

    def _whole(self, at: int, size: int, end: int) -> bytes:
        if at + size > end or size > self.largest_record:
            raise RecordCorrupt(at, f"a size of {size} goes beyond the end at {end}")
        record = self.read(LogOffset(at), size)
        if at >= self.sealed_from and not is_sealed(record):
            raise RecordCorrupt(at, "its checksum is gone")
        return record

    def must_be_sealed(self, at: int) -> bool:
        """Whether the record at an offset was written with a checksum."""
        return self.sealed_from <= at < self.sealed_to

    def sync(self, start: int, end: int) -> None:
        """Return once the bytes from ``start`` to ``end`` survive a power cut.

        Raises:
            DiskError: They may not, and are not to be synced again.
        """
        self.run.sync(start, end)

    def close(self) -> None:
        """Close the files; nothing is synced."""
        self.run.close()
