"""Messages that wait for their time, in files that are written once: runs.

    timer/<number>    entries in order, back to back, and nothing else (`timer_entry` has an entry)

What is handed out is handed out in that order, so all that changes of a run is how far it was. Runs
are merged, beside the loop, before there are many. None is trusted without its checksum.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from rocketpipe.errors import StoreError
from rocketpipe.store.files.disk import Disk, DiskFile
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.timers.entry import (
    ENTRY_BYTES,
    FIRST_AT,
    KIND_AT,
    PLACE_BYTES,
    RECORD,
    STORED,
    record_bytes,
)

#: So many entries are read at a time.
BLOCK: Final = 256
BLOCK_BYTES: Final = BLOCK * ENTRY_BYTES
#: So many entries are merged at a stretch: other threads have to wait meanwhile.
STEP: Final = 1024
_LEAST: Final = 16
_TOP: Final = (1 << 64) - 1
_CHECK_BYTES: Final = 64 * BLOCK_BYTES


class RunDamaged(StoreError):
    """A run is not what was written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path


@dataclass(slots=True)
class RunFacts:
    """What has to be known of a run without reading it."""

    count: int = 0
    crc: int = 0
    #: Between which offsets the messages it tells of stood when they first waited.
    low: int = _TOP
    high: int = 0
    #: Its oldest record, by offset and by time.
    oldest: int = _TOP
    since_ms: int = _TOP

    def add(self, entries: Sequence[bytes]) -> bytes:
        """Take note of entries that follow; gives them back to back."""
        data = b"".join(entries)
        self.count += len(entries)
        self.crc = crc32(data, self.crc)
        origins = [entry[8:16] for entry in entries]
        if origins:
            self.low = min(self.low, int.from_bytes(min(origins), "big"))
            self.high = max(self.high, int.from_bytes(max(origins), "big"))
        waiting = [entry for entry in entries if entry[KIND_AT]]
        if waiting:
            record = max(entry[RECORD] for entry in waiting)
            self.oldest = min(self.oldest, _TOP - int.from_bytes(record, "big"))
            stored = min(entry[STORED] for entry in waiting)
            self.since_ms = min(self.since_ms, int.from_bytes(stored, "big"))
        return data


class TimerRun:
    """One run, of which ``taken`` entries were handed out."""

    def __init__(
        self,
        files: OpenFiles,
        path: Path,
        facts: RunFacts,
        marks: list[bytes],
        taken: int = 0,
    ) -> None:
        """``marks`` has the place of the first entry of each block."""
        self._files = files
        self.path = path
        self.facts = facts
        self.taken = taken
        #: How many of its entries are known to count no more.
        self.stale = 0
        #: Where the log began when those were left out that were gone with it.
        self.cleaned_to = 0
        self._marks = marks
        self._block = b""
        self._block_number = -1

    @classmethod
    def write(cls, disk: Disk, files: OpenFiles, path: Path, entries: Sequence[bytes]) -> TimerRun:
        """Make a run of entries that are in order; it is not durable yet.

        Raises:
            DiskError: It cannot be written, and is not there.
        """
        facts = RunFacts()
        data = facts.add(entries)
        file = files.create(path, 0)
        try:
            file.write(data, 0)
        except BaseException:
            files.forget(path)
            disk.remove(path)
            raise
        return cls(files, path, facts, [entry[:PLACE_BYTES] for entry in entries[::BLOCK]])

    @classmethod
    def load(cls, files: OpenFiles, path: Path, facts: RunFacts, taken: int) -> TimerRun:
        """Take a run over.

        Raises:
            RunDamaged: It is not what was written.
            DiskError: It cannot be read.
        """
        file = files.get(path)
        size = facts.count * ENTRY_BYTES
        if file.size() != size or not 0 <= taken <= facts.count:
            raise RunDamaged(path, f"has not {facts.count} entries")
        marks: list[bytes] = []
        crc = at = 0
        while at < size:
            data = file.read(min(_CHECK_BYTES, size - at), at)
            crc = crc32(data, crc)
            marks += [data[i : i + PLACE_BYTES] for i in range(0, len(data), BLOCK_BYTES)]
            at += len(data)
        if crc != facts.crc:
            raise RunDamaged(path, "is not what its checksum was computed of")
        return cls(files, path, facts, marks, taken)

    @property
    def left(self) -> int:
        """How many entries were not handed out."""
        return self.facts.count - self.taken

    def head(self) -> bytes | None:
        """The first entry that was not handed out."""
        return self.at(self.taken) if self.taken < self.facts.count else None

    def at(self, index: int) -> bytes:
        """The entry of a number."""
        number, within = divmod(index, BLOCK)
        if number != self._block_number:
            self._block = self._read(number * BLOCK, BLOCK)
            self._block_number = number
        return self._block[within * ENTRY_BYTES : (within + 1) * ENTRY_BYTES]

    def _read(self, index: int, count: int) -> bytes:
        count = min(count, self.facts.count - index)
        data = self._files.get(self.path).read(count * ENTRY_BYTES, index * ENTRY_BYTES)
        if len(data) != count * ENTRY_BYTES:
            raise RunDamaged(self.path, f"ends before its entry {index + count}")
        return data

    def entries(self, low: bytes, high: bytes, count: int = BLOCK) -> Iterator[bytes]:
        """Give what was not handed out from ``low`` to below ``high``, back to back in portions."""
        index, end = max(self.taken, self.below(low)), self.below(high)
        while index < end:
            data = self._read(index, min(count, end - index))
            index += len(data) // ENTRY_BYTES
            yield data

    def below(self, bound: bytes) -> int:
        """How many entries are below a place, or below an entry."""
        # The entries of one place may begin in the block before that which is marked with it.
        place = bound[:PLACE_BYTES]
        block = bisect_right(self._marks, place) - 1
        while block > 0 and self._marks[block] == place:
            block -= 1
        low = max(0, block) * BLOCK
        high = self.facts.count
        next_block = bisect_right(self._marks, place)
        if next_block < len(self._marks):
            high = next_block * BLOCK
        while low < high:
            middle = (low + high) // 2
            if self.at(middle) < bound:
                low = middle + 1
            else:
                high = middle
        return low

    def deciding(self, place: bytes) -> bytes | None:
        """The entry that counts of those with a place, unless it was handed out."""
        origin = int.from_bytes(place[8:16], "big")
        if not self.facts.low <= origin <= self.facts.high:
            return None
        index = max(self.taken, self.below(place))
        entry = self.at(index) if index < self.facts.count else b""
        return entry if entry[:PLACE_BYTES] == place else None


def read_run(disk: Disk, path: Path, facts: RunFacts) -> Iterator[bytes]:
    """Give all entries of a run, for one who only looks.

    Raises:
        RunDamaged: It is not what was written; that may come last.
        DiskError: It cannot be read.
    """
    crc = at = 0
    with disk.open(path, writable=False) as file:
        if file.size() != facts.count * ENTRY_BYTES:
            raise RunDamaged(path, f"has not {facts.count} entries")
        while data := file.read(BLOCK_BYTES, at):
            crc = crc32(data, crc)
            at += len(data)
            yield from (data[i : i + ENTRY_BYTES] for i in range(0, len(data), ENTRY_BYTES))
    if crc != facts.crc:
        raise RunDamaged(path, "is not what its checksum was computed of")


class TimerMerge:
    """Makes one run of several that follow each other in age. Any thread may do the work."""

    def __init__(
        self,
        disk: Disk,
        runs: Sequence[TimerRun],
        path: Path,
        log_first: int,
        near: bytes,
        *,
        oldest: bool,
    ) -> None:
        """``oldest`` says that there are no runs that are older than these.

        ``log_first`` is where the log begins: what waited before it is left out. What is before
        ``near`` may be handed out meanwhile, and is counted then.
        """
        self.runs = list(runs)
        self.path = path
        self.facts = RunFacts()
        self.marks: list[bytes] = []
        #: How many waited in a part of the log that is gone, and how many entries said of a
        #: message that is not there that it waits no longer.
        self.lost = self.dangling = 0
        self.done = self.given_up = False
        self.log_first = log_first
        self._near = near
        self._disk = disk
        self._oldest = oldest
        self._gone = record_bytes(log_first)
        self._sources = [_Source(run) for run in runs]
        self._file: DiskFile | None = None
        self._open: list[DiskFile] = []
        #: What is kept and was not written yet: whole blocks are.
        self._kept: list[bytes] = []

    def work(self, most: int) -> bool:
        """Merge about so many entries more; True once all are, and the run is durable.

        Raises:
            DiskError: That cannot be done. `close` it then.
        """
        if self._file is None:
            self._file = self._disk.create(self.path)
            for source in self._sources:
                source.file = self._disk.open(source.path, writable=False)
                self._open.append(source.file)
        worked = 0
        while worked < most:
            entries = self._next()
            if not entries:
                self._write(self._kept)
                self._file.sync()
                self.close()
                self.done = True
                return True
            worked += len(entries)
            self._resolve(entries)
            whole = len(self._kept) // BLOCK * BLOCK
            self._write(self._kept[:whole])
            self._kept = self._kept[whole:]
        return False

    def _next(self) -> list[bytes]:
        """The next entries of all, in order; places are never parted."""
        wanted = max(_LEAST, STEP // len(self._sources))
        while True:
            for source in self._sources:
                source.fill(wanted)
            full = [source.waiting[-1][:PLACE_BYTES] for source in self._sources if source.more]
            if not full:
                found = [entry for source in self._sources for entry in source.waiting]
                for source in self._sources:
                    source.waiting = []
                return sorted(found)
            bound = min(full)
            found = [entry for source in self._sources for entry in source.take_below(bound)]
            if found:
                return sorted(found)
            wanted *= 2

    def _resolve(self, entries: list[bytes]) -> None:
        kept = self._kept
        if self._all_count(entries):
            kept += entries
            return
        place = b""
        start = 0
        for index, entry in enumerate(entries):
            if entry[:PLACE_BYTES] != place:
                if index:
                    self._decide(entries[start:index], kept)
                place, start = entry[:PLACE_BYTES], index
        self._decide(entries[start:], kept)

    def _all_count(self, entries: list[bytes]) -> bool:
        """Whether each entry is of another message, which waits: as a rule it is so."""
        if b"".join(entries)[KIND_AT::ENTRY_BYTES].count(1) != len(entries):
            return False
        if len({entry[:PLACE_BYTES] for entry in entries}) != len(entries):
            return False
        return max(entry[RECORD] for entry in entries) <= self._gone

    def _decide(self, same: list[bytes], kept: list[bytes]) -> None:
        entry = same[0]
        is_first = any(each[FIRST_AT] for each in same)
        if not entry[KIND_AT]:
            if is_first:
                return
            if not self._oldest or entry < self._near:
                kept.append(entry)
            elif not any(each[KIND_AT] for each in same):
                self.dangling += 1
        elif entry[RECORD] > self._gone and entry >= self._near:
            self.lost += 1
        elif is_first and not entry[FIRST_AT]:
            kept.append(entry[:FIRST_AT] + b"\1")
        else:
            kept.append(entry)

    def _write(self, entries: list[bytes]) -> None:
        assert self._file is not None
        at = self.facts.count * ENTRY_BYTES
        self.marks += [entry[:PLACE_BYTES] for entry in entries[::BLOCK]]
        self._file.write(self.facts.add(entries), at)

    def close(self) -> None:
        """Let the files go, whether it is done or given up."""
        for file in self._open:
            file.close()
        self._open.clear()
        if self._file is not None:
            self._file.close()


class _Source:
    """What is left of a run that is merged."""

    def __init__(self, run: TimerRun) -> None:
        self.path = run.path
        self.waiting: list[bytes] = []
        self.file: DiskFile | None = None
        self._index, self._end = run.taken, run.facts.count

    @property
    def more(self) -> bool:
        """Whether there is more than what waits."""
        return self._index < self._end

    def fill(self, wanted: int) -> None:
        """Have so many wait, if there are so many."""
        count = min(wanted - len(self.waiting), self._end - self._index)
        if count <= 0:
            return
        assert self.file is not None
        size = ENTRY_BYTES
        data = self.file.read(count * size, self._index * size)
        if len(data) != count * size:
            raise RunDamaged(self.path, f"ends before its entry {self._index + count}")
        self.waiting += [data[at : at + size] for at in range(0, len(data), size)]
        self._index += count

    def take_below(self, bound: bytes) -> list[bytes]:
        """Give what waits below a place."""
        low, high = 0, len(self.waiting)
        while low < high:
            middle = (low + high) // 2
            if self.waiting[middle] < bound:
                low = middle + 1
            else:
                high = middle
        taken, self.waiting = self.waiting[:low], self.waiting[low:]
        return taken
