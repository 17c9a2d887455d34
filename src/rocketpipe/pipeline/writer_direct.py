"""Parcels sent as any producer sends: at least once, as what was not answered is sent again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from rocketpipe.client.producer.delivery import Delivery
from rocketpipe.client.producer.in_flight import InFlight
from rocketpipe.client.producer.lines import Lines
from rocketpipe.client.producer.outgoing import Outgoing
from rocketpipe.client.producer.queue_choice import QueueChoice
from rocketpipe.client.producer.retry import Retries
from rocketpipe.client.session import Session
from rocketpipe.model import properties as well_known
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.writer_outlet import Parcel

log = logging.getLogger(__name__)

_WAITING: Final = f"{well_known.WAIT}\x01true\x02{well_known.UNIQ_KEY}\x01"


class Prepared(Outgoing):
    """A send whose bytes are there already."""

    __slots__ = ()

    def __init__(self, parcel: Parcel) -> None:
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


class DirectWay:
    """Sends to the topics themselves: what is stored shows at once."""

    def __init__(self, session: Session, group: str) -> None:
        lines = Lines(session, group)
        self._in_flight = InFlight(session.clock)
        choice = QueueChoice(None, session.clock, session.chance)
        self._delivery = Delivery(session, lines, choice, self._in_flight)
        self._retries = Retries()
        #: Sends that were stored, but not as safely as their broker is set to within its time.
        self.unsure = 0

    async def queues(self, topic: str, timeout_ms: int) -> Sequence[MessageQueue]:
        return (await self._delivery.line(topic, timeout_ms)).queues

    async def send(self, parcel: Parcel, queue: MessageQueue | None, timeout_ms: int) -> None:
        pick = None if queue is None else lambda _: queue
        stored = await self._delivery.deliver(Prepared(parcel), timeout_ms, self._retries, pick)
        if not stored.sure:
            self.unsure += 1

    async def close(self) -> None:
        await self._in_flight.close()
        if self.unsure:
            log.warning(
                "sends were stored but not synced or replicated in time, as the brokers say "
                "count=%d",
                self.unsure,
            )
