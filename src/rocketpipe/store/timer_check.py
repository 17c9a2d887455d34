"""The notes of what waits for its time, against the log.

They are derived and rebuilt from the log, if they are gone; while they are there they are believed,
so that a wrong one would be delivered wrongly, or never. Apache's own timer files are left where
they are found and not looked at: our broker never reads them, and writes them anew when it stops.
"""

from __future__ import annotations

from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.record.codec import RecordView
from rocketpipe.store.disk import Disk
from rocketpipe.store.findings import Kind, Report
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.snapshot import Snapshot, SnapshotDamaged
from rocketpipe.store.timer_wheel import PENDING, parse_pending


class TimerCheck:
    """Is shown every record of the log, then compares what was saved with those that count."""

    def __init__(self, disk: Disk, layout: StoreLayout, report: Report) -> None:
        self._disk = disk
        self._layout = layout
        self._report = report
        #: Size and queue offset of each record of the timer topic, by its place.
        self._records: dict[int, tuple[int, int]] = {}

    def expect(self, at: int, view: RecordView) -> None:
        """Take note of a record of the log."""
        if view.topic == TIMER_TOPIC:
            self._records[at] = (view.size, int(view.queue_offset))

    def finish(self) -> None:
        """Report what does not fit.

        Raises:
            DiskError: A file cannot be read.
        """
        layout, report = self._layout, self._report
        if layout.timer.name not in self._disk.names(layout.root):
            return
        snapshot = Snapshot(self._disk, layout.timer / PENDING)
        try:
            saved = snapshot.load(parse_pending)
        except SnapshotDamaged as damage:
            report.add(Kind.TIMER_DAMAGED, damage.path, 0, str(damage))
            return
        if saved is None:
            return
        holds_to, waiting = saved
        if holds_to > report.end_offset:
            return  # they are of a log that was cut since, and are not used
        for timed in waiting:
            at = int(timed.log_offset)
            if at < report.first_offset:
                continue  # it went with the log before it was due, as the broker says when it opens
            found = self._records.get(at)
            if found != (timed.size, timed.queue_offset):
                detail = f"{timed.size} bytes, queue offset {timed.queue_offset}; there: {found}"
                report.add(Kind.TIMER_ENTRY_DANGLING, snapshot.path, at, detail)
