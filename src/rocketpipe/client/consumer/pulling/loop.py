"""Fetches one queue's messages ahead of the application, as long as there is room."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer, ReadAhead
from rocketpipe.client.consumer.received import ReceivedMessage, received
from rocketpipe.client.session import Session
from rocketpipe.errors import ConnectionLost, RequestRejected, RocketPipeError
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import LEADER_ID, MessageQueue
from rocketpipe.model.subscription import TAG, Subscription
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pulling import PullMessage, PullMessageReply
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

SUSPEND_MS: Final = 20_000
PUSH_SUSPEND_MS: Final = 15_000
PULL_TIMEOUT_MS: Final = 30_000
BATCH: Final = 32

AGAIN_MS: Final = 1000
#: The broker said that it is asked too often.
FLOW_CONTROL_MS: Final = 20

#: A broker that does not hold pulls back is not asked more often than this without a message.
HURRIED_MS: Final = 50

_warnings = LogBudget()


class PullLoop:
    """Pulls for one group; each queue has a run of its own."""

    def __init__(
        self,
        session: Session,
        group: str,
        buffer: FetchBuffer,
        wanted: Callable[[str], Subscription | None],
        *,
        batch: int = BATCH,
    ) -> None:
        """Take where messages go, and who knows what is wanted of a topic."""
        self._session = session
        self._group = group
        self._buffer = buffer
        self._wanted = wanted
        self._batch = batch
        #: When a topic's route was last said to be stale.
        self._suspected_ms: dict[str, int] = {}

    async def run(self, place: ReadAhead) -> None:
        """Fetch until this is cancelled, or the topic unwanted. What fails is tried again."""
        clock = self._session.clock
        while True:
            await self._buffer.room(place)
            wanted = self._wanted(place.queue.topic)
            if wanted is None:
                return
            asked_ms, asked_at = clock.monotonic_ms(), place.next_offset
            try:
                reply = await self._pull(place, wanted)
                messages = _chosen(place.queue, reply, wanted)
            except RocketPipeError as error:
                await clock.sleep(self._failed(place, error))
                continue
            if reply.code == ResponseCode.PULL_OFFSET_MOVED:
                log.info(
                    "offset corrected group=%s queue=%s from=%d to=%d reason=%s",
                    self._group,
                    place.queue,
                    asked_at,
                    reply.next_begin_offset,
                    reply.remark,
                )
            place.broker_id = reply.suggest_which_broker_id
            self._buffer.add(place, messages, reply.next_begin_offset)
            idle = not reply.messages and reply.next_begin_offset == asked_at
            if idle and clock.monotonic_ms() - asked_ms < HURRIED_MS:
                await clock.sleep(HURRIED_MS)

    async def _pull(self, place: ReadAhead, wanted: Subscription) -> PullMessageReply:
        session, queue = self._session, place.queue
        route = await session.routes.get(queue.topic)
        address = session.reader_of(queue, place.broker_id, route=route)
        request = lite_pull(self._group, place, wanted, batch=self._batch)
        return await session.caller.call(address, request, PULL_TIMEOUT_MS)

    def _failed(self, place: ReadAhead, error: RocketPipeError) -> int:
        """How long to wait before the next try."""
        if _warnings.allows():
            log.warning(
                "pull failed group=%s queue=%s reason=%s%s",
                self._group,
                place.queue,
                error,
                _warnings.suppressed(),
            )
        place.broker_id = LEADER_ID
        if isinstance(error, RequestRejected) and error.code == ResponseCode.FLOW_CONTROL:
            return FLOW_CONTROL_MS
        if not error.retryable and not error.stale_route:
            self._buffer.fail(place, error)
        if isinstance(error, ConnectionLost) or error.stale_route:
            self._suspect(place.queue.topic)
        return AGAIN_MS

    def _suspect(self, topic: str) -> None:
        # Many queues of a topic fail together; its route need not be asked for by each of them.
        now_ms = self._session.clock.monotonic_ms()
        before_ms = self._suspected_ms.get(topic)
        if before_ms is None or now_ms - before_ms >= AGAIN_MS:
            self._suspected_ms[topic] = now_ms
            self._session.routes.forget(topic)


def _chosen(
    queue: MessageQueue, reply: PullMessageReply, wanted: Subscription
) -> list[ReceivedMessage]:
    messages = received(reply.messages, queue)
    if not wanted.tags:
        return list(messages)
    # The broker compares hashes of tags, and two tags may have the same.
    return [message for message in messages if message.tags in wanted.tags]


def lite_pull(
    group: str, place: ReadAhead, wanted: Subscription, *, batch: int = BATCH
) -> PullMessage:
    """The pull of RocketMQ's lite pull consumer: it brings its subscription along, and waits."""
    queue = place.queue
    return PullMessage(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=place.next_offset,
        max_msg_nums=batch,
        sys_flag=int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION | PullFlag.LITE_PULL),
        commit_offset=QueueOffset(0),
        suspend_timeout_millis=SUSPEND_MS,
        subscription=wanted.expression,
        sub_version=0 if wanted.is_tags else wanted.version,
        expression_type=wanted.expression_type,
        broker_name=queue.broker_name,
    )


def pull_request(
    group: str,
    queue: MessageQueue,
    offset: QueueOffset,
    expression: str,
    suspend_ms: int = PUSH_SUSPEND_MS,
) -> PullMessage:
    """A plain pull that names the tags it wants; it waits unless ``suspend_ms`` is 0."""
    suspend = PullFlag.SUSPEND if suspend_ms else 0
    return PullMessage(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=BATCH,
        sys_flag=int(PullFlag.SUBSCRIPTION | suspend),
        commit_offset=QueueOffset(0),
        suspend_timeout_millis=suspend_ms,
        subscription=expression,
        sub_version=0,
        expression_type=TAG,
        broker_name=queue.broker_name,
    )
