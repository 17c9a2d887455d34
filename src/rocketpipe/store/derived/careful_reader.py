"""Reads that find something damaged, and what becomes of them.

a queue is damaged             it is put right from the log; until then the answer is "ask again"
an entry leads to no record    its file is compared with its checksum again: the same, if it is
                               the entry that is wrong
the record is damaged          told once, loudly; then passed over or refused, as ``damaged`` says,
                               or "ask again" while another replica may bring it back
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from rocketpipe.clock import Clock
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.derived.repairs import Repairs
from rocketpipe.store.errors import QueueDamaged, RecordCorrupt, UnderRepair
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.store.queues.reader import (
    MAX_READ_BYTES,
    MAX_SCAN_ENTRIES,
    Boundary,
    Reader,
    ReadResult,
    everything,
)
from rocketpipe.store.state.damage import DamagedRecords

T = TypeVar("T")

#: Small queue files are compared with their checksums so often, if somebody reads them.
LOOK_AGAIN_MS: Final = 60_000


class CarefulReader:
    """Reads as `Reader` does, and sees to what is damaged."""

    def __init__(
        self,
        reader: Reader,
        queues: QueueSet,
        repairs: Repairs,
        damaged: DamagedRecords,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._queues = queues
        self._repairs = repairs
        self._damaged = damaged
        self._clock = clock
        self._looked_ms = clock.monotonic_ms()

    def tend(self) -> None:
        """Have small queue files looked at again from time to time: bits flip at any time."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms >= LOOK_AGAIN_MS:
            self._looked_ms = now_ms
            self._queues.look_again()

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: QueueOffset,
        *,
        max_count: int,
        max_bytes: int = MAX_READ_BYTES,
        matches: Callable[[int], bool] = everything,
        max_scan: int = MAX_SCAN_ENTRIES,
    ) -> ReadResult:
        """Read on from ``offset``; see `Reader`.

        Raises:
            RecordCorrupt: The first message is damaged, and such are not passed over.
            UnderRepair: The queue, or the message, is being put right; ask again.
            DiskError: The log or the queue cannot be read.
        """
        while True:
            try:
                return self._reader.read(
                    topic,
                    queue_id,
                    offset,
                    max_count=max_count,
                    max_bytes=max_bytes,
                    matches=matches,
                    max_scan=max_scan,
                )
            except QueueDamaged as damage:
                self._repairs.mend((topic, queue_id), damage)
            except RecordCorrupt as damage:
                if self._damaged.awaits(damage.at):
                    what = f"the record at {damage.at}, which is damaged,"
                    raise UnderRepair(what, "brought back from another replica") from damage
                if damage.at in self._damaged:
                    raise  # it is known, and not to be passed over
                self._meet(topic, queue_id, offset, max(max_count, max_scan), damage)

    def _meet(
        self, topic: str, queue_id: int, offset: QueueOffset, count: int, damage: RecordCorrupt
    ) -> None:
        """Find out whether it is the record that is damaged, or the entry that leads to it."""
        try:
            self._queues.check_again(topic, queue_id, offset, count)
        except QueueDamaged as in_queue:
            self._repairs.mend((topic, queue_id), in_queue)
        else:
            where = f"topic={topic} queue_id={queue_id} queue_offset={offset} or behind"
            self._damaged.note(damage.at, damage.reason, where)

    def offset_at_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary
    ) -> QueueOffset:
        """Find the message of a queue that was stored around a time; see `Reader`.

        Raises:
            RecordCorrupt: The log does not have what the queue says.
            UnderRepair: The queue is being put right; ask again.
            DiskError: The log or the queue cannot be read.
        """
        return self._mended(
            topic,
            queue_id,
            partial(self._reader.offset_at_time, topic, queue_id, timestamp_ms, boundary),
        )

    def earliest_stored_ms(self, topic: str, queue_id: int) -> int:
        """When the first message that is left in a queue was stored; −1 if there is none.

        Raises:
            RecordCorrupt: The log does not have what the queue says.
            UnderRepair: The queue is being put right; ask again.
            DiskError: The log or the queue cannot be read.
        """
        return self._mended(
            topic, queue_id, partial(self._reader.earliest_stored_ms, topic, queue_id)
        )

    def _mended(self, topic: str, queue_id: int, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except QueueDamaged as damage:
            self._repairs.mend((topic, queue_id), damage)
            return ask()
