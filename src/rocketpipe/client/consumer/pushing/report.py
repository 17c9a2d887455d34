"""What a push consumer says of itself when an operator asks: its queues, its rates, its stacks.

RocketMQ's tools look for some properties by name, and show the rest as they come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rocketpipe.client.consumer.group.offsets import OffsetStore
from rocketpipe.client.consumer.handling.handler_stats import HandlerStats
from rocketpipe.client.consumer.handling.handlers import Handlers
from rocketpipe.client.consumer.pushing.claims import QueueClaims
from rocketpipe.client.consumer.pushing.held_queue import HeldQueue
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.session import Session
from rocketpipe.client.stacks import stack_text
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeType, Subscription
from rocketpipe.protocol.codes import OUR_VERSION
from rocketpipe.protocol.requests.running import (
    DirectOutcome,
    DirectResult,
    HeldQueueInfo,
    RunningInfo,
)
from rocketpipe.record.codec import RecordView

MAX_REASON: Final = 2000


class PushReport:
    """Looks at the parts of one consumer."""

    def __init__(
        self,
        session: Session,
        handlers: Handlers,
        counts: HandlerStats,
        claims: QueueClaims,
        offsets: OffsetStore,
        subscriptions: Iterable[Subscription],
        *,
        ordered: bool,
        concurrency: int,
    ) -> None:
        self._session = session
        self._handlers = handlers
        self._counts = counts
        self._claims = claims
        self._offsets = offsets
        self._subscriptions = subscriptions
        self._ordered = ordered
        self._concurrency = concurrency
        self._started_ms = session.clock.now_ms()

    def running_info(self, *, stacks: bool) -> RunningInfo:
        """How the consumer fares; with ``stacks`` where its threads and tasks are."""
        return RunningInfo(
            properties={
                "PROP_NAMESERVER_ADDR": str(self._session.name_servers),
                "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY,
                "PROP_CLIENT_VERSION": OUR_VERSION.name,
                "PROP_CONSUMEORDERLY": "true" if self._ordered else "false",
                "PROP_THREADPOOL_CORE_SIZE": str(self._concurrency),
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            },
            subscriptions=tuple(self._subscriptions),
            queues={
                held.queue: _in_hand(held, self._offsets.noted(held.queue))
                for held in self._claims.held
            },
            rates=self._counts.rates(),
            stacks=stack_text() if stacks else None,
        )

    def places(self, topic: str) -> dict[MessageQueue, QueueOffset]:
        """The offsets that it would commit now, in the queues of a topic."""
        noted = {held.queue: self._offsets.noted(held.queue) for held in self._claims.held}
        return {
            queue: offset
            for queue, offset in noted.items()
            if queue.topic == topic and offset is not None
        }

    async def consume(self, record: bytes, broker_name: str) -> DirectResult:
        """Give one record to its handler, apart from all others, and tell what it said.

        Raises:
            RecordError: If it is no record.
        """
        stored = RecordView(record)
        queue = MessageQueue(topic=stored.topic, broker_name=broker_name, queue_id=stored.queue_id)
        message = ReceivedMessage(record, queue)
        clock = self._session.clock
        began_ms = clock.monotonic_ms()
        chosen = self._handlers.of(message.topic)
        if chosen is None:
            return DirectResult(
                ordered=self._ordered,
                outcome=DirectOutcome.CR_THROW_EXCEPTION,
                remark=f"no handler for topic {message.topic!r} here",
            )
        outcome = await self._handlers.call(chosen, [message])
        if outcome.done:
            said = DirectOutcome.CR_SUCCESS
        elif outcome.error is not None:
            said = DirectOutcome.CR_THROW_EXCEPTION
        else:
            said = DirectOutcome.CR_LATER
        return DirectResult(
            ordered=self._ordered,
            outcome=said,
            remark=outcome.reason[:MAX_REASON] or None,
            spent_ms=clock.monotonic_ms() - began_ms,
        )


def _in_hand(held: HeldQueue, committed: QueueOffset | None) -> HeldQueueInfo:
    first, last = held.messages.ends
    return HeldQueueInfo(
        commit_offset=-1 if committed is None else committed,
        cached_msg_min_offset=first,
        cached_msg_max_offset=last,
        cached_msg_count=len(held.messages),
        cached_mib=held.messages.bytes >> 20,
        locked=held.lease is not None,
        dropped=held.is_dropped,
    )
