"""Fetches one queue's messages ahead of the application, as long as there is room."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer, ReadAhead
from rocketpipe.client.consumer.received import ReceivedMessage, received
from rocketpipe.client.consumer.replica_choice import ReplicaChoice
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
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
        #: Brokers before 5.0, which know one kind of pull.
        self._plain: set[str] = set()

    async def run(self, place: ReadAhead) -> None:
        """Fetch until this is cancelled, or the topic unwanted. What fails is tried again."""
        clock = self._session.clock
        replicas = ReplicaChoice(self._session, place.queue)
        while True:
            await self._buffer.room(place)
            wanted = self._wanted(place.queue.topic)
            if wanted is None:
                return
            asked_ms, asked_at = clock.monotonic_ms(), place.next_offset
            try:
                reply = await self._pull(place, wanted, replicas)
                messages = _chosen(place.queue, reply, wanted)
            except RocketPipeError as error:
                rest_ms = self._failed(place, error, replicas)
                if rest_ms:
                    await clock.sleep(rest_ms)
                continue
            following = replicas.answered(reply, asked_at)
            if following is None:
                if not replicas.has_another:
                    await clock.sleep(AGAIN_MS)
                continue
            if reply.code == ResponseCode.PULL_OFFSET_MOVED:
                log.info(
                    "offset corrected group=%s queue=%s from=%d to=%d reason=%s",
                    self._group,
                    place.queue,
                    asked_at,
                    following,
                    reply.remark,
                )
            self._buffer.add(place, messages, following)
            idle = not reply.messages and following == asked_at
            if idle and clock.monotonic_ms() - asked_ms < HURRIED_MS:
                await clock.sleep(HURRIED_MS)

    async def _pull(
        self, place: ReadAhead, wanted: Subscription, replicas: ReplicaChoice
    ) -> PullMessageReply:
        session, queue = self._session, place.queue
        replica = replicas.next(await session.routes.get(queue.topic))
        request, address = lite_pull(self._group, place, wanted, batch=self._batch), replica.address
        if address not in self._plain:
            try:
                return await session.caller.call(address, request, PULL_TIMEOUT_MS)
            except RequestRejected as refused:
                if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                self._plain.add(address)
        request = replace(request, sys_flag=request.sys_flag & ~PullFlag.LITE_PULL)
        return await session.caller.call(address, request, PULL_TIMEOUT_MS)

    def _failed(self, place: ReadAhead, error: RocketPipeError, replicas: ReplicaChoice) -> int:
        """How long to wait before the next try."""
        if _warnings.allows(error):
            log.warning(
                "pull failed group=%s queue=%s reason=%s%s",
                self._group,
                place.queue,
                error,
                _warnings.suppressed(),
            )
        if isinstance(error, RequestRejected) and error.code == ResponseCode.FLOW_CONTROL:
            return FLOW_CONTROL_MS
        at_follower = replicas.is_at_follower
        if replicas.failed(error):
            return 0
        if not (error.retryable or error.stale_route or at_follower):
            self._buffer.fail(place, error)
        return AGAIN_MS


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
