"""The parts of a broker that pop, on a real store and a clock that tests turn."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.broker.support.sending_parts import HOST, SendingParts, put

from rocketpipe.broker.features.popping.acks import Acks
from rocketpipe.broker.features.popping.pop import PopAsk, Popped, PopRules, Pops
from rocketpipe.broker.features.popping.revive import Revivals
from rocketpipe.broker.features.popping.revive_log import ReviveLog
from rocketpipe.broker.tables.order import OrderTable
from rocketpipe.model.ids import ReceiptHandle, RetryKind
from rocketpipe.model.names import revive_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.requests.pop_offsets import PoppedQueue
from rocketpipe.record.codec import view_records
from rocketpipe.testing.clock import ManualClock

BROKER = "broker-a"
REVIVE = revive_topic("DefaultCluster")
INVISIBLE_MS = 30_000


@dataclass(frozen=True)
class Got:
    """One message of a pop, and its receipt."""

    body: bytes
    topic: str
    handle: ReceiptHandle
    offset: QueueOffset
    tries: int


class PopParts(SendingParts):
    """Everything between a pop and the log; nothing runs unless a test says so."""

    def __init__(
        self, root: Path, clock: ManualClock, *, retry_v2: bool = True, **changes: Any
    ) -> None:
        super().__init__(root, clock, **changes)
        self.tables.adopt(self.store.queues())
        self.orders = OrderTable()
        self.revive_log = ReviveLog(
            self.store,
            self.intake,
            self.tables.offsets,
            self.orders,
            clock,
            topic=REVIVE,
            host=HOST,
        )
        self.revive_log.recover()
        rules = PopRules(broker=BROKER, retry_v2=retry_v2)
        topics, chance = self.tables.topics, random.Random(3)
        self.revivals = Revivals(
            self.store,
            self.revive_log,
            self.topic_provider,
            self.tables.groups,
            clock,
            retry_v2=retry_v2,
            orders=self.orders,
        )
        self.pops = Pops(
            self.store,
            topics,
            self.revive_log,
            self.orders,
            clock,
            chance,
            rules,
            keep=self.tables.offsets_saved,
            follow=self.revivals.follow_clock,
        )
        self.freed: list[tuple[str, str, int]] = []
        self.acks = Acks(
            self.revive_log, self.orders, clock, BROKER, lambda *place: self.freed.append(place)
        )
        for name, queues in (("t", 2), (REVIVE, 8)):
            topics.ensure(name, queues=queues, now_ms=clock.now_ms())
        self.tables.groups.ensure("g", clock.now_ms())

    async def send(self, *bodies: bytes, topic: str = "t", **changes: Any) -> None:
        for body in bodies:
            await self.intake.put([put(topic, body, **changes)])

    async def pop(
        self, *, count: int = 32, group: str = "g", topic: str = "t", **changes: Any
    ) -> list[Got]:
        """Pop, as a consumer sees it."""
        popped = await self.popped(count=count, group=group, topic=topic, **changes)
        return seen(popped, topic, group)

    async def popped(
        self, *, count: int = 32, group: str = "g", topic: str = "t", **changes: Any
    ) -> Popped:
        found = self.tables.topics.get(topic)
        assert found is not None
        fields: dict[str, Any] = {"queue_id": None, "invisible_ms": INVISIBLE_MS}
        return await self.pops.pop(
            PopAsk(group=group, topic=found, count=count, **{**fields, **changes})
        )

    async def ack(self, got: Got, group: str = "g") -> None:
        await self.acks.acknowledge(got.topic, group, got.handle, [got.offset])

    async def pass_time(self, duration_ms: int) -> None:
        """Turn the clock, and have what is due shown again."""
        await self.clock.advance(duration_ms)
        await self.revivals.revive_due()
        await self.revive_log.tend()


def seen(popped: Popped, topic: str, group: str) -> list[Got]:
    """What a consumer makes of an answer."""
    found = []
    for view in view_records(b"".join(popped.chunks)):
        own = view.properties.get("POP_CK")
        if own is None:
            kind = RetryKind.of(view.topic)
            queue = PoppedQueue(int(kind), view.queue_id)
            handle = ReceiptHandle(
                start_offset=popped.starts[queue],
                pop_ms=popped.pop_ms,
                invisible_ms=INVISIBLE_MS,
                revive_queue_id=popped.revive_queue,
                retry=kind,
                broker=BROKER,
                queue_id=view.queue_id,
                queue_offset=view.queue_offset,
            )
        else:
            handle = ReceiptHandle.parse(own)
        real = handle.retry.topic(topic, group)
        found.append(Got(view.body, real, handle, view.queue_offset, view.reconsume_times))
    return found


def bodies(got: list[Got]) -> list[bytes]:
    return sorted(each.body for each in got)
