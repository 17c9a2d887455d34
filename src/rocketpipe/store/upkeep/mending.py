"""Damage in a log, mended from another replica that has the same bytes.

    files that are missing, or cut     taken whole from the other log
    bytes that are no record           replaced, from where the damage begins to the next whole one
    the end of what was durable        taken up to where this log was durable

What comes is believed only if every record of it is whole and says that it belongs there, and if
records that both logs have beside it are the same. A file is made anew beside the old one and takes
its place in one step; the bytes that go are kept under ``quarantine``. Whatever interrupts it, to
do it again ends it.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from rocketpipe.clock import Clock
from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.record.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    MAX_RECORD_BYTES,
    MIN_RECORD_BYTES,
    SIZE_AND_MAGIC,
)
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk, DiskError, DiskFile
from rocketpipe.store.files.quarantine import Quarantine
from rocketpipe.store.layout import UNFINISHED, StoreLayout, file_name, offset_of
from rocketpipe.store.log.end import problem_of
from rocketpipe.store.state.checkpoint import NEVER, read_checkpoint
from rocketpipe.store.state.run_files import locked
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.cutting import remove
from rocketpipe.store.upkeep.log_scan import Gap, LogFiles, Scanned, log_of, scan
from rocketpipe.store.upkeep.maintenance import rebuild_derived

COPY_BYTES: Final = 1 << 20


class LogSource(Protocol):
    """Another replica's log, to be read."""

    #: What it is called in what is said of it.
    name: str
    #: Up to where both logs are known to be one, by who led them; None where nothing is known.
    same_to: int | None

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from an offset on, at most so many; none where that log has no more.

        Raises:
            StoreError: They cannot be had.
        """
        ...


class NotMended(StoreError):
    """The other log cannot mend this one; nothing was changed that it would not have changed."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source} cannot mend this log: {reason}")
        self.source = source
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Mended:
    """One range of the log that is as it was."""

    file: Path
    at: int
    end: int
    reason: str
    #: Where the bytes are that were there before, if any were.
    kept_in: Path | None

    def __str__(self) -> str:
        kept = f"; what was there is in {self.kept_in}" if self.kept_in is not None else ""
        return f"{self.file} from {self.at} to {self.end}: {self.reason}{kept}"


@dataclass(frozen=True, slots=True)
class MendReport:
    """What was mended, and whether queues and index had to be made anew."""

    ranges: tuple[Mended, ...]
    rebuilt: bool


def mend(
    config: StoreConfig, disk: Disk, clock: Clock, source: LogSource, *, around: int | None = None
) -> MendReport:
    """Put right what is damaged in a log that nobody uses, with bytes of another replica.

    ``around`` is where damage is known to be: then only whether files are there, and the records of
    that file, are looked at, and what follows from the log is left to the next opening.

    Raises:
        StoreLocked: The store is in use.
        NotMended: The other log is not the same, or has not what is missing here.
        StoreError: The other log cannot be read.
        DiskError: A file here cannot be read or written.
    """
    layout = StoreLayout(config.root)
    with locked(disk, layout):
        mending = _Mending(config, disk, layout, source, around)
        ranges = (*mending.whole_files(), *mending.gaps())
    if around is not None:
        return MendReport(ranges, rebuilt=False)
    found = check_store(disk, config.root, index_slots=config.index_slots)
    # A kill's left-overs are for the next start; what is wrong with derived files else is not.
    rebuilt = not found.ok and found.log_ok
    if rebuilt:
        rebuild_derived(config, disk, clock)
    return MendReport(ranges, rebuilt)


class _Mending:
    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        layout: StoreLayout,
        source: LogSource,
        around: int | None,
    ) -> None:
        self._around = around
        self._disk = disk
        self._kept = Quarantine(disk, layout.quarantine, config.quarantine_bytes)
        self._layout = layout
        self._source = source
        own = read_checkpoint(disk, layout.checkpoint).own
        self._durable = own.confirmed if own is not None else 0
        self._last_record = own.last_record if own is not None else -1
        self._sealed = (own.sealed_from, own.confirmed) if own is not None else (NEVER, NEVER)
        self._files = self._sizes()
        self._size = self._segment_bytes(own.segment_bytes if own is not None else 0, config)

    def _sizes(self) -> dict[int, int]:
        sizes = {}
        for name in _names(self._disk, self._layout.commit_log):
            base = offset_of(name)
            if base is not None:
                with self._disk.open(self._path(base), writable=False) as file:
                    sizes[base] = file.size()
        return sizes

    def _segment_bytes(self, known: int, config: StoreConfig) -> int:
        if known:
            return known
        # A cut file is one among others.
        lengths = Counter(self._files.values()).most_common(1)
        return lengths[0][0] if len(self._files) > 1 and lengths[0][0] else config.segment_bytes

    def _path(self, base: int) -> Path:
        return self._layout.commit_log / file_name(base)

    # Files that are missing, or too short

    def whole_files(self) -> Iterator[Mended]:
        """Take in the files without which there is no log."""
        size = self._size
        top = max([self._durable, *(base + 1 for base in self._files)])
        first = min(self._files, default=self._first_of_source() if top else 0)
        odd = [base for base in self._files if (base - first) % size]
        if odd:
            raise NotMended(
                self._source.name, f"{self._path(odd[0])} is no file of {size} bytes' log"
            )
        for base in range(first, top, size):
            there = self._files.get(base)
            if there == size or (base >= self._durable and base + size >= top):
                continue  # whole, or an interrupted creation, which opening removes
            reason = "it was missing" if there is None else f"it had {there} of {size} bytes"
            yield self._take_file(base, reason)

    def _first_of_source(self) -> int:
        """Where the other log begins: what it has not, nobody can bring back."""
        at = 0
        while at < self._durable and not self._source.read(at, 1):
            at += self._size
        return at

    def _take_file(self, base: int, reason: str) -> Mended:
        end, least = base + self._size, min(base + self._size, self._durable)
        self._check_same_to(base, least)
        for neighbour in (base - self._size, base + self._size):
            if self._files.get(neighbour) == self._size:
                self._compare_first_record(neighbour)
        if self._source.same_to is not None:
            end = min(end, self._source.same_to)
        fresh = self._fresh(base)
        with self._disk.create(fresh) as file:
            file.preallocate(self._size)
            self._fetch(file, base, base, end)
            reached = self._walk(file, base, base, end)
            if reached < least:
                raise NotMended(
                    self._source.name, f"it goes to {reached}, and {least} was durable here"
                )
            file.sync()
        kept_in = self._set_aside(base)
        self._disk.rename(fresh, self._path(base))
        self._disk.sync_directory(self._layout.commit_log)
        self._files[base] = self._size
        return Mended(self._path(base), base, reached, reason, kept_in)

    def _set_aside(self, base: int) -> Path | None:
        if not self._files.get(base):
            return None
        with self._disk.open(self._path(base), writable=False) as file:
            return self._copy_away(file, base, 0, file.size())

    def _compare_first_record(self, base: int) -> None:
        """See that a file beside the one that is missing begins as the other log's does."""
        with self._disk.open(self._path(base), writable=False) as file:
            mine = _record_in(file.read(MIN_RECORD_BYTES, at=0))
            record = file.read(mine, at=0) if mine else b""
        if record and problem_of(record, base) is None:
            self._compare(base, record)

    # Damage inside files

    def gaps(self) -> Iterator[Mended]:
        """Replace what is no record, and what is missing of the end."""
        for at, end, reason, behind in self._damage():
            while at < end:
                segment_end = at - at % self._size + self._size
                stop = min(end, segment_end)
                yield self._replace(at, stop, reason, behind if stop == end else None)
                at = stop

    def _damage(self) -> list[tuple[int, int, str, Scanned | None]]:
        """From where to where, what is wrong, and the whole record behind it."""
        if not self._files:
            return []
        found: list[tuple[int, int, str, Scanned | None]] = []
        open_gap: Gap | None = None
        with log_of(self._disk, self._layout) as files:
            start, stop = self._looked_at(files)
            end = start
            for item in scan(files, LogOffset(start)):
                if item.at >= stop and open_gap is None:
                    return found
                if isinstance(item, Scanned):
                    if open_gap is not None:
                        found.append((int(open_gap.at), int(item.at), open_gap.reason, item))
                        open_gap = None
                    end = item.at + len(item.record)
                elif item.next_good is not None and item.at < self._durable:
                    open_gap = item
                elif item.at < self._durable:
                    found.append((int(item.at), self._durable, item.reason, None))
                    return found
                else:
                    return found  # what a crash left; opening cuts it
            if self._last_record >= end:
                end = self._behind_filler(files, end)
                found.append((end, self._durable, "nothing is written here", None))
        return found

    def _looked_at(self, files: LogFiles) -> tuple[int, int]:
        """The file around the damage that is known, or the whole log."""
        first, end = int(files.first_offset), int(files.end)
        if self._around is None:
            return first, end
        base = files.base_of(min(max(self._around, first), end - 1))
        return base, base + files.segment_bytes

    def _behind_filler(self, files: LogFiles, at: int) -> int:
        if at < files.end:
            head = files.read(at, SIZE_AND_MAGIC.size)
            left = files.base_of(at) + files.segment_bytes - at
            if len(head) == SIZE_AND_MAGIC.size and SIZE_AND_MAGIC.unpack(head) == (
                left,
                BLANK_MAGIC,
            ):
                return at + left
        return at

    def _replace(self, at: int, end: int, reason: str, behind: Scanned | None) -> Mended:
        self._check_same_to(at, end)
        if behind is not None:
            self._compare(int(behind.at), behind.record)
        base = at - at % self._size
        fresh, path = self._fresh(base), self._path(base)
        with (
            self._disk.open(path, writable=False) as old,
            self._disk.create(fresh) as file,
        ):
            file.preallocate(self._size)
            for place in range(0, self._size, COPY_BYTES):
                file.write(old.read(min(COPY_BYTES, self._size - place), at=place), at=place)
            self._fetch(file, base, at, end)
            reached = self._walk(file, base, at, end)
            if reached != end:
                raise NotMended(
                    self._source.name,
                    f"its records from {at} on end at {reached}, where they have to at {end}: it "
                    "is another log, or damaged too",
                )
            file.sync()
            kept_in = self._copy_away(old, at, at - base, end - at)
        self._disk.rename(fresh, path)
        self._disk.sync_directory(self._layout.commit_log)
        return Mended(path, at, end, reason, kept_in)

    # The other log

    def _check_same_to(self, at: int, end: int) -> None:
        same_to = self._source.same_to
        if same_to is not None and end > same_to:
            raise NotMended(
                self._source.name,
                f"the two logs are one up to {same_to}, and the damage from {at} on goes to {end}: "
                "have a replica mend it that was in sync, or cut it off with 'rocketpipe store "
                "truncate'",
            )

    def _compare(self, at: int, record: bytes) -> None:
        theirs = b"".join(self._bytes(at, at + len(record)))
        if theirs != record:
            raise NotMended(
                self._source.name,
                f"its record at {at} is not the one that is whole here: it is another log",
            )

    def _bytes(self, at: int, end: int) -> Iterator[bytes]:
        while at < end:
            data = self._source.read(at, min(COPY_BYTES, end - at))
            if not data:
                return
            yield data
            at += len(data)

    def _fetch(self, file: DiskFile, base: int, at: int, end: int) -> None:
        for data in self._bytes(at, end):
            file.write(data, at=at - base)
            at += len(data)

    def _walk(self, file: DiskFile, base: int, at: int, end: int) -> int:
        """Go from record to record in what came; gives where the last whole one ends.

        Raises:
            NotMended: Something in it is no record of that place.
        """
        segment_end = base + self._size
        while at < end:
            head = file.read(SIZE_AND_MAGIC.size, at=at - base)
            size, magic = SIZE_AND_MAGIC.unpack(head) if len(head) == 8 else (0, 0)
            if (size, magic) == (segment_end - at, BLANK_MAGIC):
                return segment_end
            if not size and not magic:
                return at
            if not MIN_RECORD_BYTES <= size <= min(MAX_RECORD_BYTES, segment_end - at):
                raise NotMended(self._source.name, f"at {at} it has no record either")
            sealed = self._sealed[0] <= at < self._sealed[1]
            problem = problem_of(file.read(size, at=at - base), at, sealed=sealed)
            if problem is not None:
                raise NotMended(self._source.name, f"its record at {at}: {problem}")
            at += size
        return at

    # Files

    def _fresh(self, base: int) -> Path:
        fresh = self._layout.commit_log / (file_name(base) + UNFINISHED)
        remove(self._disk, fresh)  # left behind by a crash
        return fresh

    def _copy_away(self, old: DiskFile, at: int, start: int, size: int) -> Path:
        return self._kept.keep(
            f"mended-{at:020d}", size, lambda place, most: old.read(most, at=start + place)
        )


class DirectorySource:
    """The log in a directory that nobody changes meanwhile, such as a stopped broker's."""

    def __init__(self, disk: Disk, root: Path, same_to: int | None = None) -> None:
        """Take what is at ``root``.

        Raises:
            FormatUnknown: A newer version has changed it.
            OddSegment: It is damaged itself, so that there is no reading it.
            DiskError: It cannot be read.
        """
        self.name = str(root)
        self.same_to = same_to
        self._files = log_of(disk, StoreLayout(root))

    def read(self, offset: int, size: int) -> bytes:
        if not self._files.first_offset <= offset < self._files.end:
            return b""
        return self._files.read(offset, size)

    @property
    def end(self) -> int:
        """Where its files end, written or not."""
        return int(self._files.end)

    def close(self) -> None:
        """Let its files go."""
        self._files.close()


def _record_in(head: bytes) -> int:
    """How long the record is that begins so; 0 if none does."""
    if len(head) < SIZE_AND_MAGIC.size:
        return 0
    size, magic = SIZE_AND_MAGIC.unpack_from(head)
    is_record = magic in (MAGIC_V1, MAGIC_V2) and MIN_RECORD_BYTES <= size <= MAX_RECORD_BYTES
    return int(size) if is_record else 0


def _names(disk: Disk, directory: Path) -> list[str]:
    try:
        return disk.names(directory)
    except DiskError as error:
        if error.errno == errno.ENOENT:
            return []
        raise
