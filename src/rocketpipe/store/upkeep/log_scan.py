"""The records of a log that is only looked at: files are opened to be read, and nothing is cut.

Where a record should be and is not, the scan searches on for the next one: a magic that stands in
a whole record whose own offset is the place it was found at. What lies between is a `Gap`. The log
ends where zeros begin and no record follows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketpipe.errors import RecordError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.record.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    MAX_RECORD_BYTES,
    MIN_RECORD_BYTES,
    SIZE_AND_MAGIC,
)
from rocketpipe.store.errors import OddSegment
from rocketpipe.store.files.disk import Closing, Disk, DiskFile
from rocketpipe.store.layout import StoreLayout, file_name, offset_of
from rocketpipe.store.log.end import problem_of
from rocketpipe.store.state.checkpoint import NEVER, read_checkpoint
from rocketpipe.store.state.format_version import check_format

CHUNK_BYTES: Final = 1 << 20

_MAGIC_START: Final = MAGIC_V1.to_bytes(4, "big", signed=True)[:3]
_LOG_OFFSET_AT: Final = 28
_ZEROS: Final = bytes(CHUNK_BYTES)


@dataclass(frozen=True, slots=True)
class Scanned:
    """A whole record, verified, and where it is."""

    at: LogOffset
    record: bytes


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are no record; ``next_good`` is where records go on, None if they do not."""

    at: LogOffset
    reason: str
    next_good: LogOffset | None
    #: Up to where there is something other than zeros, when no record follows.
    end: LogOffset


class LogFiles(Closing):
    """The files of a commit log as one run of bytes; close it, or use ``with``.

    Raises:
        OddSegment: a file is missing between two others, or the files differ in length.
        DiskError: the directory cannot be read.
    """

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        #: Records between these were written with a checksum, and must have one.
        self.sealed_from = self.sealed_to = NEVER
        self._open: tuple[int, DiskFile] | None = None
        self.bases: list[int] = []
        self.segment_bytes = 0
        named = [(offset_of(name), name) for name in disk.names(directory)]
        for base, name in sorted((base, name) for base, name in named if base is not None):
            path = directory / name
            with disk.open(path, writable=False) as file:
                size = file.size()
            if size == 0 and name == max(name for base, name in named if base is not None):
                break  # an interrupted creation; opening the store removes it
            if self.segment_bytes and size != self.segment_bytes:
                raise OddSegment(path, f"has {size} bytes, the others {self.segment_bytes}")
            if self.bases and base != self.bases[-1] + self.segment_bytes:
                raise OddSegment(path, f"does not follow {self.bases[-1]:020d}")
            self.segment_bytes = size
            self.bases.append(base)

    def close(self) -> None:
        """Close the file that is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    @property
    def first_offset(self) -> LogOffset:
        """Where the oldest file begins; 0 if there is none."""
        return LogOffset(self.bases[0] if self.bases else 0)

    @property
    def end(self) -> LogOffset:
        """Where the last file ends, whether it is written up to there or not."""
        return LogOffset(self.bases[-1] + self.segment_bytes if self.bases else 0)

    def path_of(self, offset: int) -> Path:
        """The file that has this offset."""
        return self._directory / file_name(self.base_of(offset))

    def base_of(self, offset: int) -> int:
        """Where the file begins that has this offset."""
        assert self.first_offset <= offset < self.end
        return self.bases[bisect_right(self.bases, offset) - 1]

    def read(self, offset: int, size: int) -> bytes:
        """The bytes at ``offset``, fewer where the file ends.

        Raises:
            DiskError: they cannot be read.
        """
        base = self.base_of(offset)
        if self._open is None or self._open[0] != base:
            self.close()
            self._open = (base, self._disk.open(self.path_of(base), writable=False))
        return self._open[1].read(size, at=offset - base)

    def problem_of(self, record: bytes, at: int) -> str | None:
        """Say what is wrong with bytes that should be the record at an offset, if something is."""
        return problem_of(record, at, sealed=self.sealed_from <= at < self.sealed_to)

    def record_at(self, offset: int) -> bytes:
        """The record at ``offset``.

        Raises:
            RecordError: if no whole record is there.
        """
        if not self.first_offset <= offset < self.end:
            raise RecordError(f"the log goes from {self.first_offset} to {self.end}", offset)
        data = self.read(offset, SIZE_AND_MAGIC.size)
        if len(data) < SIZE_AND_MAGIC.size:
            raise RecordError("the file ends here", offset)
        size, magic = SIZE_AND_MAGIC.unpack(data)
        if magic not in (MAGIC_V1, MAGIC_V2):
            raise RecordError(f"{magic & 0xFFFFFFFF:#010x} is no magic", offset)
        if not MIN_RECORD_BYTES <= size <= self.base_of(offset) + self.segment_bytes - offset:
            raise RecordError(f"a size of {size}", offset)
        record = self.read(offset, size)
        reason = self.problem_of(record, offset)
        if reason is not None:
            raise RecordError(reason, offset)
        return record


def log_of(disk: Disk, layout: StoreLayout) -> LogFiles:
    """The log of a store; its checkpoint tells which records must have a checksum.

    Raises:
        FormatUnknown: a newer version has changed the store.
        OddSegment: as for `LogFiles`.
        DiskError: a file cannot be read.
    """
    check_format(disk, layout.root)
    files = LogFiles(disk, layout.commit_log)
    own = read_checkpoint(disk, layout.checkpoint).own
    if own is not None:
        # What is behind that, another broker may have written.
        files.sealed_from, files.sealed_to = own.sealed_from, own.confirmed
    return files


def scan(
    files: LogFiles, start: LogOffset | None = None, end: LogOffset | None = None
) -> Iterator[Scanned | Gap]:
    """Walk the log from ``start``, which is the place of a record, up to ``end``.

    Raises:
        DiskError: the files cannot be read.
    """
    at = int(files.first_offset if start is None else start)
    stop = int(files.end if end is None else end)
    while files.bases and at < stop:
        base = files.base_of(at)
        segment_end = base + files.segment_bytes
        buffer, buffer_at = b"", at
        while at < min(stop, segment_end):
            left = buffer_at + len(buffer) - at
            if left < SIZE_AND_MAGIC.size:
                buffer, buffer_at = files.read(at, CHUNK_BYTES), at
                left = len(buffer)
            if left < SIZE_AND_MAGIC.size:
                if any(buffer):
                    yield Gap(LogOffset(at), "no room for a record", None, LogOffset(segment_end))
                at = segment_end
                break
            size, magic = SIZE_AND_MAGIC.unpack_from(buffer, at - buffer_at)
            if magic == BLANK_MAGIC:
                if size == segment_end - at:
                    at = segment_end
                    break
                reason = f"a filler of {size} bytes where {segment_end - at} are left"
            elif size == 0 and magic == 0:
                reason = "nothing is written here"
            elif magic not in (MAGIC_V1, MAGIC_V2):
                reason = f"{magic & 0xFFFFFFFF:#010x} is no magic"
            elif not MIN_RECORD_BYTES <= size <= segment_end - at:
                reason = f"a size of {size}, with {segment_end - at} bytes left in the file"
            else:
                if left < size:
                    buffer, buffer_at = files.read(at, max(size, CHUNK_BYTES)), at
                record = buffer[at - buffer_at : at - buffer_at + size]
                problem = files.problem_of(record, at)
                if problem is None:
                    yield Scanned(LogOffset(at), record)
                    at += size
                    continue
                reason = problem
            next_good = next_record(files, at + 1, stop)
            dirty_end = stop if next_good is not None else _end_of_data(files, at, stop)
            if next_good is None and dirty_end == at:
                return  # zeros up to the end: nothing was ever written here
            yield Gap(LogOffset(at), reason, next_good, LogOffset(dirty_end))
            if next_good is None:
                return
            at = next_good
            if at >= segment_end:
                break


def is_full(files: LogFiles, at: int, end: int) -> bool:
    """Whether nothing is to follow in a segment that has been read up to a place."""
    if end - at < SIZE_AND_MAGIC.size:
        return True
    size, magic = SIZE_AND_MAGIC.unpack(files.read(at, SIZE_AND_MAGIC.size))
    return bool(magic == BLANK_MAGIC and size == end - at)


def next_record(files: LogFiles, start: int, stop: int) -> LogOffset | None:
    """Find the first whole record at or behind ``start`` that lies where it says it does."""
    at = start
    while at < stop:
        segment_end = files.base_of(at) + files.segment_bytes
        chunk = files.read(at, CHUNK_BYTES)
        if chunk != _ZEROS[: len(chunk)]:
            found = chunk.find(_MAGIC_START)
            while found >= 0:
                place = at + found - 4
                if place >= start and _is_record(files, place):
                    return LogOffset(place)
                found = chunk.find(_MAGIC_START, found + 1)
        at += len(chunk)
        if at < segment_end:
            at -= len(_MAGIC_START) - 1 if len(chunk) == CHUNK_BYTES else 0
        if not chunk:
            at = segment_end
    return None


def _is_record(files: LogFiles, place: int) -> bool:
    if place < files.first_offset:
        return False
    head = files.read(place, _LOG_OFFSET_AT + 8)
    # Bodies may be full of magics; this tells most of them apart without reading a record.
    if head[_LOG_OFFSET_AT:] != place.to_bytes(8, "big"):
        return False
    if not 0 <= int.from_bytes(head[:4], "big", signed=True) <= MAX_RECORD_BYTES:
        return False
    try:
        files.record_at(place)
    except RecordError:
        return False
    return True


def _end_of_data(files: LogFiles, start: int, stop: int) -> int:
    """Where the zeros begin that go on up to ``stop``."""
    end = at = start
    while at < stop:
        chunk = files.read(at, CHUNK_BYTES)
        if chunk != _ZEROS[: len(chunk)]:
            end = at + len(chunk.rstrip(b"\0"))
        at = at + len(chunk) if chunk else files.base_of(at) + files.segment_bytes
    return min(end, stop)
