"""The notes of what waits for its time, against the log.

They are derived and rebuilt from the log, if they are gone; while they are there they are believed,
so that a wrong one would be delivered wrongly, or never. Apache's own timer files are left where
they are found and not looked at: our broker never reads them, and writes them anew when it stops.
"""

from __future__ import annotations

from pathlib import Path

from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.record.codec import RecordView
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.snapshot import Snapshot, SnapshotDamaged
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.timers.entry import KIND_AT, Timed
from rocketpipe.store.timers.files import PENDING, WAITING, parse_pending, parse_waiting
from rocketpipe.store.timers.run import RunDamaged, read_run
from rocketpipe.store.upkeep.findings import Kind, Report


class TimerCheck:
    """Is shown every record of the log, then compares what was saved with those that count."""

    def __init__(self, disk: Disk, layout: StoreLayout, report: Report) -> None:
        self._disk = disk
        self._layout = layout
        self._report = report
        #: Size and queue offset of each record of the timer topic, by its place.
        self.records: dict[int, tuple[int, int]] = {}

    def expect(self, at: int, view: RecordView) -> None:
        """Take note of a record of the log."""
        if view.topic == TIMER_TOPIC:
            self.records[at] = (view.size, int(view.queue_offset))

    def finish(self) -> None:
        """Report what does not fit.

        Raises:
            DiskError: A file cannot be read.
        """
        layout, report = self._layout, self._report
        if layout.timer.name not in self._disk.names(layout.root):
            return
        try:
            if not self._check_waiting(Snapshot(self._disk, layout.timer / WAITING)):
                self._check_pending(Snapshot(self._disk, layout.timer / PENDING))
        except SnapshotDamaged as damage:
            report.add(Kind.TIMER_DAMAGED, damage.path, 0, str(damage))
        except RunDamaged as damage:
            report.add(Kind.TIMER_DAMAGED, damage.path, 0, str(damage))

    def _check_waiting(self, snapshot: Snapshot) -> bool:
        found = snapshot.load(parse_waiting)
        if found is None:
            return False
        saved, runs, _ = found
        if saved.holds_to > self._report.end_offset:
            return True  # they are of a log that was cut since, and are not used
        for entry in (*saved.fresh, *saved.out):
            self._check(snapshot.path, entry)
        for named in runs:
            path = self._layout.timer / named.name
            if path.name not in self._disk.names(path.parent):
                raise RunDamaged(path, "is not there")
            for number, entry in enumerate(read_run(self._disk, path, named.facts)):
                if number >= named.taken:
                    self._check(path, entry)
        return True

    def _check_pending(self, snapshot: Snapshot) -> None:
        saved = snapshot.load(parse_pending)
        if saved is not None and saved.holds_to <= self._report.end_offset:
            for timed in saved.pending:
                self._check(snapshot.path, timed.entry())

    def _check(self, path: Path, entry: bytes) -> None:
        timed = Timed.of(entry)
        at = int(timed.log_offset)
        # What went with the log before it was due the broker tells of when it opens.
        if not entry[KIND_AT] or at < self._report.first_offset:
            return
        found = self.records.get(at)
        if found != (timed.size, timed.queue_offset):
            detail = f"{timed.size} bytes, queue offset {timed.queue_offset}; there: {found}"
            self._report.add(Kind.TIMER_ENTRY_DANGLING, path, at, detail)
