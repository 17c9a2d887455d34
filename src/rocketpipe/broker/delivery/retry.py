"""What a consumer could not use comes again later, and becomes a dead letter in the end.

    sent back, attempt n    %RETRY%group after 10s 30s 1m 2m 3m … 2h, or as the group's policy says
    the last attempt        %DLQ%group, queue 0
    level below zero        %DLQ%group: the consumer does not want it again
    no room for a retry     %DLQ%group: its properties are as long as can be

Body and flags stay as they were stored. The message keeps where it came from:

    RETRY_TOPIC          the topic it was sent to         ORIGIN_MESSAGE_ID    its first offset id
    DLQ_ORIGIN_TOPIC     the same, of a dead letter       DLQ_REASON           why it is one
    DLQ_ORIGIN_MESSAGE_ID
"""

from __future__ import annotations

from typing import Final

from rocketpipe.broker.delivery.delay import DelayLevels
from rocketpipe.broker.delivery.filtering import EVERYTHING, Choice, Expression
from rocketpipe.broker.delivery.sieve import Sieve
from rocketpipe.broker.intake.room import Room
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.queue_locks import QueueLocks
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import RecordError, RequestRejected, StoreError
from rocketpipe.model import properties
from rocketpipe.model.group import DELAYS_MS, GroupSettings, RetryPolicy, RetryPolicyType
from rocketpipe.model.ids import RetryKind
from rocketpipe.model.names import (
    HALF_OP_TOPIC,
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    dlq_topic,
    retry_topic,
)
from rocketpipe.model.offsets import LogOffset
from rocketpipe.model.topic import Perm, TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.record import checksum
from rocketpipe.record.codec import RecordView
from rocketpipe.record.layout import MAX_PROPERTIES_BYTES, SEAL_BYTES
from rocketpipe.store.log.batch_mark import strip_mark
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore

#: The level of the first retry: ten seconds.
FIRST_LEVEL: Final = 3
DLQ_QUEUES: Final = 1
#: Clients before this version (3.4.9) do not say how often they try.
COUNTING_VERSION: Final = 121
#: No consumer reads these, so nothing in them can come back from one.
_UNREAD: Final = frozenset({SCHEDULE_TOPIC, HALF_TOPIC, HALF_OP_TOPIC})


class Retries:
    """Decides where a message goes that failed: to a later attempt, or to the dead letters."""

    def __init__(
        self,
        store: MessageStore,
        topic_provider: TopicProvider,
        delays: DelayLevels,
        locks: QueueLocks,
        clock: Clock,
        stats: Stats | None = None,
    ) -> None:
        self._stats = stats
        self._store = store
        self._room = Room(store.commit_log.segment_bytes)
        self._topic_provider = topic_provider
        self._delays = delays
        self._locks = locks
        self._clock = clock

    async def sent_back(self, request: SendMessageBack, group: GroupSettings, version: int) -> Put:
        """The message that a consumer sends back, as it is to be stored.

        ``version`` is the client's.

        Raises:
            RequestRejected: There is no such message, or its retry topic may not be written.
        """
        topic = await self._retry_topic(group)
        message = self._look_up(request.offset)
        if self._stats is not None:
            self._stats.sent_back(group.name, _origin(message))
        most = attempts_allowed(request.max_reconsume_times, version, group)
        if request.delay_level < 0:
            reason = "the consumer gave up on it"
        elif message.reconsume_times >= most:
            reason = f"failed attempts: {message.reconsume_times + 1} of {most + 1}"
        else:
            queue_id = self._topic_provider.any_queue(group.retry_queues)
            level = request.delay_level or self._level(group.retry_policy, message.reconsume_times)
            again = _copy(message, topic.name, queue_id, _kept(message))
            parked = self._room.fitted(self._delays.parked(again, level))
            if parked is not None:
                return parked
            reason = "its properties leave no room for a retry"
        await self.dead_letters(group.name)
        kept = _kept(message)
        kept[properties.DELAY] = "0"
        put = _copy(message, dlq_topic(group.name), 0, kept)
        return self._room.squeezed(
            explained(
                put,
                reason,
                topic=kept[properties.RETRY_TOPIC],
                message_id=kept[properties.ORIGIN_MESSAGE_ID],
            )
        )

    def gives_up(
        self, group: GroupSettings, reconsume_times: int, asked: int | None, version: int
    ) -> str | None:
        """Why a message that is sent to its group's retry topic is a dead letter, if it is one."""
        if self._locks.holds_any(group.name, self._clock.monotonic_ms()):
            # Whoever consumes in order tries on its own, and sends only what it has given up on.
            return "a consumer in order gave up on it"
        most = attempts_allowed(asked, version, group)
        if reconsume_times > most:
            return f"failed attempts: {reconsume_times} of {most + 1}"
        return None

    async def dead_letters(self, group: str) -> TopicSettings:
        """The topic of a group's dead letters, which is there from now on."""
        return await self._topic_provider.ensured(dlq_topic(group), queues=DLQ_QUEUES)

    async def _retry_topic(self, group: GroupSettings) -> TopicSettings:
        topic = await self._topic_provider.ensured(
            retry_topic(group.name), queues=group.retry_queues
        )
        if not topic.perm & Perm.WRITE:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"the topic[{topic.name}] sending message is forbidden: give it permission 6",
            )
        return topic

    def _look_up(self, offset: LogOffset) -> RecordView:
        try:
            message = RecordView(self._store.record_at(offset))
        except (StoreError, RecordError) as error:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}: {error}"
            ) from error
        if message.topic in _UNREAD:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"look message by offset failed, {offset}: no consumer can have read it",
            )
        return message

    def _level(self, policy: RetryPolicy, attempts: int) -> int:
        """The level of the next attempt, after so many retries."""
        listed = policy.customized
        if policy.type is RetryPolicyType.CUSTOMIZED and (
            listed is None or listed.delays == DELAYS_MS
        ):
            # The usual ladder is one of levels, whatever they are set to.
            return FIRST_LEVEL + attempts
        return self._delays.level_for(policy.delay_ms(attempts))


def begun_retries(group: str, topics: TopicTable, store: MessageStore) -> str | None:
    """The topic of a group's retries, once something was put there.

    A group has it to read even before it has a place there: its members may all have gone between
    the failure and the next attempt.
    """
    topic = topics.get(retry_topic(group))
    if topic is None:
        return None
    queues = range(max(topic.read_queues, topic.write_queues))
    return topic.name if any(store.max_offset(topic.name, one) for one in queues) else None


def attempts_allowed(asked: int | None, version: int, group: GroupSettings) -> int:
    """How many retries a message has: as many as its consumer says, else as its group has."""
    return group.max_retries if asked is None or version < COUNTING_VERSION else asked


def explained(put: Put, reason: str, *, topic: str | None, message_id: str | None) -> Put:
    """A dead letter that says why it is one, if there is room to say so."""
    added = {
        properties.DLQ_ORIGIN_TOPIC: topic,
        properties.DLQ_ORIGIN_MESSAGE_ID: message_id,
        properties.DLQ_REASON: reason,
    }
    text = properties.edited(put.properties, added)
    return put._replace(properties=text) if len(text) + SEAL_BYTES <= MAX_PROPERTIES_BYTES else put


def _kept(message: RecordView) -> dict[str, str]:
    """The properties that say where a message came from, however often it is sent back."""
    given = message.properties
    return {
        properties.RETRY_TOPIC: given.get(properties.RETRY_TOPIC) or message.topic,
        properties.ORIGIN_MESSAGE_ID: given.get(properties.ORIGIN_MESSAGE_ID) or message.offset_id,
        properties.WAIT: "false",
    }


def _copy(message: RecordView, topic: str, queue_id: int, changes: dict[str, str]) -> Put:
    """The message for another topic, once more to be consumed."""
    return Put.copy_of(
        message,
        topic=topic,
        queue_id=queue_id,
        properties=properties.edited(strip_mark(checksum.strip(message.raw_properties)), changes),
        reconsume_times=message.reconsume_times + 1,
    )


def _origin(message: RecordView) -> str:
    """The topic that a message was sent to at first."""
    return message.properties.get(properties.RETRY_TOPIC) or message.topic


def of_group(group: str, topic: str, sieve: Sieve) -> Choice:
    """What of a retry topic is a group's own.

    Names of the first form can be those of several groups, with a topic each, and that of what a
    group sends back. Messages without a mark were stored before there were marks.
    """
    if RetryKind.of(topic) is not RetryKind.RETRY_V1:
        return EVERYTHING

    def accepts(raw: bytes) -> bool:
        given = properties.decode_bytes(raw)
        origin = given.get(properties.ORIGIN_GROUP)
        if origin is not None:
            return origin == group
        return properties.FIRST_POP_TIME in given or properties.RETRY_TOPIC not in given

    return Choice(EVERYTHING.matches, Expression(accepts, 1, sieve))
