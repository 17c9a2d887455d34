"""What follows from the log: queues, key index and timer, kept together.

They are brought up to the log by the dispatcher, written when much waits, and made durable in
rounds.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from rocketpipe.clock import Clock
from rocketpipe.descriptors import shares
from rocketpipe.errors import RecordError
from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset
from rocketpipe.record.codec import RecordView
from rocketpipe.store.config import StoreConfig, delays_ms
from rocketpipe.store.derived.dispatcher import Dispatcher, OnArrival
from rocketpipe.store.derived.repairs import Repairs, drop_index
from rocketpipe.store.errors import IndexDamaged, QueueDamaged, RecordCorrupt, RecordMissing
from rocketpipe.store.files.background_sync import PendingSync, Steps
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.index.key_index import KeyIndex
from rocketpipe.store.layout import StoreLayout, offset_of
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.queues.entries import QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.store.state.damage import DamagedRecords
from rocketpipe.store.state.positions import Positions
from rocketpipe.store.timers.handover import hand_over, last_timed
from rocketpipe.store.timers.wheel import TimerWheel

log = logging.getLogger(__name__)

_QUEUES_LOOKED_AT: Final = 64
_FOREVER_MS: Final = 1 << 62


class DerivedFiles:
    """Queues, index and timer of one store, and the dispatcher that feeds them."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        layout: StoreLayout,
        config: StoreConfig,
        commit_log: CommitLog,
        positions: Positions,
        on_arrival: OnArrival | None,
        damaged: DamagedRecords | None = None,
    ) -> None:
        """Make the parts; `recover` has them take over their files.

        Raises:
            DiskError: The directories cannot be read.
        """
        self._disk = disk
        self._clock = clock
        self._layout = layout
        self._timer_log_bytes = config.timer_log_bytes
        self._log = commit_log
        self._positions = positions
        self._files = OpenFiles(disk, min(config.max_open_files, shares().store_files))
        self.queues = QueueSet(
            disk,
            self._files,
            layout.queues,
            layout.sums / "queues.json",
            _queue_file_bytes(disk, layout) or config.queue_file_bytes,
        )
        self.index = KeyIndex(
            disk,
            self._files,
            layout.index,
            layout.sums / "index.json",
            slots=config.index_slots,
            entries=config.index_entries,
            clock=clock,
        )
        self.timer = TimerWheel(disk, self._files, layout.timer)
        self.dispatcher = Dispatcher(
            commit_log,
            positions,
            self.queues,
            self.index,
            self.timer,
            level_delays_ms=delays_ms(config.delay_levels),
            on_arrival=on_arrival,
            index_tags=config.index_tags,
            damaged=damaged,
        )
        self.repairs = Repairs(commit_log, positions, self.queues, self.index, self.dispatcher)

    @property
    def synced_to(self) -> LogOffset:
        """What follows from every record before it survives a power cut."""
        return min(self.queues.synced_to, self.index.synced_to, self.timer.synced_to)

    @property
    def pending_bytes(self) -> int:
        """How much waits in memory to be written."""
        return self.queues.pending_bytes

    def recover(
        self, log_end: LogOffset, trusted_to: LogOffset, *, clean: bool, safe_ms: int
    ) -> LogOffset:
        """Take over the files; gives the offset in the log from which to dispatch again.

        ``trusted_to`` and ``safe_ms`` are for files that another broker wrote: up to which offset,
        and up to which time, they are believed to be complete.

        Raises:
            DiskError: The files cannot be read, or not be cut.
        """
        first = self._log.first_offset
        start = self.queues.recover(first, log_end, trusted_to, clean=clean)
        try:
            indexed = self.index.recover(first, log_end, trusted_to, clean=clean, safe_ms=safe_ms)
        except IndexDamaged as damage:
            log.warning("index file is written again from the log reason=%s", damage)
            indexed = drop_index(self.index, damage, first)
        oldest = self._oldest_timed()
        if oldest is None and start < log_end:
            oldest = start
        timed = self.timer.recover(first, log_end, oldest)
        return LogOffset(max(first, min(start, indexed, timed, log_end)))

    def _oldest_timed(self) -> LogOffset | None:
        if self.queues.queue(TIMER_TOPIC, 0) is None:
            return None
        low = self.queues.min_offset(TIMER_TOPIC, 0)
        try:
            entry = self.queues.entries(TIMER_TOPIC, 0, low, 1)
        except QueueDamaged:
            return self._log.first_offset  # whoever reads the queue has it put right
        for log_offset, _, _ in QUEUE_ENTRY.iter_unpack(entry):
            return LogOffset(log_offset)
        return None

    def hand_over_timer(self, sync: Callable[[], None]) -> None:
        """Leave what waits for its time so that an Apache broker delivers it, and nothing twice.

        ``sync`` makes durable what had to be put right for that.

        Raises:
            DiskError: It cannot be written, or the timer queue not be put right.
        """
        try:
            last = last_timed(self.queues)
        except QueueDamaged as damage:
            self.repairs.mend_now((TIMER_TOPIC, 0), damage)
            sync()
            last = last_timed(self.queues)
        if last is not None:
            waiting = self.timer.pending(0, _FOREVER_MS)
            now_ms, file_bytes = self._clock.now_ms(), self._timer_log_bytes
            hand_over(self._disk, self._layout, waiting, last, now_ms, file_bytes)

    def find(
        self,
        topic: str,
        key: str,
        begin_ms: int,
        end_ms: int,
        record_at: Callable[[LogOffset], bytes],
    ) -> Iterator[LogOffset]:
        """Find the messages of a topic with a key, stored between two times, newest first.

        Raises:
            RecordCorrupt: A record in question is not what was written.
            UnderRepair: The index is being made anew; ask again.
            DiskError: The index or the log cannot be read.
        """
        first = self._log.first_offset
        seen = -1
        for log_offset in self._candidates(topic, key, begin_ms, end_ms):
            if log_offset < first or log_offset == seen:
                continue
            seen = log_offset
            try:
                message = RecordView(record_at(log_offset))
            except RecordMissing:
                continue
            except RecordCorrupt as damage:
                self.dispatcher.damaged.note(damage.at, damage.reason, f"topic={topic} key={key}")
                if not self.dispatcher.damaged.skips(damage.at):
                    raise
                continue
            except RecordError as error:
                raise RecordCorrupt(log_offset, error.reason) from error
            # Another key may have the same hash.
            if message.topic != topic or not begin_ms <= message.stored_ms <= end_ms:
                continue
            names = message.properties
            if key == names.get("UNIQ_KEY") or key in names.get("KEYS", "").split(" "):
                yield log_offset

    def _candidates(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[LogOffset]:
        self.repairs.check_index()
        try:
            yield from self.index.find(topic, key, begin_ms, end_ms)
        except IndexDamaged as damage:
            # What was given is given again, which is no harm: at most the caller sees it twice.
            self.repairs.index_damaged(damage)
            yield from self.index.find(topic, key, begin_ms, end_ms)

    def expiring(self, log_first: LogOffset) -> Steps[PendingSync]:
        """Do without what is gone from the log; gives what is left to do for the disk.

        Raises:
            DiskError: A queue cannot be read, or the index not be written.
        """
        removed = yield from self.queues.expiring(log_first)
        _, index = self.index.begin_delete(log_first)
        self.timer.delete_before(log_first)
        return PendingSync.of([self.queues.begin_delete(removed), index])

    def close(self) -> None:
        """Close the files; nothing is written."""
        self.timer.close()
        self._files.close()


def _queue_file_bytes(disk: Disk, layout: StoreLayout) -> int | None:
    """How long the queue files are that are there: most of them, as a crash may have cut one."""
    lengths: Counter[int] = Counter()
    if layout.queues.name not in disk.names(layout.root):
        return None
    queues = (
        layout.queues / topic / queue_id
        for topic in disk.names(layout.queues)
        for queue_id in disk.names(layout.queues / topic)
    )
    for directory in islice(queues, _QUEUES_LOOKED_AT):
        for name in disk.names(directory):
            if offset_of(name) is not None:
                with disk.open(directory / name, writable=False) as file:
                    length = file.size()
                if length and length % QUEUE_ENTRY_BYTES == 0:
                    lengths[length] += 1
    return lengths.most_common(1)[0][0] if lengths else None
