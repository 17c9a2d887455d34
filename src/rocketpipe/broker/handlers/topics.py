"""Answers about topics: created, changed, deleted, listed and measured."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import BodyError, InvalidName, RequestRejected, StoreError
from rocketpipe.model.names import check_topic, pop_retry_topic, pop_retry_topic_v2
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.topic import (
    MAX_QUEUES,
    DataVersion,
    MessageType,
    Perm,
    TopicSettings,
    new_attributes,
)
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.routes import TopicNames, TopicNamesReply
from rocketpipe.protocol.requests.topics import (
    AllTopicsReply,
    DeleteTopic,
    GetAllTopicConfig,
    GetBrokerSystemTopics,
    GetTopicConfig,
    GetTopicStats,
    QueueRange,
    TopicDetails,
    TopicDetailsReply,
    TopicStats,
    TopicStatsReply,
    TopicTablePage,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
)
from rocketpipe.record.codec import view_records
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

#: As many as RocketMQ's brokers give at once to those who ask for pages.
PAGE: Final = 2000

_QUEUES_A_TURN: Final = 64
_ALL_BITS: Final = int(Perm.INHERIT | Perm.WRITE | Perm.READ | Perm.PRIORITY)


T = TypeVar("T")


class TopicHandlers:
    """Keeps topics, and tells the NameServers when they change."""

    def __init__(
        self,
        topics: TopicTable,
        offsets: OffsetTable,
        registrar: Registrar,
        clock: Clock,
        forget_queues: Callable[[str], Awaitable[None]],
        *,
        settled: Callable[[], Awaitable[None]] | None = None,
        log_ends: Callable[[], tuple[int, int]] = lambda: (0, 0),
        admit: Callable[[], None] = lambda: None,
    ) -> None:
        """Take what has the store forget the queues of a topic: it may raise StoreError.

        ``settled`` waits until the topics are on disk, ``log_ends`` tells where the log begins and
        ends; ``admit`` refuses a change that could not be settled, before it is made.
        """
        self._admit = admit
        self._settled = settled
        self._log_ends = log_ends
        self._deleting: set[asyncio.Task[None]] = set()
        self._topics = topics
        self._offsets = offsets
        self._registrar = registrar
        self._clock = clock
        self._forget_queues = forget_queues

    @handles(UpdateAndCreateTopic)
    async def update(self, request: UpdateAndCreateTopic, call: Call) -> None:
        settings = TopicSettings(
            name=request.topic,
            read_queues=request.read_queue_nums,
            write_queues=request.write_queue_nums,
            perm=request.perm,
            filter_type=request.topic_filter_type,
            sys_flag=request.topic_sys_flag,
            ordered=request.order,
        )
        await self._update([self._wanted(settings, request.attributes or "")])

    @handles(UpdateAndCreateTopicList)
    async def update_many(self, request: UpdateAndCreateTopicList, call: Call) -> None:
        """All of them are checked before the first is changed."""
        await self._update(
            [
                self._wanted(settings, _attribute_change(settings.attributes))
                for settings in request.wanted.topics
            ]
        )

    @handles(DeleteTopic)
    async def delete(self, request: DeleteTopic, call: Call) -> None:
        """Nobody sees its messages again; the log lets them go in its own time."""
        topic = request.topic
        if not topic.strip():
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        self._refuse_system(topic)
        self._admit()
        groups = self._offsets.groups_of(topic)
        popped = {
            retry
            for group in groups
            for retry in (pop_retry_topic(topic, group), pop_retry_topic_v2(topic, group))
            if self._topics.get(retry) is not None
        }
        # Whoever asks may go away meanwhile: what was begun is finished.
        work = asyncio.ensure_future(self._delete((topic, *sorted(popped))))
        self._deleting.add(work)
        work.add_done_callback(self._deleted)
        await asyncio.shield(work)

    async def finish(self) -> None:
        """Wait until what is being deleted is."""
        if self._deleting:
            await asyncio.wait(self._deleting)

    async def _delete(self, names: Sequence[str]) -> None:
        """Say in the table what is to be deleted, then do it: after a kill a start goes on."""
        for name in names:
            self._topics.begin_delete(name, self._clock.now_ms())
        if self._settled is not None:
            await self._settled()
        for name in names:
            # Up to where its queues are gone nothing is awaited, and until that is durable no topic
            # of its name is made: a kill would mix the queues of both.
            first, end = self._log_ends()
            self._topics.delete(name, self._clock.now_ms(), end)
            self._topics.forget_deleted(first)
            self._offsets.forget_topic(name)
            try:
                with self._topics.kept_unmade(name):
                    await self._forget_queues(name)
            except StoreError as error:
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR,
                    f"topic[{name}] is deleted, but its queues are not; delete it again: {error}",
                ) from error
        await self._registrar.register()

    def _deleted(self, work: asyncio.Task[None]) -> None:
        self._deleting.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            log.warning("topic is not wholly deleted, and the next start does the rest: %s", error)

    @handles(GetAllTopicConfig)
    async def all(self, request: GetAllTopicConfig, call: Call) -> AllTopicsReply:
        topics = self._topics.all()
        shown = page_of(
            topics,
            self._topics.version,
            request.topic_seq,
            request.data_version,
            request.max_topic_num,
        )
        return AllTopicsReply(
            total_topic_num=len(topics),
            table=TopicTablePage(topics=shown, version=self._topics.version),
        )

    @handles(GetTopicConfig)
    async def one(self, request: GetTopicConfig, call: Call) -> TopicDetailsReply:
        found = self._topics.get(request.topic)
        if found is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic in this broker. topic: {request.topic}",
            )
        return TopicDetailsReply(details=TopicDetails(**msgspec.structs.asdict(found)))

    @handles(GetBrokerSystemTopics)
    async def own(self, request: GetBrokerSystemTopics, call: Call) -> TopicNamesReply:
        return TopicNamesReply(names=TopicNames(topics=frozenset(self._topics.system_topics())))

    async def _update(self, wanted: Iterable[TopicSettings]) -> None:
        self._admit()
        now_ms = self._clock.now_ms()
        changed = [each.name for each in wanted if self._topics.update(each, now_ms)]
        if changed:
            await self._registrar.register(changed=changed)

    def _wanted(self, settings: TopicSettings, change: str) -> TopicSettings:
        """What a topic will be after a change, if it may become that."""
        try:
            check_topic(settings.name)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        self._refuse_system(settings.name)
        for what, number, most in (
            ("readQueueNums", settings.read_queues, MAX_QUEUES),
            ("writeQueueNums", settings.write_queues, MAX_QUEUES),
            ("perm", settings.perm, _ALL_BITS),
        ):
            if not 0 <= number <= most:
                raise RequestRejected(
                    ResponseCode.INVALID_PARAMETER, f"{what} is from 0 to {most}, not {number}"
                )
        known = self._topics.get(settings.name)
        try:
            attributes = known.altered(change) if known else new_attributes(change)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        after = msgspec.structs.replace(settings, attributes=attributes)
        if after.message_type is MessageType.MIXED and (
            known is None or known.message_type is not MessageType.MIXED
        ):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported."
            )
        return after

    def _refuse_system(self, topic: str) -> None:
        if self._topics.is_system(topic):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"The topic[{topic}] is conflict with system topic.",
            )


class TopicStatsHandlers:
    """Tells how much the queues of a topic hold."""

    def __init__(
        self,
        topics: TopicTable,
        store: MessageStore,
        broker_name: str,
        put_rate: Callable[[str], float] | None = None,
    ) -> None:
        """``put_rate`` tells how many messages of a topic come in a second."""
        self._put_rate = put_rate
        self._topics = topics
        self._store = store
        self._broker_name = broker_name

    @handles(GetTopicStats)
    async def stats(self, request: GetTopicStats, call: Call) -> TopicStatsReply:
        """Every queue is told of, one that never had a message too: tools wait for that."""
        topic = request.topic
        found = self._topics.get(topic)
        if found is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        queues: dict[MessageQueue, QueueRange] = {}
        for queue_id in range(max(found.read_queues, found.write_queues)):
            queue = MessageQueue(topic=topic, broker_name=self._broker_name, queue_id=queue_id)
            queues[queue] = self._range(topic, queue_id)
            if queue_id % _QUEUES_A_TURN == 0:
                await asyncio.sleep(0)
        rate = None if self._put_rate is None else self._put_rate(topic)
        return TopicStatsReply(stats=TopicStats(queues=queues, put_tps=rate))

    def _range(self, topic: str, queue_id: int) -> QueueRange:
        low = self._store.min_offset(topic, queue_id)
        high = self._store.max_offset(topic, queue_id)
        stored_ms = None
        if low < high:
            try:
                last = self._store.read(topic, queue_id, QueueOffset(high - 1), max_count=1)
                stored_ms = next((record.stored_ms for record in view_records(last.records)), None)
            except StoreError:
                pass  # when it was stored is not known then; where it stands is
        return QueueRange(min_offset=low, max_offset=high, last_update_timestamp=stored_ms)


def page_of(
    table: Mapping[str, T],
    version: DataVersion,
    first: int | None,
    version_before: str | None,
    most: int | None,
) -> dict[str, T]:
    """Give the part of a table that is asked for, in the order of names.

    All of it, if nothing says which part. Whoever has pages of another version begins again.
    """
    names = sorted(table)
    if first is None and version_before is None and most is None:
        return {name: table[name] for name in names}
    if not version_before or _read_version(version_before) != version:
        first = 0
    begin = max(first or 0, 0)
    count = PAGE if most is None else max(0, min(most, PAGE))
    return {name: table[name] for name in names[begin : begin + count]}


def _read_version(text: str) -> DataVersion | None:
    try:
        return fastjson.read(text.encode(), DataVersion)
    except (BodyError, UnicodeEncodeError):
        return None


def _attribute_change(attributes: Mapping[str, str]) -> str:
    """Write a map of changes as tools do in a header: ``+name=value,-name``."""
    return ",".join(
        name if name.startswith("-") else f"{name}={value}" for name, value in attributes.items()
    )
