"""What a broker measures, by RocketMQ's names where it has one and by ours where it has none.

Lag is told for each queue that a group has a place in, whoever the group is: push consumers, pull
consumers and Spark's jobs alike. What cannot be found out is left out, never told as zero.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from rocketpipe.broker.core import Core
from rocketpipe.errors import RecordError, StoreError
from rocketpipe.metrics import Family, Kind, Series, single
from rocketpipe.model.names import is_system_group
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView
from rocketpipe.store.hot import BLANK_SIZE, QUEUE_ENTRY
from rocketpipe.store.message_store import StoreState

_SECOND_MS: Final = 1000


def problem_of(core: Core) -> str | None:
    """What keeps a broker from its work, if something does."""
    if core.store.state is StoreState.RUNNING:
        return None
    reason = core.store.health.reason
    return f"broker {core.config.name!r}: the store is {core.store.state.name.lower()}: {reason}"


def families(core: Core) -> Iterator[Family]:
    """Everything that a broker measures now."""
    yield from _traffic(core)
    yield from _storage(core)
    yield from _connections(core)
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
        ("rocketpipe_waiting_sends", "Sends that wait for the disk.", core.durability.waiting),
    ):
        yield single(name, Kind.GAUGE, text, value, **named)
    yield Family(
        "rocketmq_consumer_connections",
        Kind.GAUGE,
        "Consumers connected.",
        (Series(size, {**named, "consumer_group": group}) for group, size in consumers),
    )


class _QueueLag:
    """How far one group is behind in one queue."""

    __slots__ = ("bytes", "labels", "messages", "seconds")

    def __init__(self, core: Core, group: str, topic: str, queue_id: int, place: int) -> None:
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
            self.seconds, self.bytes = self._measured(core, topic, queue_id, first, end)

    @staticmethod
    def _measured(
        core: Core, topic: str, queue_id: int, first: int, end: int
    ) -> tuple[float | None, int | None]:
        """Since when the next message waits, and how much of the log lies between it and the end.

        Other queues' messages lie between too, so the bytes are at most this many.
        """
        queues = core.store.derived.queues
        places = []
        try:
            for offset in (first, end - 1):
                entry = queues.entries(topic, queue_id, QueueOffset(offset), 1)
                log_offset, size, _ = QUEUE_ENTRY.unpack(entry)
                if size == BLANK_SIZE:
                    return None, None
                places.append((log_offset, size))
            stored_ms = RecordView(core.store.record_at(LogOffset(places[0][0]))).stored_ms
        except (StoreError, RecordError, struct.error):
            return None, None
        (begin, _), (last, size) = places
        waited_ms = max(core.clock.now_ms() - stored_ms, 0)
        return waited_ms / _SECOND_MS, last + size - begin


def _lag(core: Core) -> Iterator[Family]:
    queues = {(topic, queue_id) for topic, queue_id in core.store.queues()}
    behind = [
        _QueueLag(core, group, topic, queue_id, place)
        for group, topic, queue_id, place in core.tables.offsets.all()
        if (topic, queue_id) in queues and not is_system_group(group)
    ]
    yield Family(
        "rocketmq_consumer_lag_messages",
        Kind.GAUGE,
        "Messages that a group has still to read.",
        (Series(each.messages, each.labels) for each in behind),
    )
    yield Family(
        "rocketmq_consumer_lag_latency",
        Kind.GAUGE,
        "Milliseconds since the next message of a group was stored.",
        _known((each.seconds and each.seconds * _SECOND_MS, each.labels) for each in behind),
    )
    yield Family(
        "rocketpipe_consumer_lag_seconds",
        Kind.GAUGE,
        "Seconds since the next message of a group was stored.",
        _known((each.seconds, each.labels) for each in behind),
    )
    yield Family(
        "rocketpipe_consumer_lag_bytes",
        Kind.GAUGE,
        "Bytes of the log from the next message of a group to the last, at most.",
        _known((each.bytes, each.labels) for each in behind),
    )


def _known(numbers: Iterable[tuple[float | None, dict[str, str]]]) -> Iterator[Series]:
    return (Series(value, labels) for value, labels in numbers if value is not None)


def _labels(core: Core) -> dict[str, str]:
    return {"cluster": core.config.cluster, "node_type": "broker", "node_id": core.config.name}
