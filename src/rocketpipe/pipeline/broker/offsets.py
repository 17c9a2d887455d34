"""Where messages are, as NameServers and brokers tell; and how far a group has come, told to them.

Planners are plain code in a process of Spark's, which may be idle for minutes between two
questions. So the session runs on a thread of its own and keeps its connections alive.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from rocketpipe.blocking.background import BackgroundLoop
from rocketpipe.client.admin.fleet import Fleet, each
from rocketpipe.client.admin.name_servers import NameServerAdmin
from rocketpipe.client.admin.topics import TopicAdmin
from rocketpipe.client.consumer.pull import PULL_TIMEOUT_MS, pull_request
from rocketpipe.errors import AccessDenied, NoRoute, RequestRejected, RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import LEADER_ID, MessageQueue, TopicRoute
from rocketpipe.model.subscription import EVERYTHING
from rocketpipe.pipeline.options.securing import Access
from rocketpipe.pipeline.planning.offset_reader import Ends, UnknownTopic
from rocketpipe.pipeline.planning.ranges import QueueRange
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.kv import DRAINED_NAMESPACE
from rocketpipe.protocol.requests.offsets import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from rocketpipe.protocol.requests.topics import GetTopicStats
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger("rocketpipe.pipeline")

ReplyT = TypeVar("ReplyT")

#: So long a route is good for planning: a queue that is added is seen after this.
ROUTE_MS: Final = 1000
#: So long a planner waits for the new leader of a broker that has lost its own.
LEADER_MS: Final = 15_000
#: So long a queue that others of its broker's name have too may seem shorter than it was.
SETTLING_MS: Final = 30_000

_unreachable = LogBudget()
_uncommitted = LogBudget()


class BrokerOffsets:
    """Answers planners through one session, which lasts from the first question to ``close``."""

    def __init__(self, name_servers: str, group: str, access: Access | None = None) -> None:
        """Take whom to ask, and in whose name; nothing is opened yet.

        Raises:
            ValueError: If ``name_servers`` is no list such as ``a:9876;b:9876``.
        """
        self._session = (access or Access()).session(name_servers)
        fleet = Fleet(self._session)
        self._topics = TopicAdmin(fleet)
        self._name_servers = NameServerAdmin(fleet)
        self._group = group
        self._loop: BackgroundLoop | None = None
        self._routes: dict[str, tuple[TopicRoute, int]] = {}
        self._addresses: dict[str, str] = {}
        #: How far queues reached, and since when they seem shorter.
        self._reached: dict[MessageQueue, tuple[QueueOffset, int | None]] = {}

    def topics(self) -> frozenset[str]:
        """Every topic of users.

        Raises:
            ConnectionLost: If no NameServer answers.
        """
        return frozenset(self._here().run(self._topics.names()))

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic that can be read, in order.

        Raises:
            UnknownTopic: If no NameServer knows the topic.
            ConnectionLost: If none answers.
        """
        return self._here().run(self._route(topic)).readable_queues(topic)

    def ends(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, Ends]:
        """How far these queues reach; one whose broker cannot be asked now is left out.

        Raises:
            AccessDenied: If a broker knows who asks, and they may not.
        """
        found = self._here().run(each(queues, self._ends_of))
        return {queue: ends for queue, ends in found.items() if ends is not None}

    def oldest_ms(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, int]:
        """When the oldest message of each was stored; one of which that is unknown is left out."""
        found = self._here().run(each(queues, self._oldest_ms))
        return {queue: stored_ms for queue, stored_ms in found.items() if stored_ms >= 0}

    def deleted(self, queues: Sequence[MessageQueue]) -> frozenset[MessageQueue]:
        """Those whose broker says that it has no such topic: a missing route is no proof."""
        found = self._here().run(each(queues, self._is_deleted))
        return frozenset(queue for queue, is_deleted in found.items() if is_deleted)

    def drained(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, QueueOffset]:
        """Where those ended whose broker is gone since it was drained, as NameServers know it."""
        found: dict[MessageQueue, QueueOffset] = {}
        for broker in sorted({queue.broker_name for queue in queues}):
            if self._here().run(self._kept(broker)) is None:
                continue
            mine = [queue for queue in queues if queue.broker_name == broker]
            for topic in sorted({queue.topic for queue in mine}):
                ends = _ends_in(self._here().run(self._kept(f"{broker}@{topic}")) or "")
                found |= {
                    queue: QueueOffset(ends.get(queue.queue_id, 0))
                    for queue in mine
                    if queue.topic == topic
                }
        return found

    def at_time(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        """The offset of the first message stored at that time or later; the end if none was.

        Raises:
            ConnectionLost: If the broker is out of reach.
        """
        return self._here().run(self._at_time(queue, timestamp_ms))

    def sizes(self, ranges: Sequence[QueueRange]) -> Mapping[MessageQueue, int]:
        """About how many bytes each range has, going by the first few messages of it."""
        if not ranges:
            return {}
        found = self._here().run(each(ranges, self._size_of))
        return {one.queue: size for one, size in found.items() if size is not None}

    def addresses(self) -> Mapping[str, str]:
        """Where each broker is read of whose topics the queues were asked for."""
        return dict(self._addresses)

    def commit(self, offsets: Mapping[MessageQueue, QueueOffset]) -> bool:
        """Tell the brokers how far the group has come; whether all of them took it.

        What a broker does not take is logged: nothing but the lag that tools show rests on it.
        """
        asked = self._here().run(
            each(list(offsets), lambda queue: self._put(queue, offsets[queue]))
        )
        return all(asked.values())

    def close(self) -> None:
        """End the connections."""
        loop, self._loop = self._loop, None
        if loop is not None and loop.is_ours:
            try:
                loop.run(self._session.__aexit__(None, None, None))
            finally:
                loop.stop()

    def _here(self) -> BackgroundLoop:
        if self._loop is None:
            self._loop = BackgroundLoop()
            self._loop.run(self._session.__aenter__())
        return self._loop

    async def _route(self, topic: str) -> TopicRoute:
        routes, now_ms = self._session.routes, self._session.clock.monotonic_ms()
        known = self._routes.get(topic)
        if known is not None and now_ms < known[1]:
            return known[0]
        routes.forget(topic)
        try:
            route = await routes.get(topic)
        except NoRoute as error:
            self._routes.pop(topic, None)
            raise UnknownTopic(
                topic, f"NameServer {error.name_servers}", error.hint or "create it first"
            ) from error
        self._routes[topic] = (route, now_ms + ROUTE_MS)
        for broker in route.brokers:
            if broker.readable is not None:
                self._addresses[broker.broker_name] = broker.readable
        return route

    async def _kept(self, key: str) -> str | None:
        """What NameServers keep of a broker that was drained; None also if none can be asked."""
        try:
            return await self._name_servers.get(DRAINED_NAMESPACE, key)
        except RocketPipeError:
            return None

    async def _ends_of(self, queue: MessageQueue) -> Ends | None:
        topic, number, name = queue.topic, queue.queue_id, queue.broker_name
        try:
            least = await self._ask(
                queue, GetMinOffset(topic=topic, queue_id=number, broker_name=name)
            )
            greatest = await self._ask(
                queue, GetMaxOffset(topic=topic, queue_id=number, broker_name=name)
            )
        except AccessDenied:
            raise  # to ask again would be refused again
        except RocketPipeError as error:
            if _unreachable.allows(error):
                log.warning(
                    "queues cannot be asked topic=%s broker=%s reason=%s%s",
                    queue.topic,
                    queue.broker_name,
                    error,
                    _unreachable.suppressed(),
                )
            return None
        if self._is_settling(queue, greatest.offset):
            return None
        return least.offset, greatest.offset

    async def _ask(self, queue: MessageQueue, request: Request[ReplyT]) -> ReplyT:
        """Ask the leader, whose word counts: a follower may be behind. One that is to come too."""
        await self._route(queue.topic)
        session = self._session
        patient = self._has_followers(queue) and session.routes.leaders.is_awaited(
            queue.broker_name
        )
        timeout_ms = LEADER_MS if patient else session.timeout_ms
        return await session.leaders.ask(queue, request, timeout_ms, patient=patient)

    def _has_followers(self, queue: MessageQueue) -> bool:
        return any(number != LEADER_ID for number in self._session.addresses_of(queue))

    def _is_settling(self, queue: MessageQueue, end: QueueOffset) -> bool:
        """Whether a queue ends before it did because its leader is new, and not ready yet."""
        now_ms = self._session.clock.monotonic_ms()
        reached, since_ms = self._reached.get(queue, (end, None))
        if end >= reached or not self._has_followers(queue):
            self._reached[queue] = (end, None)
            return False
        since_ms = now_ms if since_ms is None else since_ms
        if now_ms - since_ms >= SETTLING_MS:
            self._reached[queue] = (end, None)
            return False
        self._reached[queue] = (reached, since_ms)
        return True

    async def _oldest_ms(self, queue: MessageQueue) -> int:
        request = GetEarliestStoreTime(
            topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
        )
        try:
            reply = await self._ask(queue, request)
        except RocketPipeError:
            return -1
        return reply.timestamp

    async def _is_deleted(self, queue: MessageQueue) -> bool:
        address = self._addresses.get(queue.broker_name)
        if address is None:
            return False
        request = GetTopicStats(topic=queue.topic, broker_name=queue.broker_name)
        try:
            await self._session.caller.call(address, request, self._session.timeout_ms)
        except RequestRejected as error:
            return error.code == ResponseCode.TOPIC_NOT_EXIST
        except RocketPipeError:
            return False
        return False

    async def _at_time(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        request = SearchOffsetByTimestamp(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=timestamp_ms,
            broker_name=queue.broker_name,
        )
        return (await self._ask(queue, request)).offset

    async def _size_of(self, whole: QueueRange) -> int | None:
        queue, start = whole.queue, whole.start
        try:
            address = self._session.reader_of(queue, route=await self._route(queue.topic))
            request = pull_request(self._group, queue, start, EVERYTHING, suspend_ms=0)
            reply = await self._session.caller.call(address, request, PULL_TIMEOUT_MS)
        except RocketPipeError:
            return None  # whoever reads the queue will say why
        seen = reply.next_begin_offset - start
        if not reply.messages or seen <= 0:
            return None
        return len(reply.messages) * whole.count // seen

    async def _put(self, queue: MessageQueue, offset: QueueOffset) -> bool:
        try:
            await self._update(queue, offset)
        except RocketPipeError as error:
            if _uncommitted.allows(error):
                log.warning(
                    "progress not told group=%s topic=%s broker=%s reason=%s%s",
                    self._group,
                    queue.topic,
                    queue.broker_name,
                    error,
                    _uncommitted.suppressed(),
                )
            return False
        return True

    async def _update(self, queue: MessageQueue, offset: QueueOffset) -> None:
        request = UpdateConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            broker_name=queue.broker_name,
        )
        try:
            await self._ask(queue, request)
        except RequestRejected as error:
            if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            # Who reads the log has not made the group by pulling.
            pull = pull_request(self._group, queue, offset, EVERYTHING, suspend_ms=0)
            await self._session.leaders.ask(queue, pull, PULL_TIMEOUT_MS)
            await self._ask(queue, request)


def _ends_in(text: str) -> dict[int, int]:
    """Ends by queue, of ``0:42;1:40``; what is no number says nothing."""
    pairs = (each.partition(":") for each in text.split(";"))
    return {int(queue): int(end) for queue, _, end in pairs if queue.isdigit() and end.isdigit()}
