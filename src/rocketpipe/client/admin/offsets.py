"""Positions in queues: where each begins and ends, and how far a group has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocketpipe.client.admin.fleet import Fleet, each
from rocketpipe.errors import CallTimeout, ConnectionLost, RequestRejected
from rocketpipe.model.names import check_consumer_group
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue, TopicRoute
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.offsets import (
    BoundaryType,
    GetEarliestStoreTime,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)


@dataclass(frozen=True, slots=True)
class Ends:
    """A queue has offsets from ``least`` up to, but without, ``end``."""

    least: QueueOffset
    end: QueueOffset


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """How far a group has come in one queue."""

    queue: MessageQueue
    #: The next one it will read; None if it has not committed any.
    committed: QueueOffset | None
    least: QueueOffset
    end: QueueOffset

    @property
    def lag(self) -> int:
        """How many messages it has still to read, as far as the queue still has them."""
        begin = self.least if self.committed is None else max(self.committed, self.least)
        return max(0, self.end - begin)


class OffsetAdmin:
    """Reads and moves positions."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def ends(self, topic: str) -> dict[MessageQueue, Ends]:
        """Where each queue of a topic begins and ends.

        Raises:
            NoRoute: If no NameServer knows the topic, or nobody has one of its queues.
            ConnectionLost: If a broker is out of reach.
        """
        session = self._fleet.session
        route = await session.routes.get(topic)

        async def ends_of(queue: MessageQueue) -> Ends:
            return Ends(*await session.ends_of(queue))

        return await each(route.readable_queues(topic), ends_of)

    async def at_time(
        self, topic: str, at_ms: int, *, boundary: BoundaryType = BoundaryType.LOWER
    ) -> dict[MessageQueue, QueueOffset]:
        """For each queue the first offset stored at a moment or later; its end if there is none.

        With ``BoundaryType.UPPER`` it is the last one stored at the moment or before.

        Raises:
            NoRoute: If no NameServer knows the topic, or nobody has one of its queues.
            ConnectionLost: If a broker is out of reach.
        """
        route = await self._fleet.session.routes.get(topic)

        async def offset_of(queue: MessageQueue) -> QueueOffset:
            request = SearchOffsetByTimestamp(
                topic=topic,
                queue_id=queue.queue_id,
                timestamp=at_ms,
                boundary_type=boundary,
                broker_name=queue.broker_name,
            )
            return (await self._fleet.call(self._reader(queue, route), request)).offset

        return await each(route.readable_queues(topic), offset_of)

    async def oldest_ms(self, topic: str) -> dict[MessageQueue, int | None]:
        """For each queue when its oldest message was stored; None where there is none.

        Raises:
            NoRoute: If no NameServer knows the topic, or nobody has one of its queues.
            ConnectionLost: If a broker is out of reach.
        """
        route = await self._fleet.session.routes.get(topic)

        async def oldest_of(queue: MessageQueue) -> int | None:
            request = GetEarliestStoreTime(
                topic=topic, queue_id=queue.queue_id, broker_name=queue.broker_name
            )
            stored_ms = (await self._fleet.call(self._reader(queue, route), request)).timestamp
            return stored_ms if stored_ms >= 0 else None

        return await each(route.readable_queues(topic), oldest_of)

    async def of_group(self, group: str, topic: str) -> list[GroupPlace]:
        """How far a group has come in each queue of a topic, in order.

        Raises:
            InvalidName: If no group may have this name.
            NoRoute: If no NameServer knows the topic, or nobody has one of its queues.
            ConnectionLost: If a broker is out of reach.
        """
        check_consumer_group(group)
        session = self._fleet.session
        route = await session.routes.get(topic)

        async def place_in(queue: MessageQueue) -> GroupPlace:
            address = self._reader(queue, route)
            committed = await self._committed(group, queue, address)
            return GroupPlace(queue, committed, *await session.ends_of(queue, address))

        return list((await each(route.readable_queues(topic), place_in)).values())

    async def known_of_group(self, group: str, topic: str) -> dict[MessageQueue, GroupPlace | None]:
        """The same for each queue whose broker answers; None for one whose broker does not.

        Raises:
            InvalidName: If no group may have this name.
            NoRoute: If no NameServer knows the topic, or nobody has one of its queues.
            ConnectionLost: If no NameServer answers.
        """
        check_consumer_group(group)
        session = self._fleet.session
        route = await session.routes.get(topic)

        async def place_in(queue: MessageQueue) -> GroupPlace | None:
            address = self._reader(queue, route)
            try:
                committed = await self._committed(group, queue, address)
                return GroupPlace(queue, committed, *await session.ends_of(queue, address))
            except (ConnectionLost, CallTimeout):
                return None

        return await each(route.readable_queues(topic), place_in)

    async def commit(self, group: str, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """Have a group go on from these offsets.

        Members that run commit their own places over it: stop them first.

        Raises:
            InvalidName: If no group may have this name.
            ValueError: If an offset is below 0.
            NoRoute: If no NameServer knows a topic, or one of its brokers has no leader.
            RequestRejected: If the broker does not have the group or the queue.
            PartlyDone: If some queues have changed, and others have not.
        """
        check_consumer_group(group)
        requests: dict[str, tuple[str, Request[None]]] = {}
        for queue, offset in offsets.items():
            if offset < 0:
                raise ValueError(f"{offset} is no offset: they count from 0")
            route = await self._fleet.session.routes.get(queue.topic)
            requests[f"{queue.topic}@{queue.broker_name}:{queue.queue_id}"] = (
                self._leader(queue, route),
                UpdateConsumerOffset(
                    consumer_group=group,
                    topic=queue.topic,
                    queue_id=queue.queue_id,
                    commit_offset=offset,
                    broker_name=queue.broker_name,
                ),
            )
        await self._fleet.carry_out(requests)

    async def move_to_time(
        self, group: str, topic: str, at_ms: int
    ) -> dict[MessageQueue, QueueOffset]:
        """Have a group go on from what was stored at a moment or later; it says where that is.

        Raises: as ``commit`` does.
        """
        wanted = await self.at_time(topic, at_ms)
        await self.commit(group, wanted)
        return wanted

    async def move_to_ends(
        self, group: str, topic: str, *, newest: bool
    ) -> dict[MessageQueue, QueueOffset]:
        """Have a group read a topic's messages all again, or skip all that are there.

        Raises: as ``commit`` does.
        """
        ends = await self.ends(topic)
        wanted = {queue: each.end if newest else each.least for queue, each in ends.items()}
        await self.commit(group, wanted)
        return wanted

    async def _committed(self, group: str, queue: MessageQueue, address: str) -> QueueOffset | None:
        request = QueryConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
            broker_name=queue.broker_name,
        )
        try:
            return (await self._fleet.call(address, request)).offset
        except RequestRejected as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return None

    def _reader(self, queue: MessageQueue, route: TopicRoute) -> str:
        """Who knows of a queue: its leader, or a follower while there is none."""
        return self._fleet.session.reader_of(queue, route=route)

    def _leader(self, queue: MessageQueue, route: TopicRoute) -> str:
        return self._fleet.session.leader_of(queue, route)
