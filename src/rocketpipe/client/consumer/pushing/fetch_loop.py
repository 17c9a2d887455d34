"""Pulls a queue ahead of its handlers, for as long as there is room in hand.

found              taken in hand, pulled on at once
nothing yet        the broker held the pull until its time was up: pulled again
nothing fits       the offset moves on, also the committed one when nothing is in hand
offset moved       the queue begins anew where the broker says, if it is the leader
refused, no answer another broker of the name; or else a second's rest
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from rocketpipe.client.consumer.group.offsets import OffsetStore
from rocketpipe.client.consumer.pushing.held_queue import HeldQueue
from rocketpipe.client.consumer.pushing.pull_template import PullTemplate
from rocketpipe.client.consumer.pushing.workers import Workers
from rocketpipe.client.consumer.received import ReceivedMessage, received
from rocketpipe.client.consumer.replica_choice import Replica, ReplicaChoice
from rocketpipe.client.consumer.tuning import PushTuning, Room
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import Subscription
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pulling import PullMessage, PullMessageReply
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

#: An answer may take this much longer than the broker may hold the pull.
PATIENCE_MS: Final = 15_000
#: A follower that does not hold pulls back is not asked more often than this without a message.
HURRIED_MS: Final = 50
#: How long a broker is left alone that says it is given too much to do.
FLOW_CONTROL_MS: Final = 20

_WAITING: Final = int(PullFlag.SUSPEND)
_COMMITTING: Final = int(PullFlag.SUSPEND | PullFlag.COMMIT_OFFSET)

#: A broker that answers so does not know, or knows an older version of, what we subscribe to.
_NOT_TOLD: Final = frozenset(
    {ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST}
)


class FetchLoop:
    """Pulls the queues that one consumer holds, each in a task of its own."""

    def __init__(
        self,
        session: Session,
        group: str,
        offsets: OffsetStore,
        workers: Workers,
        *,
        tuning: PushTuning,
        subscription: Callable[[str], Subscription],
        room: Callable[[str], Room],
        commits: bool = True,
    ) -> None:
        """Prepare; ``subscription`` and ``room`` are asked for by topic, before each pull.

        ``commits`` says whether pulls carry the group's offsets; those of broadcasting do not.
        """
        self._session = session
        self._group = group
        self._offsets = offsets
        self._workers = workers
        self._tuning = tuning
        self._subscription = subscription
        self._room = room
        self._commits = commits
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._lines = LogBudget()

    def suspend(self) -> None:
        """Send no more pulls; what is in hand, or on its way, is consumed."""
        self._resumed.clear()

    def resume(self) -> None:
        """Pull again."""
        self._resumed.set()

    async def run(self, held: HeldQueue, start: QueueOffset) -> QueueOffset | None:
        """Pull a queue until it ends.

        Gives None then; or where to begin anew, when the broker has other offsets than we think.
        """
        offset, clock = start, self._session.clock
        replicas = ReplicaChoice(self._session, held.queue)
        pulls = _Pulls(self._group, held.queue, self._tuning)
        while True:
            await self._resumed.wait()
            await self._wait_for_room(held)
            if held.is_ending:
                return None
            asked_ms = clock.monotonic_ms()
            try:
                reply = await self._pull(held, pulls, offset, replicas.next())
                messages = list(received(reply.messages, held.queue))
            except RocketPipeError as error:
                await self._rest(held, error, replicas)
                continue
            following = replicas.answered(reply, offset)
            if following is None:
                if not replicas.has_another:
                    await clock.sleep(self._tuning.failed_pull_ms)
                continue
            if reply.code == ResponseCode.PULL_OFFSET_MOVED:
                self._complain(held, f"offset {offset} moved to {following}")
                return following
            hurried = not messages and following == offset and replicas.is_at_follower
            offset = following
            await self._take(held, messages, offset)
            if self._tuning.pull_interval_ms and messages:
                await clock.sleep(self._tuning.pull_interval_ms)
            elif hurried and clock.monotonic_ms() - asked_ms < HURRIED_MS:
                # RocketMQ's followers send pulls on to a leader that is not there.
                await clock.sleep(HURRIED_MS)

    async def _wait_for_room(self, held: HeldQueue) -> None:
        while not held.is_ending:
            hand, room = held.messages, self._room(held.queue.topic)
            # An ordered queue takes from its head, so that its span says nothing.
            span = 0 if held.lease is not None else hand.span
            if room.is_left(len(hand), hand.bytes, span):
                return
            await held.shrinking()

    async def _pull(
        self, held: HeldQueue, pulls: _Pulls, offset: QueueOffset, replica: Replica
    ) -> PullMessageReply:
        template = pulls.like(self._subscription(held.queue.topic))
        commit = held.committable if self._commits and replica.leads else None
        flags = _COMMITTING if commit else _WAITING
        timeout_ms = self._tuning.pull_suspend_ms + PATIENCE_MS
        caller = self._session.caller
        if caller.signs:
            asked = template.asking(offset, flags, commit or 0)
            return await caller.call(replica.address, asked, timeout_ms)
        return await caller.call(
            replica.address,
            template.request,
            timeout_ms,
            partial(template.frame, offset, flags, commit or 0),
        )

    async def _take(
        self, held: HeldQueue, messages: list[ReceivedMessage], next_offset: QueueOffset
    ) -> None:
        # Brokers compare hashes of tags, and two tags may share one.
        tags = self._subscription(held.queue.topic).tags
        wanted = [message for message in messages if message.tags in tags] if tags else messages
        if wanted:
            await self._workers.submit(held, wanted)
        elif not len(held.messages) and not held.is_ending:
            self._offsets.update(held.queue, next_offset)
            held.committable = next_offset

    async def _rest(self, held: HeldQueue, error: RocketPipeError, replicas: ReplicaChoice) -> None:
        code = error.code if isinstance(error, RequestRejected) else None
        if code == ResponseCode.FLOW_CONTROL:
            await self._session.clock.sleep(FLOW_CONTROL_MS)
            return
        self._complain(held, str(error))
        if code in _NOT_TOLD:
            await self._session.beat()
        if replicas.failed(error):
            return
        await self._session.clock.sleep(self._tuning.failed_pull_ms)

    def _complain(self, held: HeldQueue, reason: str) -> None:
        if self._lines.allows(reason):
            log.warning(
                "pull failed group=%s queue=%s reason=%s%s",
                self._group,
                held.queue,
                reason,
                self._lines.suppressed(),
            )


class _Pulls:
    """How one queue is pulled, for as long as what is wanted of it stays the same."""

    def __init__(self, group: str, queue: MessageQueue, tuning: PushTuning) -> None:
        self._group = group
        self._queue = queue
        self._tuning = tuning
        self._wanted: Subscription | None = None
        self._template: PullTemplate | None = None

    def like(self, wanted: Subscription) -> PullTemplate:
        """The pulls by which that much of the queue is asked for."""
        if self._template is None or wanted is not self._wanted:
            self._wanted = wanted
            self._template = PullTemplate(self._request(wanted))
        return self._template

    def _request(self, wanted: Subscription) -> PullMessage:
        queue, tuning = self._queue, self._tuning
        return PullMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=QueueOffset(0),
            max_msg_nums=tuning.pull_count,
            sys_flag=_WAITING,
            commit_offset=QueueOffset(0),
            suspend_timeout_millis=tuning.pull_suspend_ms,
            sub_version=wanted.version,
            expression_type=wanted.expression_type,
            max_msg_bytes=tuning.pull_bytes,
            broker_name=queue.broker_name,
        )
