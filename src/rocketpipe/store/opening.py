"""Takes a directory, and brings what the last run left there to where this one can go on.

    lock → format → checkpoint → the end of the log → abort mark → queues, index, timer
         → dispatch the rest

Until the end of the log is found, nothing is changed but what is torn. From the abort mark on, a
crash is a crash of this run, whose opening can be done again.

A replica knows of its tail only that it is whole: what lies behind the confirm offset may yet be
taken back, so that it is kept and nothing follows from it.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rocketpipe.clock import Clock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.derived.derived_files import DerivedFiles
from rocketpipe.store.derived.dispatcher import OnArrival
from rocketpipe.store.derived.prepared import Prepared, remove_prepared
from rocketpipe.store.errors import OddSegment, RecordCorrupt
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.log.recovery import LogEnd, LogRecovery
from rocketpipe.store.state.checkpoint import NEVER, Checkpoint
from rocketpipe.store.state.damage import DamagedRecords
from rocketpipe.store.state.format_version import FormatVersion
from rocketpipe.store.state.positions import Positions
from rocketpipe.store.state.run_files import RunFiles

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The files of a store, recovered: durable up to ``end``, dispatched as far as confirmed."""

    marks: RunFiles
    checkpoint: Checkpoint
    commit_log: CommitLog
    positions: Positions
    derived: DerivedFiles
    damaged: DamagedRecords
    end: LogEnd
    #: Whether the last run stopped in good order.
    ended_well: bool
    #: Whether it had stopped writing before.
    had_failed: bool

    def close(self) -> None:
        """Let the files and the directory go; nothing is written.

        Raises:
            DiskError: Something could not be closed in good order; all is let go all the same.
        """
        with ExitStack() as last_first:
            last_first.callback(self.marks.release)
            last_first.callback(self.checkpoint.close)
            last_first.callback(self.commit_log.close)
            last_first.callback(self.derived.close)


def open_directory(
    config: StoreConfig,
    disk: Disk,
    clock: Clock,
    on_arrival: OnArrival | None = None,
    *,
    replicated: bool = False,
    prepared: Iterable[Prepared] = (),
) -> Opened:
    """Take the directory of a store, or make one; a ``replicated`` one may end in doubt.

    ``prepared`` is what this process knows of the log already, if nobody had the store since it
    said so by the abort mark.

    Raises:
        StoreLocked: Another broker has the directory.
        FormatUnknown: A newer version has changed it.
        StoreDamaged: Records that were durable are not whole.
        OddSegment: A file in it cannot be part of a log.
        DiskError: The disk does not do what it has to.
    """
    layout = StoreLayout(config.root)
    disk.make_directory(config.root)
    if layout.commit_log.name not in disk.names(config.root):
        # Whoever made the directory may have died before its name was durable.
        _sync_names_above(disk, config.root)
    marks = RunFiles(disk, layout)
    marks.take_lock()
    with ExitStack() as unless_opened:
        unless_opened.callback(marks.release)
        FormatVersion(disk, layout).check()
        checkpoint = Checkpoint(disk, layout.checkpoint)
        unless_opened.callback(checkpoint.close)
        commit_log = CommitLog(disk, layout.commit_log, config.segment_bytes)
        unless_opened.callback(commit_log.close)
        opening = _Opening(config, disk, clock, marks, checkpoint, commit_log, replicated)
        opened = opening.run(layout, on_arrival, prepared)
        unless_opened.pop_all()
    return opened


def _sync_names_above(disk: Disk, root: Path) -> None:
    for directory in root.parents:
        try:
            disk.sync_directory(directory)
        except DiskError as error:
            # What may not be read was not made by us.
            if error.errno not in (errno.EACCES, errno.EPERM):
                raise


class _Opening:
    """The steps that follow once the log's files are open."""

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        clock: Clock,
        marks: RunFiles,
        checkpoint: Checkpoint,
        commit_log: CommitLog,
        replicated: bool,
    ) -> None:
        self._config = config
        self._replicated = replicated
        self._disk = disk
        self._clock = clock
        self._marks = marks
        self._checkpoint = checkpoint
        self._log = commit_log
        self._positions = Positions(config.flush)
        self._last = checkpoint.data

    def run(
        self, layout: StoreLayout, on_arrival: OnArrival | None, prepared: Iterable[Prepared]
    ) -> Opened:
        if prepared and self._marks.aborted_pid != os.getpid():
            prepared = ()  # another may have changed the log since
        self._check_segment_size()
        own = self._last.own
        failure = self._marks.failure
        if failure is not None:
            log.warning("the last run stopped writing reason=%s", failure)
        clean = not self._marks.aborted and failure is None and (own is None or own.clean)
        recovery = LogRecovery(
            self._log,
            self._last,
            self._config,
            self._disk,
            clean=clean,
            failed=failure is not None,
            ours=self._was_ours(),
        )
        end = recovery.run()
        FormatVersion(self._disk, layout).put()
        self._begin(end)
        damaged = DamagedRecords(skip=self._config.on_damaged_record == "skip")
        derived = DerivedFiles(
            self._disk,
            self._clock,
            layout,
            self._config,
            self._log,
            self._positions,
            on_arrival,
            damaged,
        )
        try:
            self._recover_derived(derived, end, clean=clean)
            self._catch_up(derived, recovery, prepared)
            remove_prepared(self._disk, layout.sums)
        except BaseException:
            derived.close()
            raise
        log.info(
            "store opened root=%s end=%d clean=%s looked_at=%d",
            self._config.root,
            end.end,
            clean,
            end.records,
        )
        return Opened(
            marks=self._marks,
            checkpoint=self._checkpoint,
            commit_log=self._log,
            positions=self._positions,
            derived=derived,
            damaged=damaged,
            end=end,
            ended_well=clean,
            had_failed=failure is not None,
        )

    def _check_segment_size(self) -> None:
        """One file alone tells its length, but not whether that is right."""
        own, run = self._last.own, self._log.run
        if own is not None and run.segments and own.segment_bytes not in (0, run.size):
            path = run.segments[0].path
            raise OddSegment(path, f"{run.size} bytes long, where it had {own.segment_bytes}")

    def _was_ours(self) -> bool:
        """Whether the last run was ours and did not end well; another broker's is not ours."""
        own = self._last.own
        if own is None or own.clean or self._last.foreign:
            return False
        # Process ids alone would not tell: in containers they are often the same.
        return self._marks.aborted_pid == own.pid

    def _begin(self, end: LogEnd) -> None:
        self._log.sealed_from = self._sealed_from(end)
        self._log.sealed_to = NEVER
        pid = os.getpid()
        self._checkpoint.begin(
            segment_bytes=self._log.run.size,
            sealed_from=self._log.sealed_from,
            pid=pid,
            started_ms=self._clock.now_ms(),
        )
        self._marks.begin(pid)

    def _sealed_from(self, end: LogEnd) -> int:
        if self._replicated:
            # Whether what comes next has checksums, only its leader knows.
            return end.sealed_from if end.sealed_from < end.end else NEVER
        return end.sealed_from if self._config.checksum else NEVER

    def _recover_derived(self, derived: DerivedFiles, end: LogEnd, *, clean: bool) -> None:
        # Another broker's queues are complete after its clean stop, and else up to where its
        # checkpoint had it walk the log again. Of ours we keep note ourselves.
        trusted = self._log.first_offset
        if self._last.own is None:
            trusted = end.end if clean else end.walked_from
        start = derived.recover(end.end, trusted, clean=clean, safe_ms=self._last.safe_ms)
        positions = self._positions
        positions.rewind(end.end, dispatched=start)
        if self._replicated:
            positions.begin_acknowledged(LogOffset(min(self._last.confirmed, end.end)))
        self._checkpoint.rewind(end.end, end.last_record, start, end.stored_ms, positions.published)
        self._checkpoint.sync()

    def _catch_up(
        self, derived: DerivedFiles, recovery: LogRecovery, prepared: Iterable[Prepared]
    ) -> None:
        """Dispatch what derived files do not know yet, all of it: queue offsets follow from it."""
        for portion in prepared:
            if not derived.dispatcher.take(portion):
                break
        while True:
            try:
                derived.dispatcher.run()
                return
            except RecordCorrupt as damage:
                recovery.skip(damage.at, damage.reason)
