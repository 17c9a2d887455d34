"""What a broker has that nobody has read yet: how far it is from being empty.

    groups      behind the end of a queue of a topic that they have a place in, or subscribe to now
    retries     of groups, before and after they are due
    waiting     before its moment, popped and not acknowledged, not decided, not committed
    unread      topics that no group reads, and dead letters that nobody has dealt with

A group counts as a reader of a topic at a broker if it has a place in that topic, there or at
another broker, unless its members are online and do not subscribe to it: one that was away since
the broker took its first message has none there, and reads it when it is back. Members that are
told everything each keep their own places, so brokers know of none: their group reads nothing that
could be waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rocketpipe.client.admin.dead_letters import DeadLetterAdmin
from rocketpipe.client.admin.fleet import Fleet, each
from rocketpipe.errors import RequestRejected
from rocketpipe.model.names import (
    DLQ_PREFIX,
    PURGED_GROUP,
    TOOLS_CONSUMER_GROUP,
    is_dlq_topic,
    is_retry_topic,
    is_system_group,
    is_system_topic,
    retry_topic,
)
from rocketpipe.model.subscription import MessageModel
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.brokers import GetAllConsumerOffsets, GetBrokerRuntimeInfo
from rocketpipe.protocol.requests.groups import GetAllGroupConfig
from rocketpipe.protocol.requests.running import ConsumerConnections, GetConsumerConnections
from rocketpipe.protocol.requests.staging import CommitStages, ListStaged, StageList
from rocketpipe.protocol.requests.topics import (
    GetAllTopicConfig,
    GetBrokerSystemTopics,
    GetTopicStats,
)

#: What a broker tells of what it has begun, and what operators call it.
_UNFINISHED: Final = {
    "timerCongestNum": "delayed",
    "unfinishedPops": "popped",
    "unfinishedTransactions": "open transactions",
    "unfinishedStages": "staged sets",
}
_LEVELS: Final = "scheduleMessageOffset_"

#: By queue: the offsets of the oldest message, and of the one that would come next.
_Ends = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class GroupBacklog:
    """What a group has still to read of one topic at a broker."""

    group: str
    topic: str
    messages: int
    #: How many members it has there.
    members: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """One look at a broker."""

    #: How far its log reaches; None if it grew while this looked.
    log_end: int | None
    groups: tuple[GroupBacklog, ...]
    #: What is kept back for now, by what it is.
    waiting: Mapping[str, int]
    #: How many messages topics have that no group reads.
    unread: Mapping[str, int]
    #: How far each queue reaches, of every topic of users that has had a message.
    ends: Mapping[str, Mapping[int, int]]

    @property
    def is_consumed(self) -> bool:
        """Whether everything was read by whoever reads it."""
        return self.log_end is not None and not self.groups and not self.waiting

    @property
    def messages(self) -> int:
        """How much is left, to be shown: what several groups have to read counts for each."""
        return sum(one.messages for one in self.groups) + sum(self.waiting.values())


class DrainAdmin:
    """Looks at brokers that are being emptied."""

    def __init__(self, fleet: Fleet, dead_letters: DeadLetterAdmin) -> None:
        self._fleet = fleet
        self._dead_letters = dead_letters

    async def look(self, broker: str) -> Backlog:
        """What a broker has that is not read.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            ConnectionLost: If it is out of reach, or another is that may know of its readers.
        """
        address = (await self._fleet.leaders(broker=broker))[broker]
        before = await self._runtime(address)
        end = int(before.get("commitLogMaxOffset", 0))
        is_shown = int(before.get("dispatchBehindBytes", 0)) == 0
        ends = await self._ends_of(broker, address)
        places = (await self._fleet.call(address, GetAllConsumerOffsets())).table.offsets
        elsewhere = await self._places_elsewhere(broker)
        groups = (await self._fleet.call(address, GetAllGroupConfig())).table.groups
        known = {*groups, *_named(places), *_named(elsewhere)}
        readers = _Readers(places, elsewhere, known, await self._online(address, known))
        behind: list[GroupBacklog] = []
        unread: dict[str, int] = {}
        for topic, queues in sorted(ends.items()):
            if not any(least < greatest for least, greatest in queues.values()):
                continue
            reading = readers.of(topic)
            for group in reading:
                left = readers.left(group, topic, queues)
                if left:
                    behind.append(GroupBacklog(group, topic, left, readers.members(group)))
            if not reading and (left := readers.left(PURGED_GROUP, topic, queues)):
                unread[topic] = left
        after = await self._runtime(address)
        is_still = is_shown and end == int(after.get("commitLogMaxOffset", 0))
        return Backlog(
            end if is_still else None,
            tuple(behind),
            _waiting(after),
            unread,
            {
                topic: {queue: at for queue, (_, at) in found.items()}
                for topic, found in ends.items()
            },
        )

    async def replayed(self, broker: str, unread: Iterable[str]) -> set[str]:
        """Of topics that nobody reads: those of dead letters that were all given out again.

        Raises:
            ConnectionLost: If a broker, or every NameServer, is out of reach.
        """
        done = set()
        for topic in unread:
            if not is_dlq_topic(topic):
                continue
            group = topic.removeprefix(DLQ_PREFIX)
            letters = await self._dead_letters.letters(group)
            mine = [one for one in letters if one.queue.broker_name == broker]
            if mine and all([await self._dead_letters.replayed(group, one) for one in mine]):
                done.add(topic)
        return done

    async def hand_over(self, broker: str, to: str) -> int:
        """Have another broker know which staged batches were committed through a broker.

        Of each application it is told of the newest, so that what is written again is known to
        have been. It says of how many applications that was.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            ConnectionLost: If one of them is out of reach.
            RequestRejected: If the other has no room for them.
        """
        addresses = await self._fleet.leaders()
        known = (await self._fleet.call(addresses[broker], ListStaged())).staged.applications
        for one in known:
            for batch in one.batches:
                content = one.contents.get(str(batch))
                request = CommitStages(
                    producer_group=TOOLS_CONSUMER_GROUP,
                    application=one.application,
                    batch=batch,
                    broker_name=to,
                    named=StageList(content=content),
                )
                await self._fleet.call(addresses[to], request)
        return len(known)

    async def _runtime(self, address: str) -> Mapping[str, str]:
        return (await self._fleet.call(address, GetBrokerRuntimeInfo())).values.table

    async def _places_elsewhere(self, broker: str) -> set[str]:
        """Which groups have a place in which topics at all others, as ``topic@group``."""
        others = {
            name: addresses.leader
            for name, addresses in (await self._fleet.brokers()).items()
            if name != broker and addresses.leader is not None
        }
        told = await self._fleet.ask(others, GetAllConsumerOffsets())
        return {key for one in told.values() for key in one.table.offsets}

    async def _ends_of(self, broker: str, address: str) -> dict[str, _Ends]:
        """The queues that have had a message, by topic; the broker's own topics left out."""
        own = (await self._fleet.call(address, GetBrokerSystemTopics())).names.topics
        table = (await self._fleet.call(address, GetAllTopicConfig())).table.topics
        topics = [name for name in table if not (name in own or is_system_topic(name))]

        async def ends(topic: str) -> _Ends:
            request = GetTopicStats(topic=topic, broker_name=broker)
            try:
                stats = (await self._fleet.call(address, request)).stats
            except RequestRejected as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                return {}  # deleted meanwhile
            return {
                queue.queue_id: (one.min_offset, one.max_offset)
                for queue, one in stats.queues.items()
                if one.max_offset > 0
            }

        return {topic: queues for topic, queues in (await each(topics, ends)).items() if queues}

    async def _online(self, address: str, groups: Iterable[str]) -> dict[str, ConsumerConnections]:
        async def ask(group: str) -> ConsumerConnections | None:
            request = GetConsumerConnections(consumer_group=group)
            try:
                return (await self._fleet.call(address, request)).group
            except RequestRejected as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
                return None

        found = await each(sorted(group for group in groups if not is_system_group(group)), ask)
        return {group: one for group, one in found.items() if one is not None}


class _Readers:
    """Who reads which topic at a broker, and how far."""

    def __init__(
        self,
        places: Mapping[str, Mapping[int, int]],
        elsewhere: Iterable[str],
        groups: Iterable[str],
        online: Mapping[str, ConsumerConnections],
    ) -> None:
        """Take places by ``topic@group``, here and elsewhere, all groups, and who has members."""
        self._online = online
        self._placed: dict[str, set[str]] = {}
        for key in (*places, *elsewhere):
            topic, _, group = key.partition("@")
            if not is_system_group(group):
                self._placed.setdefault(topic, set()).add(group)
        self._places: dict[str, dict[str, Mapping[int, int]]] = {}
        for key, offsets in places.items():
            topic, _, group = key.partition("@")
            self._places.setdefault(topic, {})[group] = offsets
        self._groups = frozenset(groups)

    def of(self, topic: str) -> list[str]:
        """The groups that read a topic, in order."""
        placed = self._placed.get(topic, set())
        if is_retry_topic(topic):
            return sorted(placed or _groups_of_retry(topic, self._groups))
        return sorted(
            group
            for group in placed | set(self._online)
            if self._subscribes(group, topic, has_place=group in placed)
        )

    def _subscribes(self, group: str, topic: str, *, has_place: bool) -> bool:
        members = self._online.get(group)
        if members is None or not members.subscriptions:
            return has_place
        if members.message_model == MessageModel.BROADCASTING:
            return False
        return topic in members.subscriptions

    def members(self, group: str) -> int:
        """How many members a group has."""
        found = self._online.get(group)
        return 0 if found is None else len(found.connections)

    def left(self, group: str, topic: str, queues: _Ends) -> int:
        """How much of a topic a group has not read."""
        places = self._places.get(topic, {}).get(group, {})
        return sum(
            max(0, greatest - max(least, places.get(queue, least)))
            for queue, (least, greatest) in queues.items()
        )


def _named(places: Iterable[str]) -> set[str]:
    """The groups of keys such as ``topic@group`` that are users'."""
    groups = {key.partition("@")[2] for key in places}
    return {group for group in groups if group and not is_system_group(group)}


def _groups_of_retry(topic: str, groups: Iterable[str]) -> list[str]:
    """The group whose retries a topic has, by pull or by pop in either form; none if it is gone.

    Of groups that might be meant, as one's name begins with another's, it is the longest.
    """
    owns = {retry_topic(group): group for group in groups}
    fitting = [own for own in owns if topic == own or topic.startswith((f"{own}_", f"{own}+"))]
    return [owns[max(fitting, key=len)]] if fitting else []


def _waiting(facts: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, text in facts.items():
        if name.startswith(_LEVELS):
            read, _, end = text.partition(",")
            found["delayed"] = found.get("delayed", 0) + max(0, int(end) - int(read))
        elif name in _UNFINISHED:
            what = _UNFINISHED[name]
            found[what] = found.get(what, 0) + int(text)
    return {what: count for what, count in found.items() if count}
