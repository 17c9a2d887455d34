"""What a broker measures, by RocketMQ's names where it has one and by ours where it has none.

Lag is told for every queue of a topic that a group has a place in, or subscribes to, whoever it is:
push consumers, pull consumers and Spark's jobs alike. Where it has no place yet, all that is there
is still to be read. What cannot be found out is left out, never told as zero.

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
from rocketpipe.broker.replication.status import ReplicationStatus
from rocketpipe.errors import RecordError, StoreError
from rocketpipe.metrics import MAX_SERIES, Family, Kind, Series, single
from rocketpipe.model.names import is_system_group
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.subscription import MessageModel
from rocketpipe.record.codec import RecordView
from rocketpipe.store.queues.entries import BLANK_SIZE, QUEUE_ENTRY
from rocketpipe.store.state.health import StoreState

_SECOND_MS: Final = 1000
#: Stands for what is not measured, as it would not be told.
_UNTOLD: Final = Series(0, {})

#: Of places in queues: when the message there was stored, and where in the log it is.
_Read: TypeAlias = dict[tuple[str, int, int], tuple[int, int] | None]


def problem_of(core: Core) -> str | None:
    """What keeps a broker from its work, if something does."""
    if core.store.state is StoreState.RUNNING:
        following = core.group.status().following if core.config.replication is not None else None
        if following is None or following.refused is None:
            return None
        return f"broker {core.config.name!r}: it cannot follow: {following.refused}"
    reason = core.store.health.reason
    return f"broker {core.config.name!r}: the store is {core.store.state.name.lower()}: {reason}"


def end_of(core: Core) -> str | None:
    """Why a broker is not to go on: its store failed, and it was told to end then."""
    failure = core.store.health.failure
    if failure is None or not core.config.exit_on_store_failure:
        return None
    return f"broker {core.config.name!r}: {failure} (exitOnStoreFailure)"


def families(core: Core) -> Iterator[Family]:
    """Everything that a broker measures now."""
    if core.store.state is StoreState.CLOSED:
        return  # a replica's, whose log is being changed
    yield from _traffic(core)
    yield from _storage(core)
    yield from _connections(core)
    if core.config.replication is not None:
        yield from replication(core.group.status(), _labels(core))
    yield from _lag(core)


def _traffic(core: Core) -> Iterator[Family]:
    named = _labels(core)
    stored = list(core.stats.by_topic())
    given = list(core.stats.by_group())
    for name, text, is_count in (
        ("rocketmq_messages_in_total", "Messages stored.", True),
        ("rocketmq_throughput_in_total", "Bytes stored.", False),
    ):
        yield Family(
            name,
            Kind.COUNTER,
            text,
            (
                Series(tally.count if is_count else tally.bytes, {**named, "topic": topic})
                for topic, tally in stored
            ),
        )
    for name, text, is_count in (
        ("rocketmq_messages_out_total", "Messages given to groups.", True),
        ("rocketmq_throughput_out_total", "Bytes given to groups.", False),
    ):
        yield Family(
            name,
            Kind.COUNTER,
            text,
            (
                Series(
                    tally.count if is_count else tally.bytes,
                    {**named, "topic": topic, "consumer_group": group},
                )
                for topic, group, tally in given
            ),
        )
    yield single(
        "rocketpipe_clock_corrections_total",
        Kind.COUNTER,
        "Times that the clock was found to have been ahead, so that store times went back.",
        core.store.times.corrections,
        **named,
    )
    yield single(
        "rocketpipe_failed_puts_total",
        Kind.COUNTER,
        "Sends that the store did not take.",
        core.stats.failed_puts,
        **named,
    )


def _storage(core: Core) -> Iterator[Family]:
    named, store = _labels(core), core.store
    positions = store.positions
    yield single(
        "rocketmq_storage_size",
        Kind.GAUGE,
        "Bytes of the log that are kept.",
        positions.written - store.first_offset,
        **named,
    )
    yield single(
        "rocketmq_storage_flush_behind_bytes",
        Kind.GAUGE,
        "Bytes of the log that are not on the disk yet.",
        positions.written - positions.durable,
        **named,
    )
    yield single(
        "rocketmq_storage_dispatch_behind_bytes",
        Kind.GAUGE,
        "Bytes of the log that are not in queues yet.",
        store.behind_bytes,
        **named,
    )
    yield single(
        "rocketmq_timing_messages",
        Kind.GAUGE,
        "Messages that wait for their moment.",
        len(store.derived.timer),
        **named,
    )
    yield single(
        "rocketpipe_damaged_records_total",
        Kind.COUNTER,
        "Records that were found damaged when they were read.",
        store.damaged.count,
        **named,
    )
    yield single(
        "rocketpipe_repairs_total",
        Kind.COUNTER,
        "Queues and indexes that were found damaged, and are made anew from the log.",
        store.derived.repairs.found,
        **named,
    )
    try:
        total, free = core.retention.room()
    except StoreError:
        return
    for name, text, value in (
        ("rocketpipe_disk_bytes", "Bytes of the file system that the store is on.", total),
        ("rocketpipe_disk_free_bytes", "Bytes of it that are free.", free),
    ):
        yield single(name, Kind.GAUGE, text, value, **named)


def _connections(core: Core) -> Iterator[Family]:
    named, tables, connected = _labels(core), core.tables, core.connected
    consumers = [(group, connected.size(group)) for group in connected.consumer_groups()]
    producers = sum(len(members) for members in connected.producers_by_group().values())
    for name, text, value in (
        ("rocketmq_broker_permission", "4 may be read, 2 written.", core.settings.now.permission),
        ("rocketmq_topic_number", "Topics.", len(tables.topics.all())),
        ("rocketmq_consumer_group_number", "Groups with settings.", len(tables.groups.all())),
        ("rocketmq_producer_connections", "Producers connected.", producers),
        ("rocketpipe_waiting_pulls", "Pulls that wait for a message.", len(core.waiting)),
        ("rocketpipe_waiting_sends", "Sends that wait for the disk.", core.visibility.waiting),
    ):
        yield single(name, Kind.GAUGE, text, value, **named)
    yield Family(
        "rocketmq_consumer_connections",
        Kind.GAUGE,
        "Consumers connected.",
        (Series(size, {**named, "consumer_group": group}) for group, size in consumers),
    )


def replication(status: ReplicationStatus, named: Mapping[str, str]) -> Iterator[Family]:
    """How a broker stands among its replicas; ``named`` are the labels that all have."""
    yield single(
        "rocketpipe_replication_role",
        Kind.GAUGE,
        "1, with the role that this broker has in its group.",
        1,
        **named,
        role=status.role,
    )
    told = [
        ("epoch", "Epoch of the leader that this broker follows, or is.", status.epoch),
        ("confirm_offset", "Up to where the log counts.", status.confirmed),
    ]
    if status.leads:
        told.append(("in_sync", "Copies in sync, the leader's included.", len(status.in_sync)))
        told.append(("min_in_sync", "With fewer, sends are refused.", status.min_in_sync))
    elif status.following is not None:
        behind = max(0, status.following.leader_end - status.log_end)
        told.append(("behind_bytes", "Bytes that this follower has yet to get.", behind))
        connected = int(status.following.connected)
        told.append(("connected", "1 while this follower is connected to its leader.", connected))
    for name, text, value in told:
        yield single(f"rocketpipe_replication_{name}", Kind.GAUGE, text, value, **named)
    if not status.leads:
        return
    yield Family(
        "rocketpipe_replication_follower_lag_bytes",
        Kind.GAUGE,
        "Bytes that a follower has yet to get, as its leader sees it.",
        (
            Series(
                each.lag,
                {
                    **named,
                    "follower": each.address if each.id is None else str(each.id),
                    "in_sync": str(each.in_sync).lower(),
                },
            )
            for each in status.followers
        ),
    )


class _QueueLag:
    """How far one group is behind in one queue."""

    __slots__ = ("bytes", "labels", "messages", "seconds")

    def __init__(
        self, core: Core, group: str, topic: str, queue_id: int, place: int, read: _Read
    ) -> None:
        self.labels = {
            **_labels(core),
            "consumer_group": group,
            "topic": topic,
            "queue": str(queue_id),
        }
        store = core.store
        least, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        first = max(place, least)
        self.messages = max(end - first, 0)
        self.seconds: float | None = 0.0
        self.bytes: int | None = 0
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


def _lag(core: Core) -> Iterator[Family]:
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
            Series(number, each.labels)
            for each in behind or measured()
            if (number := value(each)) is not None
        )
        return Family(name, Kind.GAUGE, text, chain(told, untold()))

    yield family(
        "rocketmq_consumer_lag_messages",
        "Messages that a group has still to read.",
        lambda each: each.messages,
    )
    yield family(
        "rocketmq_consumer_lag_latency",
        "Milliseconds since the next message of a group was stored.",
        lambda each: each.seconds and each.seconds * _SECOND_MS,
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


def _labels(core: Core) -> dict[str, str]:
    return {"cluster": core.config.cluster, "node_type": "broker", "node_id": core.config.name}
