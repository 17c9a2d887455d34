"""How far groups have come, and moving them: with a look at what would change before it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocketpipe.client.admin.fleet import Fleet, each
from rocketpipe.client.admin.offsets import OffsetAdmin
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.names import check_consumer_group
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import Subscription
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.offsets import InvokeBrokerToResetOffset, ResetOffsetReply
from rocketpipe.protocol.requests.progress import (
    CloneGroupOffset,
    ConsumeStatsReply,
    GetConsumeStats,
    QueryConsumeTimeSpan,
    QueryGroupsOfTopic,
    QuerySubscriptionOfGroup,
    QueryTopicsOfGroup,
    QueueTimeSpan,
)


@dataclass(frozen=True, slots=True)
class QueueLag:
    """How far a group has come in one queue, and when what it consumed last was stored."""

    queue: MessageQueue
    committed: QueueOffset
    end: QueueOffset
    last_stored_ms: int | None

    @property
    def lag(self) -> int:
        """How many messages it has still to read."""
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group's progress in all its queues, and how many messages a second it was given."""

    group: str
    rate: float
    queues: tuple[QueueLag, ...]

    @property
    def lag(self) -> int:
        """How many messages it has still to read."""
        return sum(each.lag for each in self.queues)


@dataclass(frozen=True, slots=True)
class Move:
    """Where a group was in one queue, and where it goes on; None: it had no place."""

    queue: MessageQueue
    before: QueueOffset | None
    after: QueueOffset


class ProgressAdmin:
    """Shows how far groups have come, and has them go on elsewhere, online or not."""

    def __init__(self, fleet: Fleet, offsets: OffsetAdmin) -> None:
        self._fleet = fleet
        self._offsets = offsets

    # To look

    async def of_group(self, group: str, topic: str | None = None) -> GroupLag:
        """How far a group has come in a topic, or in all that it reads.

        Raises:
            InvalidName: If no group may have this name.
            ConnectionLost: If a server is out of reach.
        """
        check_consumer_group(group)
        request = GetConsumeStats(consumer_group=group, topic=topic)
        replies = await self._fleet.ask(await self._fleet.leaders(), request)
        return _group_lag(group, list(replies.values()))

    async def known_of_group(self, group: str) -> dict[str, GroupLag | RocketPipeError]:
        """The same by broker, for all topics; one that does not answer stands with the reason.

        Raises:
            InvalidName: If no group may have this name.
            ConnectionLost: If no NameServer answers.
        """
        check_consumer_group(group)
        leaders = {name: one.leader for name, one in (await self._fleet.brokers()).items()}
        replies = await self._fleet.attempt(leaders, GetConsumeStats(consumer_group=group))
        return {
            name: reply if isinstance(reply, RocketPipeError) else _group_lag(group, [reply])
            for name, reply in replies.items()
        }

    async def spans(self, group: str, topic: str) -> list[QueueTimeSpan]:
        """From when the messages are that a topic has, and those that a group is at.

        Raises:
            NoRoute: If no NameServer knows the topic.
            ConnectionLost: If a server is out of reach.
        """
        request = QueryConsumeTimeSpan(topic=topic, group=group)
        replies = await self._fleet.ask(await self._leaders_of(topic), request)
        spans = [span for reply in replies.values() for span in reply.times.spans]
        return sorted(spans, key=lambda span: span.message_queue)

    async def topics_of(self, group: str) -> list[str]:
        """The topics that a group has places in.

        Raises:
            ConnectionLost: If a server is out of reach.
        """
        request = QueryTopicsOfGroup(group=group)
        replies = await self._fleet.ask(await self._fleet.leaders(), request)
        return sorted({name for reply in replies.values() for name in reply.names.topics})

    async def groups_of(self, topic: str) -> list[str]:
        """The groups that read a topic, now or before.

        Raises:
            ConnectionLost: If a server is out of reach.
        """
        request = QueryGroupsOfTopic(topic=topic)
        replies = await self._fleet.ask(await self._fleet.leaders(), request)
        return sorted({name for reply in replies.values() for name in reply.names.groups})

    async def subscription(self, group: str, topic: str) -> Subscription | None:
        """What a group's members want of a topic; None if none of them subscribed to it.

        Raises:
            ConnectionLost: If a server is out of reach.
        """
        request = QuerySubscriptionOfGroup(group=group, topic=topic)
        replies = await self._fleet.ask(await self._fleet.leaders(), request)
        found = (reply.found.subscription for reply in replies.values())
        return next((one for one in found if one is not None), None)

    # To move

    async def reset(
        self,
        group: str,
        topic: str,
        *,
        to_ms: int | None = None,
        to_offset: int | None = None,
        to_end: bool = False,
        queue: MessageQueue | None = None,
        may_skip: bool = True,
        preview: bool = False,
    ) -> list[Move]:
        """Have a group go on elsewhere, whether its members run or not; they are told.

        It goes on from what was stored at ``to_ms`` or later (0 is the oldest), from ``to_offset``
        of one ``queue``, or behind all that is there. Without ``may_skip`` no queue moves forward.
        With ``preview`` nothing is changed: the result says what would be.

        Raises:
            ValueError: If not exactly one place is given, or an offset without its queue.
            InvalidName: If no group may have this name.
            NoRoute: If no NameServer knows the topic, or one of its brokers has no leader.
            RequestRejected: If a broker does not know the group, or the queue has no such offset.
        """
        check_consumer_group(group)
        if (to_ms is not None) + (to_offset is not None) + to_end != 1:
            raise ValueError("give one of to_ms, to_offset and to_end")
        if to_offset is not None and queue is None:
            raise ValueError("an offset means something in one queue only: give the queue too")
        places = [
            place
            for place in await self._offsets.of_group(group, topic)
            if queue is None or place.queue == queue
        ]
        before = {place.queue: place.committed for place in places}
        if preview:
            wanted = await self._wanted(topic, to_ms, to_offset, before)
            return [
                Move(place, had, at if may_skip or had is None else min(at, had))
                for place, at in wanted.items()
                for had in [before[place]]
            ]
        leaders = await self._leaders_of(topic)
        asked: dict[str, Request[ResetOffsetReply]] = {
            name: InvokeBrokerToResetOffset(
                topic=topic,
                group=group,
                timestamp=-1 if to_ms is None else to_ms,
                is_force=may_skip,
                queue_id=-1 if queue is None else queue.queue_id,
                offset=None if to_offset is None else QueueOffset(to_offset),
            )
            for name in leaders
            if queue is None or name == queue.broker_name
        }
        replies = await each(asked, lambda name: self._fleet.call(leaders[name], asked[name]))
        return sorted(
            (
                Move(place, before.get(place), at)
                for reply in replies.values()
                for place, at in reply.reset.offsets.items()
            ),
            key=lambda move: move.queue,
        )

    async def clone(
        self, source: str, target: str, *, topic: str | None = None, preview: bool = False
    ) -> list[Move]:
        """Give a group the places of another, in one topic or in all; they are in the result.

        With ``preview`` nothing is changed: the result says what would be.

        Raises:
            InvalidName: If no group may have one of these names.
            NoRoute: If no NameServer knows a topic.
            PartlyDone: If some brokers did it, and others did not.
        """
        check_consumer_group(source)
        check_consumer_group(target)
        moves: list[Move] = []
        for name in [topic] if topic is not None else await self.topics_of(source):
            had = {one.queue: one.committed for one in await self._offsets.of_group(target, name)}
            moves += [
                Move(one.queue, had.get(one.queue), one.committed)
                for one in await self._offsets.of_group(source, name)
                if one.committed is not None
            ]
            if not preview:
                request = CloneGroupOffset(
                    src_group=source, dest_group=target, topic=name, offline=True
                )
                await self._fleet.tell(await self._leaders_of(name), request)
        return moves

    async def _wanted(
        self,
        topic: str,
        to_ms: int | None,
        to_offset: int | None,
        queues: dict[MessageQueue, QueueOffset | None],
    ) -> dict[MessageQueue, QueueOffset]:
        if to_ms is not None:
            found = await self._offsets.at_time(topic, to_ms)
            return {queue: found[queue] for queue in queues}
        ends = await self._offsets.ends(topic)
        if to_offset is None:
            return {queue: ends[queue].end for queue in queues}
        (only,) = queues
        if not ends[only].least <= to_offset <= ends[only].end:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"the queue has offsets from {ends[only].least} to {ends[only].end}",
            )
        return {only: QueueOffset(to_offset)}

    async def _leaders_of(self, topic: str) -> dict[str, str]:
        route = await self._fleet.session.routes.get(topic)
        return {
            broker.broker_name: broker.leader
            for broker in route.brokers
            if broker.leader is not None
        }


def _group_lag(group: str, replies: Sequence[ConsumeStatsReply]) -> GroupLag:
    queues = [
        QueueLag(
            queue,
            QueueOffset(held.consumer_offset),
            QueueOffset(held.broker_offset),
            held.last_timestamp or None,
        )
        for reply in replies
        for queue, held in reply.stats.queues.items()
    ]
    rate = sum(reply.stats.consume_tps for reply in replies)
    return GroupLag(group, rate, tuple(sorted(queues, key=lambda one: one.queue)))
