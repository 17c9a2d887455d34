"""What waits for its delay level does not go with old files of the log.

    pinned       the log is kept from the oldest message on that a level has not delivered
    handed over  one that has waited for half the time for which the log is kept waits on as a
                 timed message, at the end of the log, with TIMER_DELAY_LEVEL; timers that wait for
                 long are put again from time to time

So a level may be longer than ``fileReservedTime``, and a retry or a level of days holds no more of
the log than half of that. A disk that is about to be full takes what is pinned all the same: then
the broker would stop otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rocketpipe.broker.intake.sent_properties import TIMERS
from rocketpipe.model import properties
from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record import checksum
from rocketpipe.record.codec import RecordView
from rocketpipe.store.log.batch_mark import strip_mark
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.entries import QUEUE_ENTRY
from rocketpipe.store.timers.entry import out_ms
from rocketpipe.store.upkeep.retention import Pin, Pins

OWNER: Final = "delayed messages"
#: What a message says of a moment that it has waited for: the wheel takes it for what is said of
#: the next one, and that for over.
WAITED: Final = (
    properties.TIMER_DEQUEUE_MS,
    properties.TIMER_ROLL_TIMES,
    properties.TIMER_ORIGIN,
)


class DelayPin:
    """Keeps the log from the oldest message on that waits for its level."""

    def __init__(self, store: MessageStore, pins: Pins) -> None:
        self._store = store
        self._pins = pins
        #: None where nothing is delivered: a follower keeps what its leader keeps.
        self._pin: Pin | None = None
        #: Where the next message of each queue is in the log, as long as that is the next one.
        self._heads: dict[int, tuple[QueueOffset, LogOffset]] = {}

    def hold(self) -> None:
        """Hold all that there is; `move` lets go of what need not wait."""
        self._pin = self._pins.hold(self._store.first_offset, OWNER, yields=True)

    def move(self, places: Iterable[tuple[int, QueueOffset]]) -> None:
        """Hold what is at these places and behind them: queues, each with its next offset.

        Raises:
            StoreError: A queue cannot be read; then as much is held as before.
        """
        if self._pin is None:
            return
        # What is not dispatched is behind this; a queue without a message waits for such.
        lowest = self._store.positions.dispatched
        for queue_id, at in places:
            known = self._heads.get(queue_id)
            if known is None or known[0] != at:
                head = self._head(queue_id, at)
                if head is None:
                    continue
                known = self._heads[queue_id] = (at, head)
            lowest = min(lowest, known[1])
        self._pin.move(max(lowest, self._pin.offset))

    def _head(self, queue_id: int, at: QueueOffset) -> LogOffset | None:
        entry = self._store.derived.queues.entries(SCHEDULE_TOPIC, queue_id, at, 1)
        return LogOffset(QUEUE_ENTRY.unpack(entry)[0]) if entry else None


def handed_over(message: RecordView, level: int, deliver_ms: int) -> Put:
    """A message of a level as it waits on for its moment."""
    changes = {
        **dict.fromkeys((*TIMERS, *WAITED)),
        properties.DELAY: None,
        properties.TIMER_DELAY_LEVEL: str(level),
        properties.TIMER_DELIVER_MS: str(deliver_ms),
        properties.TIMER_OUT_MS: str(out_ms(deliver_ms)),
    }
    text = strip_mark(checksum.strip(message.raw_properties))
    return Put.copy_of(
        message,
        topic=TIMER_TOPIC,
        queue_id=0,
        properties=properties.edited(text, changes),
    )


def was_handed_over(found: RecordView, message: RecordView, level: int) -> bool:
    """Whether a timed message is what a message of a level waits on as."""
    said = found.properties
    return (
        said.get(properties.TIMER_DELAY_LEVEL) == str(level)
        and said.get(properties.REAL_TOPIC) == message.properties.get(properties.REAL_TOPIC)
        and said.get(properties.REAL_QUEUE_ID) == message.properties.get(properties.REAL_QUEUE_ID)
        and found.born_ms == message.born_ms
        and found.reconsume_times == message.reconsume_times
        and found.stored_body == message.stored_body
    )


def is_copy(found: RecordView, put: Put) -> bool:
    """Whether a message of a topic is what was put there when its level was over."""
    return (
        found.queue_id == put.queue_id
        and found.reconsume_times == put.reconsume_times
        and found.born_ms == put.born_ms
        and found.stored_body == put.body
        and _bare(found.raw_properties) == _bare(put.properties)
    )


def _bare(text: bytes) -> bytes:
    """Properties without what the store adds to them."""
    return strip_mark(checksum.strip(text)).rstrip(b"\x02")
