"""How far groups are behind.

Lag is told for every topic that a group has a place in, or subscribes to, whoever it is: push
consumers, pull consumers and Spark's jobs alike. Where it has no place yet, all that is there is
still to be read. RocketMQ's names tell of a group and a topic, ours of each queue.

A queue whose next message is looked at costs a read of the log: of no more than `MAX_SERIES` pairs
of group and queue lag is told, and groups at the same place share what was read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice, repeat
from typing import Final, TypeAlias

from rocketpipe.broker.core import Core
from rocketpipe.broker.delivery.retry import begun_retries
from rocketpipe.broker.metrics.labels import is_system, truth
from rocketpipe.errors import RecordError, StoreError
from rocketpipe.metrics import MAX_SERIES, Family, Kind, Series
from rocketpipe.model.names import is_retry_topic, is_system_group, topic_of_pop_retry
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.subscription import ConsumeType, MessageModel
from rocketpipe.record.codec import RecordView
from rocketpipe.store.queues.entries import BLANK_SIZE, QUEUE_ENTRY

_SECOND_MS: Final = 1000
#: Stands for what is not measured, as it would not be told.
_UNTOLD: Final = Series(0, {})

#: Of places in queues: when the message there was stored, and where in the log it is.
_Read: TypeAlias = dict[tuple[str, int, int], tuple[int, int] | None]


class _QueueLag:
    """How far one group is behind in one queue."""

    seconds: float | None
    bytes: int | None

    __slots__ = ("bytes", "group", "messages", "queue_id", "seconds", "topic")

    def __init__(
        self, core: Core, group: str, topic: str, queue_id: int, place: int, read: _Read
    ) -> None:
        self.group, self.topic, self.queue_id = group, topic, queue_id
        store = core.store
        least, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        first = max(place, least)
        self.messages = max(end - first, 0)
        self.seconds, self.bytes = 0.0, 0
        if self.messages:
            self.seconds, self.bytes = self._measured(core, topic, queue_id, first, end, read)

    @staticmethod
    def _measured(
        core: Core, topic: str, queue_id: int, first: int, end: int, read: _Read
    ) -> tuple[float | None, int | None]:
        """Since when the next message waits, and how much of the log lies between it and the end.

        Other queues' messages lie between too, so the bytes are at most this many.
        """
        key = (topic, queue_id, first)
        if key not in read:
            read[key] = _stored(core, topic, queue_id, first)
        found, last = read[key], _entry(core, topic, queue_id, end - 1)
        if found is None or last is None:
            return None, None
        stored_ms, begin = found
        waited_ms = max(core.clock.now_ms() - stored_ms, 0)
        return waited_ms / _SECOND_MS, sum(last) - begin


def _entry(core: Core, topic: str, queue_id: int, offset: int) -> tuple[int, int] | None:
    """Where in the log the message at a place of a queue is, and its size; None if it is not."""
    try:
        entry = core.store.derived.queues.entries(topic, queue_id, QueueOffset(offset), 1)
        log_offset, size, _ = QUEUE_ENTRY.unpack(entry)
    except (StoreError, struct.error):
        return None
    return None if size == BLANK_SIZE else (log_offset, size)


def _stored(core: Core, topic: str, queue_id: int, offset: int) -> tuple[int, int] | None:
    entry = _entry(core, topic, queue_id, offset)
    if entry is None:
        return None
    try:
        record = core.store.record_at(LogOffset(entry[0]))
        return RecordView(record).stored_ms, entry[0]
    except (StoreError, RecordError):
        return None


def _places(core: Core) -> Iterator[tuple[str, str, int, int]]:
    """Group, topic, queue and place of all that groups have to read, whether they began or not.

    There may be a million of them: they are found as they are asked for.
    """
    offsets, connected = core.tables.offsets, core.connected
    for group, topic in offsets.pairs():
        if known := offsets.places(group, topic):  # or it was deleted meanwhile
            yield from _places_of(core, group, topic, known)
    for group in connected.consumer_groups():
        online = connected.consumer_group(group)
        if online is not None and online.model is MessageModel.CLUSTERING:
            for topic in online.subscriptions():
                if not offsets.places(group, topic):
                    yield from _places_of(core, group, topic, {})
    for group in core.tables.groups.all():
        if connected.consumer_group(group) is not None:
            continue
        retries = begun_retries(group, core.tables.topics, core.store)
        if retries and not offsets.places(group, retries):
            yield from _places_of(core, group, retries, {})


def _places_of(
    core: Core, group: str, topic: str, known: Mapping[int, int]
) -> Iterator[tuple[str, str, int, int]]:
    settings = core.tables.topics.get(topic)
    if settings is not None and not is_system_group(group):
        for queue_id in sorted({*known, *range(settings.read_queues)}):
            yield group, topic, queue_id, known.get(queue_id, 0)


class _TopicLag:
    """How far one group is behind in all queues of a topic."""

    __slots__ = ("in_flight", "messages", "seconds")

    def __init__(self) -> None:
        self.messages = 0
        #: Of the message that waits longest; None if that of some queue is not known.
        self.seconds: float | None = 0.0
        #: What it popped and did not acknowledge; None if it does not pop, or that is not known.
        self.in_flight: int | None = None

    def add(self, queue: _QueueLag) -> None:
        self.messages += queue.messages
        if self.seconds is not None:
            self.seconds = None if queue.seconds is None else max(self.seconds, queue.seconds)


def lag(core: Core, named: Mapping[str, str]) -> Iterator[Family]:
    """What groups have still to read, by queue and by topic."""
    read = _Read()
    behind: list[_QueueLag] = []

    def measured() -> Iterator[_QueueLag]:
        # As the first family is told: whoever tells it has other things to do in between.
        for place in islice(_places(core), MAX_SERIES):
            behind.append(_QueueLag(core, *place, read))
            yield behind[-1]

    def untold() -> Iterator[Series]:
        # To count them would be to walk them all.
        beyond = len(core.tables.offsets) - MAX_SERIES if len(behind) >= MAX_SERIES else 0
        yield from repeat(_UNTOLD, max(beyond, 0))

    def family(name: str, text: str, value: Callable[[_QueueLag], float | None]) -> Family:
        told = (
            Series(
                number,
                {
                    **named,
                    "consumer_group": each.group,
                    "topic": each.topic,
                    "queue": str(each.queue_id),
                },
            )
            for each in behind or measured()
            if (number := value(each)) is not None
        )
        return Family(name, Kind.GAUGE, text, chain(told, untold()))

    yield family(
        "rocketpipe_consumer_lag_messages",
        "Messages that a group has still to read of a queue.",
        lambda each: each.messages,
    )
    yield family(
        "rocketpipe_consumer_lag_seconds",
        "Seconds since the next message of a group was stored.",
        lambda each: each.seconds,
    )
    yield family(
        "rocketpipe_consumer_lag_bytes",
        "Bytes of the log from the next message of a group to the last, at most.",
        lambda each: each.bytes,
    )
    yield from _by_topic(core, named, behind)


def _by_topic(core: Core, named: Mapping[str, str], behind: list[_QueueLag]) -> Iterator[Family]:
    topics = _summed(core, behind)

    def family(name: str, text: str, value: Callable[[_TopicLag], float | None]) -> Family:
        told = (
            Series(number, {**named, **_labels(group, topic)})
            for (group, topic), each in topics.items()
            if (number := value(each)) is not None
        )
        return Family(name, Kind.GAUGE, text, told)

    yield family(
        "rocketmq_consumer_lag_messages",
        "Messages that a group has still to consume of a topic, those in its hands included.",
        lambda each: each.messages + (each.in_flight or 0),
    )
    yield family(
        "rocketmq_consumer_lag_latency_milliseconds",
        "Milliseconds since the next message of a group was stored.",
        lambda each: each.seconds and each.seconds * _SECOND_MS,
    )
    yield family(
        "rocketmq_consumer_ready_messages",
        "Messages that a group that pops was not given yet.",
        lambda each: each.messages if each.in_flight is not None else None,
    )
    yield family(
        "rocketmq_consumer_inflight_messages",
        "Messages that a group popped and did not acknowledge.",
        lambda each: each.in_flight,
    )
    yield family(
        "rocketmq_consumer_queueing_latency_milliseconds",
        "Milliseconds since the next message that a group that pops was not given was stored.",
        lambda each: (
            each.seconds and each.seconds * _SECOND_MS if each.in_flight is not None else None
        ),
    )


def _summed(core: Core, behind: list[_QueueLag]) -> dict[tuple[str, str], _TopicLag]:
    found: dict[tuple[str, str], _TopicLag] = {}
    for queue in behind:
        found.setdefault((queue.group, queue.topic), _TopicLag()).add(queue)
    for count in core.in_flight:
        flights = count()
        if flights is None:
            continue
        for (group, topic), each in found.items():
            online = core.connected.consumer_group(group)
            pops = online is not None and online.consume_type is ConsumeType.CONSUME_POP
            if pops or (group, topic) in flights:
                each.in_flight = flights.get((group, topic), 0)
    return found


def _labels(group: str, topic: str) -> dict[str, str]:
    origin = topic_of_pop_retry(topic, group)
    return {
        "consumer_group": group,
        "topic": origin,
        "is_retry": truth(is_retry_topic(topic)),
        "is_system": is_system(origin, group),
    }
