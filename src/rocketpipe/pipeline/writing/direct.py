"""Parcels sent as any producer sends: at least once, as what was not answered is sent again.

A broker answers once a message is stored. That readers see it follows a moment later, when its
queue has it too. Who has written a frame may read it next: so the driver waits, with `shown`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from rocketpipe.client.admin.fleet import each
from rocketpipe.client.producer.retry import Retries
from rocketpipe.client.producer.sending.delivery import Delivery
from rocketpipe.client.producer.sending.in_flight import InFlight
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.client.producer.sending.publish_routes import PublishRoutes
from rocketpipe.client.producer.sending.queue_choice import QueueChoice
from rocketpipe.client.session import Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.model import properties as well_known
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.options.securing import Access
from rocketpipe.pipeline.writing.sender import SendUnit

log = logging.getLogger(__name__)

#: So long a writer waits for what is stored to show; it usually takes milliseconds.
SHOWN_MS: Final = 30_000

_FIRST_LOOK_MS: Final = 5
_LONGEST_LOOK_MS: Final = 500
_DELAYS: Final = (
    well_known.DELAY,
    well_known.TIMER_DELAY_SEC,
    well_known.TIMER_DELAY_MS,
    well_known.TIMER_DELIVER_MS,
    well_known.START_DELIVER_TIME,
)
_WAITING: Final = f"{well_known.WAIT}\x01true\x02{well_known.UNIQ_KEY}\x01"


class Prepared(Outgoing):
    """A send whose bytes are there already."""

    __slots__ = ()

    def __init__(self, parcel: SendUnit) -> None:
        """Take a parcel as the producer's parts want it."""
        self.topic = parcel.topic
        self.body = parcel.body  # type: ignore[assignment]  # a view does as well: it is only joined
        self.batch = parcel.properties is None
        self.message_id = parcel.message_id
        self.properties = parcel.properties or f"{_WAITING}{parcel.message_id}\x02"
        self.born_ms = parcel.born_ms
        self.flag = 0
        self.sys_flag = 0
        self.wait_stored = True
        self.size = len(parcel.body)


class DirectSink:
    """Sends to the topics themselves: what is stored shows at once."""

    def __init__(self, session: Session, group: str) -> None:
        lines = PublishRoutes(session, group)
        self._in_flight = InFlight(session.clock)
        choice = QueueChoice(None, session.clock, session.chance)
        self._delivery = Delivery(session, lines, choice, self._in_flight)
        self._retries = Retries()
        #: Sends that were stored, but not as safely as their broker is set to within its time.
        self.unsure = 0
        #: Where each queue ends with what was sent to it.
        self.ends: dict[MessageQueue, int] = {}

    async def queues(self, topic: str, timeout_ms: int) -> Sequence[MessageQueue]:
        return self._delivery.choice(await self._delivery.line(topic, timeout_ms))

    async def send(self, parcel: SendUnit, queue: MessageQueue | None, timeout_ms: int) -> None:
        pick = None if queue is None else lambda _: queue
        stored = await self._delivery.deliver(Prepared(parcel), timeout_ms, self._retries, pick)
        if not stored.sure:
            self.unsure += 1
        if not _waits(parcel):
            end = stored.queue_offset + parcel.count
            self.ends[stored.queue] = max(self.ends.get(stored.queue, 0), end)

    async def close(self) -> None:
        await self._in_flight.close()
        if self.unsure:
            log.warning(
                "sends were stored but not synced or replicated in time, as the brokers say "
                "count=%d",
                self.unsure,
            )


def _waits(parcel: SendUnit) -> bool:
    """Whether it shows only after a while: until then its place is in a queue of the broker's."""
    text = f"\x02{parcel.properties or ''}"
    return any(f"\x02{name}\x01" in text for name in _DELAYS)


async def shown(
    name_servers: str,
    ends: Mapping[MessageQueue, int],
    patience_ms: int = SHOWN_MS,
    *,
    access: Access | None = None,
) -> bool:
    """Wait until queues reach these ends; False, and a warning, if they take too long.

    What was sent is stored, whatever becomes of this: so nothing that fails here is an error.
    """
    async with (access or Access()).session(name_servers) as session:
        left = await each(
            list(ends), lambda queue: _shows(session, queue, ends[queue], patience_ms)
        )
    late = sorted(queue for queue, is_there in left.items() if not is_there)
    if late:
        log.warning("rows are stored but do not show yet queues=%d first=%s", len(late), late[0])
    return not late


async def _shows(session: Session, queue: MessageQueue, end: int, patience_ms: int) -> bool:
    clock = session.clock
    until_ms, pause_ms = clock.monotonic_ms() + patience_ms, _FIRST_LOOK_MS
    while True:
        try:
            if (await session.ends_of(queue))[1] >= end:
                return True
        except RocketPipeError as error:
            if not (error.retryable or error.stale_route):
                return False
            session.routes.forget(queue.topic)
        if clock.monotonic_ms() >= until_ms:
            return False
        await clock.sleep(pause_ms)
        pause_ms = min(2 * pause_ms, _LONGEST_LOOK_MS)
