"""Messages that a group has given up: found, and given to it again, each once.

A replayed message goes to the group's own retry topic, so that no other group gets it, and starts
its attempts anew. Its unique key is made from the place of the dead letter. That is the ledger: who
replays looks for the key first, so a letter is replayed once, whoever does it and from wherever.

Letters are in a log, from which nothing is taken out singly: purging moves a mark, the place of a
group of its own in the queue, and what lies before it is no longer listed, counted or replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rocketpipe.client.admin.fleet import Fleet, each
from rocketpipe.client.admin.messages import MessageAdmin
from rocketpipe.client.admin.offsets import GroupPlace, OffsetAdmin
from rocketpipe.client.admin.topics import TopicAdmin
from rocketpipe.client.consumer.received import ReceivedMessage, received
from rocketpipe.errors import NoRoute, RequestRejected, RocketPipeError
from rocketpipe.model import properties
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import (
    AUTO_CREATE_TOPIC,
    PURGED_GROUP,
    TOOLS_CONSUMER_GROUP,
    check_consumer_group,
    dlq_topic,
    is_dlq_topic,
    retry_topic,
)
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.groups import UpdateAndCreateGroup
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.record.layout import HOST_BITS

#: So many are given unless the caller says otherwise.
LISTED: Final = 10_000
#: Of so many it is looked up whether they were replayed, when they are counted.
COUNTED: Final = 1000
_RETRY_QUEUES: Final = 1
#: What is taken out: it belongs to the letter, or to the way that it came.
_OF_THE_LETTER: Final = (
    properties.DELAY,
    properties.DLQ_ORIGIN_TOPIC,
    properties.DLQ_ORIGIN_MESSAGE_ID,
    properties.DLQ_REASON,
    properties.POP_CK,
    properties.REAL_TOPIC,
    properties.REAL_QUEUE_ID,
    # It was committed: with this it would be a half message again, and wait for its producer.
    properties.TRANSACTION_PREPARED,
    # It has waited.
    properties.START_DELIVER_TIME,
    properties.TIMER_DELAY_LEVEL,
    properties.TIMER_DELAY_MS,
    properties.TIMER_DELAY_SEC,
    properties.TIMER_DELIVER_MS,
    properties.TIMER_OUT_MS,
    # Brokers write these anew, and the longest message has no room for them twice.
    properties.CLUSTER,
    properties.CRC32,
    properties.FIRST_POP_TIME,
    properties.MSG_REGION,
    properties.TIMER_DEQUEUE_MS,
    properties.TIMER_ENQUEUE_MS,
    properties.TIMER_ROLL_TIMES,
    properties.TRACE_ON,
    properties.TRANSACTION_CHECK_TIMES,
    properties.TRANSACTION_ID,
    properties.TRANSACTION_PREPARED_QUEUE_OFFSET,
)


class ReplayOutcome(StrEnum):
    """What became of a replay."""

    REPLAYED = "replayed"
    BEFORE = "replayed before"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Replay:
    """What became of one dead letter."""

    message: ReceivedMessage
    outcome: ReplayOutcome
    #: Why it failed.
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LetterCount:
    """How many dead letters a group has."""

    letters: int
    #: How many of them were given to the group again; None where there are too many to look.
    replayed: int | None

    @property
    def waiting(self) -> int:
        """How many nobody has done anything about, as far as it is known."""
        return self.letters - (self.replayed or 0)


class DeadLetterAdmin:
    """Looks after the dead letters of groups."""

    def __init__(
        self, fleet: Fleet, topics: TopicAdmin, messages: MessageAdmin, offsets: OffsetAdmin
    ) -> None:
        self._fleet = fleet
        self._topics = topics
        self._messages = messages
        self._offsets = offsets

    async def groups(self) -> list[str]:
        """The groups that have a topic of dead letters, in order.

        Raises:
            ConnectionLost: If no NameServer can be reached.
        """
        known = await self._topics.names(internal=True)
        return sorted(name.removeprefix(dlq_topic("")) for name in known if is_dlq_topic(name))

    async def letters(self, group: str, *, limit: int = LISTED) -> list[ReceivedMessage]:
        """A group's dead letters, those of each broker in the order of their coming.

        Raises:
            InvalidName: If no group may have this name.
            ConnectionLost: If a broker, or every NameServer, is out of reach.
        """
        found: list[ReceivedMessage] = []
        for place in await self._places(group):
            offset, end = _first(place), place.end
            address = await self._address(place.queue)
            while offset < end and len(found) < limit:
                some = await self._pull(address, place.queue, offset)
                if not some:
                    break
                found += (each for each in some if each.queue_offset < end)
                offset = QueueOffset(some[-1].queue_offset + 1)
        return found[:limit]

    async def count(self, group: str) -> LetterCount:
        """How many dead letters a group has, and how many of them were replayed.

        Raises:
            InvalidName: If no group may have this name.
            ConnectionLost: If a broker, or every NameServer, is out of reach.
        """
        letters = sum(place.end - _first(place) for place in await self._places(group))
        if letters > COUNTED:
            return LetterCount(letters, None)
        listed = await self.letters(group, limit=COUNTED)

        async def replayed(number: int) -> bool:
            return await self.replayed(group, listed[number])

        return LetterCount(letters, sum((await each(range(len(listed)), replayed)).values()))

    async def ends(self, group: str) -> dict[MessageQueue, QueueOffset]:
        """Up to where `purge` would purge each queue that has any letter.

        Raises:
            InvalidName: If no group may have this name.
            ConnectionLost: If a broker, or every NameServer, is out of reach.
        """
        return {queue: end for queue, (_, end) in (await self.spans(group)).items()}

    async def spans(self, group: str) -> dict[MessageQueue, tuple[QueueOffset, QueueOffset]]:
        """For each queue that has any letter the first that was not purged, and its end.

        Raises: as ``ends`` does.
        """
        places = await self._places(group)
        return {
            place.queue: (_first(place), place.end) for place in places if _first(place) < place.end
        }

    async def purge(self, ends: Mapping[MessageQueue, QueueOffset]) -> None:
        """Have the letters before these ends no longer listed, counted or replayed.

        They stay in the log until its files are removed, and can be read as any topic.

        Raises:
            ConnectionLost: If a broker, or every NameServer, is out of reach.
            PartlyDone: If some queues were purged, and others were not.
        """
        leaders = {queue.broker_name: await self._address(queue) for queue in ends}
        settings = GroupSettings(name=PURGED_GROUP)
        await self._fleet.tell(leaders, UpdateAndCreateGroup(settings=settings))
        await self._offsets.commit(PURGED_GROUP, ends)

    async def replay(
        self, group: str, letter: ReceivedMessage, *, to_topic: bool = False
    ) -> Replay:
        """Give a dead letter to its group again, unless that was done before.

        With ``to_topic`` it goes to the topic it was first sent to, where all groups get it: the
        only way for groups that consume in order, to which brokers give nothing again.
        """
        topic, key = retry_topic(group), replay_key(letter)
        if to_topic:
            origin = origin_of(letter)
            if origin is None:
                return Replay(letter, ReplayOutcome.FAILED, "it does not say where it was sent to")
            topic = origin
        try:
            if await self.replayed(group, letter):
                return Replay(letter, ReplayOutcome.BEFORE)
            await self._fleet.call(await self._address(letter.queue), resent(letter, topic, key))
        except RocketPipeError as error:
            return Replay(letter, ReplayOutcome.FAILED, str(error))
        return Replay(letter, ReplayOutcome.REPLAYED)

    async def replayed(self, group: str, letter: ReceivedMessage) -> bool:
        """Whether a dead letter was given to its group again, in either way.

        Raises:
            ConnectionLost: If a broker, or every NameServer, is out of reach.
        """
        key, origin = replay_key(letter), origin_of(letter)
        if await self._was_replayed(retry_topic(group), key):
            return True
        return origin is not None and await self._was_replayed(origin, key)

    async def _was_replayed(self, topic: str, key: str) -> bool:
        try:
            return bool(await self._messages.by_unique_key(topic, key))
        except NoRoute:
            return False  # it never had a retry

    async def _places(self, group: str) -> list[GroupPlace]:
        """Where each queue of letters begins and ends, and how far it was purged."""
        check_consumer_group(group)
        try:
            return await self._offsets.of_group(PURGED_GROUP, dlq_topic(group))
        except NoRoute:
            return []  # nothing was ever given up

    async def _address(self, queue: MessageQueue) -> str:
        route = await self._fleet.session.routes.get(queue.topic)
        return self._fleet.session.leader_of(queue, route)

    async def _pull(
        self, address: str, queue: MessageQueue, offset: QueueOffset
    ) -> list[ReceivedMessage]:
        try:
            reply = await self._fleet.pull(
                address, queue.topic, queue.queue_id, offset, broker=queue.broker_name
            )
        except RequestRejected:
            return []
        return list(received(reply.messages, queue))


def _first(place: GroupPlace) -> QueueOffset:
    """The first letter that was not purged; a mark behind the end is of a topic that is gone."""
    purged = place.committed or 0
    return QueueOffset(max(place.least, purged if purged <= place.end else 0))


def origin_of(letter: ReceivedMessage) -> str | None:
    """The topic that a dead letter was first sent to, if it says so."""
    said = letter.properties
    return said.get(properties.DLQ_ORIGIN_TOPIC) or said.get(properties.RETRY_TOPIC)


def replay_key(letter: ReceivedMessage) -> str:
    """The unique key of a dead letter's replay: the same whenever it is made."""
    return f"REPLAY{letter.offset_id}"


def resent(letter: ReceivedMessage, topic: str, key: str) -> SendMessage:
    """The send that replays a dead letter: the message as it was before it failed."""
    origin = origin_of(letter)
    changes: dict[str, str | None] = dict.fromkeys(_OF_THE_LETTER)
    changes[properties.UNIQ_KEY] = key
    changes[properties.WAIT] = "true"
    if topic == origin:
        changes[properties.RETRY_TOPIC] = changes[properties.ORIGIN_MESSAGE_ID] = None
    else:
        changes[properties.RETRY_TOPIC] = origin
    text = properties.edited(letter.raw_properties, changes)
    return SendMessage(
        producer_group=TOOLS_CONSUMER_GROUP,
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=_RETRY_QUEUES,
        queue_id=0,
        sys_flag=letter.sys_flag & ~HOST_BITS,
        born_timestamp=letter.born_ms,
        flag=letter.flag,
        properties=text.decode("utf-8", "replace"),
        broker_name=letter.queue.broker_name,
        body=letter.stored_body,
    )
