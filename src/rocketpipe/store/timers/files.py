"""The files of the timer wheel: its runs, and what says which of them are good.

A run is durable before ``waiting.json`` names it, and goes after that names it no longer, so that
whatever a crash leaves is whole. What is not named is removed on opening.
"""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.hot import java_hash
from rocketpipe.store.files.background_sync import PendingSync
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.files.snapshot import Snapshot, SnapshotDamaged
from rocketpipe.store.timers.entry import ENTRY_BYTES, FIRST_AT, PLACE, PLACE_BYTES, Timed, hashed
from rocketpipe.store.timers.run import STEP, RunDamaged, RunFacts, TimerMerge, TimerRun

log = logging.getLogger(__name__)

#: Which runs are good, and what is in none of them.
WAITING: Final = "waiting.json"
#: What versions before this one wrote.
PENDING: Final = "pending.json"
#: So few entries are kept in the small file rather than in a run.
INLINE: Final = 256

#: So many runs of a size become one, and so many at most.
_FAN, _WIDEST = 8, 32
#: With so many runs nothing more is written until some are merged.
_MOST_RUNS: Final = 128
#: So many entries are merged in a round.
_BUDGET: Final = 1 << 17
#: What is handed out so soon may be handed out while it is merged, and is kept as it is.
_NEAR_MS: Final = 600_000
_ROW: Final = 8


@dataclass(slots=True)
class Saved:
    """What ``waiting.json`` has beside runs, and what ``pending.json`` has."""

    holds_to: LogOffset
    noted_to: int = 0
    count: int = 0
    moved: int = 0
    fresh: list[bytes] = field(default_factory=list)
    out: list[bytes] = field(default_factory=list)
    pending: list[Timed] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NamedRun:
    """A run as ``waiting.json`` names it."""

    name: str
    facts: RunFacts
    taken: int


def parse_waiting(text: bytes) -> tuple[Saved, list[NamedRun], int]:
    """Read ``waiting.json``: what it has itself, its runs, and the number of the next one.

    Raises:
        ValueError: It is something else.
    """
    whole: Any = json.loads(text)
    try:
        saved = Saved(
            LogOffset(whole["holds_to"]),
            whole["noted_to"],
            whole["count"],
            whole["moved"],
            [_entry(each) for each in whole["fresh"]],
            [_entry(each) for each in whole["out"]],
        )
        runs = [
            NamedRun(str(number), RunFacts(*facts), taken)
            for number, *facts, taken in whole["runs"]
            if len(facts) == _ROW - 2
        ]
        if len(runs) != len(whole["runs"]):
            raise ValueError("a run that is none")
        return saved, runs, int(whole["next"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"nothing that waits: {error!r}") from error


def _entry(text: str) -> bytes:
    entry = bytes.fromhex(text)
    if len(entry) != ENTRY_BYTES:
        raise ValueError(f"an entry of {len(entry)} bytes")
    return entry


def parse_pending(text: bytes) -> Saved:
    """Read what versions before this one saved: up to where it knows the log, and what waits.

    Raises:
        ValueError: It is something else.
    """
    whole: Any = json.loads(text)
    try:
        pending = [
            Timed(
                *(due, LogOffset(at), size, QueueOffset(number), out, hashed(key)),
                *(java_hash(key.rpartition("+")[0]), 0, LogOffset(at), due),
            )
            for due, out, at, size, number, key in whole["pending"]
        ]
        return Saved(LogOffset(whole["holds_to"]), pending=pending)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"nothing that waits: {error!r}") from error


class TimerFiles:
    """Writes, merges and removes runs. One thread has it; what waits for the disk, any."""

    def __init__(self, disk: Disk, files: OpenFiles, directory: Path) -> None:
        #: The oldest first.
        self.runs: list[TimerRun] = []
        #: Changes when the runs do.
        self.version = 0
        self._disk = disk
        self._open = files
        self._directory = directory
        self._snapshot = Snapshot(disk, directory / WAITING)
        self._next = 1
        self._unsynced: list[TimerRun] = []
        self._new_names = False
        #: What is not needed any more, and may be named by what is saved.
        self._gone: list[Path] = []
        self._merge: TimerMerge | None = None
        self._merging_aside = False
        self._damaged = False
        self._readers = 0
        self._lost = self._dangling = 0
        #: When the last message was handed out.
        self.near_ms = 0

    # Opening

    def load(self, log_end: LogOffset) -> Saved | None:
        """Take over what was saved, if it is whole and knows no more than the log has.

        Raises:
            DiskError: The files cannot be read, or those of no use not be removed.
        """
        if self._directory.name not in self._disk.names(self._directory.parent):
            return None
        saved = self._load(log_end)
        if saved is None:
            self.runs = []
        named = {run.path.name for run in self.runs}
        for name in self._disk.names(self._directory):
            if name.isascii() and name.isdigit():
                self._next = max(self._next, int(name) + 1)
                if name not in named:
                    self._open.forget(self._directory / name)
                    self._disk.remove(self._directory / name)
        self.version += 1
        return saved

    def _load(self, log_end: LogOffset) -> Saved | None:
        try:
            found = self._snapshot.load(parse_waiting)
            if found is None:
                return self._load_pending(log_end)
            saved, named, self._next = found
            if saved.holds_to > log_end:
                return None  # it is of a log that was cut since
            self.runs = [
                TimerRun.load(self._open, self._directory / run.name, run.facts, run.taken)
                for run in named
            ]
            # Nothing older tells of these: it was handed out with them.
            saved.fresh += [entry[:FIRST_AT] + b"\1" for entry in saved.out]
        except (SnapshotDamaged, RunDamaged) as damage:
            log.warning("what waits for its time is read from the log again reason=%s", damage)
            return None
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            log.warning("what waits for its time is read from the log again reason=%s", error)
            return None
        return saved

    def _load_pending(self, log_end: LogOffset) -> Saved | None:
        saved = Snapshot(self._disk, self._directory / PENDING).load(parse_pending)
        return None if saved is None or saved.holds_to > log_end else saved

    # Writing

    def write(self, entries: Sequence[bytes]) -> None:
        """Make a run of entries that are in order.

        Raises:
            DiskError: It cannot be written.
        """
        if len(self.runs) >= _MOST_RUNS:
            self._merge_now()
        self._disk.make_directory(self._directory)
        run = TimerRun.write(self._disk, self._open, self._new_path(), entries)
        self.runs.append(run)
        self._unsynced.append(run)
        self._new_names = True
        self.version += 1

    def _new_path(self) -> Path:
        path = self._directory / str(self._next)
        self._next += 1
        return path

    def begin_sync(
        self,
        saved: Saved,
        log_first: LogOffset | None,
        pause: Callable[[], object] = lambda: None,
    ) -> PendingSync:
        """Have all runs, and what is in none, survive a power cut, and some runs merged.

        ``log_first`` is where the log begins, or None if nothing is to be merged now; ``pause`` is
        called now and then while something is.

        Raises:
            DiskError: A file cannot be opened.
        """
        self._let_go_of_empty()
        text = self._text(saved)
        written, new_names = self._unsynced, self._new_names
        files = self._open.begin_sync([run.path for run in written])
        self._unsynced, self._new_names = [], False
        gone: list[Path] = []
        if not self._readers:
            gone, self._gone = self._gone, []
        for path in gone:
            self._open.forget(path)
        merge = self._planned(log_first) if log_first is not None else None
        self._merging_aside = merge is not None

        def wait() -> None:
            files.wait()
            if new_names:
                self._disk.sync_directory(self._directory)
            self._snapshot.save(text)
            names = self._disk.names(self._directory)
            old = [Path(PENDING), Path(PENDING + ".bak")]
            for path in (*gone, *old):
                if path.name in names:
                    self._disk.remove(self._directory / path.name)
            if merge is not None:
                self._work(merge, pause)

        def note() -> None:
            files.note()
            self._merging_aside = False
            if merge is not None and merge.done:
                self._install(merge)
            elif merge is not None and merge.given_up:
                self._drop(merge)

        def undo() -> None:
            files.undo()
            self._merging_aside = False
            self._unsynced = [run for run in written if run in self.runs] + self._unsynced
            self._new_names |= new_names
            self._gone += gone
            if merge is not None:
                self._drop(merge)

        return PendingSync(wait, note, undo)

    def _text(self, saved: Saved) -> bytes:
        rows = []
        for run in self.runs:
            facts = run.facts
            rows.append(
                [
                    int(run.path.name),
                    facts.count,
                    facts.crc,
                    facts.low,
                    facts.high,
                    facts.oldest,
                    facts.since_ms,
                    run.taken,
                ]
            )
        whole = {
            "holds_to": saved.holds_to,
            "noted_to": saved.noted_to,
            "count": saved.count,
            "moved": saved.moved,
            "next": self._next,
            "runs": rows,
            "fresh": [entry.hex() for entry in saved.fresh],
            "out": [entry.hex() for entry in saved.out],
        }
        return json.dumps(whole).encode()

    def _let_go_of_empty(self) -> None:
        merging = self._merge.runs if self._merge is not None else []
        empty = [run for run in self.runs if not run.left and run not in merging]
        if empty:
            self.runs = [run for run in self.runs if run not in empty]
            self._unsynced = [run for run in self._unsynced if run not in empty]
            self._gone += [run.path for run in empty]
            self.version += 1

    # Merging

    def _planned(self, log_first: LogOffset) -> TimerMerge | None:
        """What is being merged, or ought to be."""
        if self._merge is None and not self._damaged:
            window = self._window(log_first)
            if window is not None:
                runs = self.runs[slice(*window)]
                near = PLACE.pack(self.near_ms + _NEAR_MS, 0)
                self._merge = TimerMerge(
                    self._disk, runs, self._new_path(), log_first, near, oldest=window[0] == 0
                )
        return self._merge

    def _window(self, log_first: LogOffset) -> tuple[int, int] | None:
        for index, run in enumerate(self.runs):
            # Newer runs tell of what was put again.
            if run.stale * 2 > run.left or run.cleaned_to < log_first > run.facts.oldest:
                return index, len(self.runs)
        most, longest = INLINE, max((run.left for run in self.runs), default=0)
        while most < _FAN * max(longest, INLINE):
            start = 0
            for index in range(len(self.runs) + 1):
                if index < len(self.runs) and self.runs[index].left <= most:
                    continue
                if index - start >= _FAN:
                    return start, min(index, start + _WIDEST)
                start = index + 1
            most *= _FAN
        return None

    def _work(self, merge: TimerMerge, pause: Callable[[], object]) -> None:
        try:
            for _ in range(_BUDGET // STEP):
                if merge.work(STEP):
                    break
                pause()
        except RunDamaged as damage:
            merge.given_up = True
            if not self._damaged:
                self._damaged = True  # the next opening reads the log again
                log.error("timed messages on disk are damaged, restart to mend it: %s", damage)
        except DiskError as error:
            if not error.passing:
                raise
            merge.given_up = True  # it is for later, and nobody has to wait for it

    def _merge_now(self) -> None:
        if self._merging_aside:
            return
        merge = self._planned(LogOffset(0))
        if merge is not None:
            while not merge.work(_BUDGET):
                pass
            self._install(merge)

    def _install(self, merge: TimerMerge) -> None:
        run = TimerRun(self._open, merge.path, merge.facts, merge.marks)
        run.cleaned_to = merge.log_first
        heads = [head for each in merge.runs if (head := each.head()) is not None]
        # Whatever was handed out meanwhile was before all that was not.
        run.taken = run.below(min(heads)[:PLACE_BYTES]) if heads else run.facts.count
        start = self.runs.index(merge.runs[0])
        self.runs[start : start + len(merge.runs)] = [run]
        self._unsynced = [each for each in self._unsynced if each not in merge.runs]
        self._gone += [each.path for each in merge.runs]
        self._new_names = True
        self._lost += merge.lost
        self._dangling += merge.dangling
        self._merge = None
        self.version += 1

    def _drop(self, merge: TimerMerge) -> None:
        merge.close()
        self._gone.append(merge.path)
        self._merge = None

    def merged(self) -> tuple[int, int]:
        """How many were lost with the log, and how many were never there, by merges since."""
        found, self._lost, self._dangling = (self._lost, self._dangling), 0, 0
        return found

    @contextmanager
    def reading(self) -> Iterator[list[TimerRun]]:
        """Give the runs, and keep their files inside the block even if they are merged."""
        self._readers += 1
        try:
            yield list(self.runs)
        finally:
            self._readers -= 1

    def close(self) -> None:
        """Give up what is being merged."""
        if self._merge is not None:
            self._merge.close()
