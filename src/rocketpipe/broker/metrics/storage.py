"""What is measured of a broker's store: its log, its disk, and what waits in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rocketpipe.broker.core import Core
from rocketpipe.errors import RecordError, StoreError
from rocketpipe.metrics import Family, Kind, single
from rocketpipe.record.codec import RecordView

#: What RocketMQ's brokers say of a log on their own disk.
_WHERE: Final = {"storage_type": "local", "storage_medium": "disk"}


def storage(core: Core, named: Mapping[str, str]) -> Iterator[Family]:
    """How much is kept, and how far the disk and the queues are behind."""
    store, where = core.store, {**named, **_WHERE}
    positions = store.positions
    for name, text, value in (
        (
            "rocketmq_storage_flush_behind_bytes",
            "Bytes of the log that are not on the disk yet.",
            positions.written - positions.durable,
        ),
        (
            "rocketmq_storage_dispatch_behind_bytes",
            "Bytes of the log that are not in queues yet.",
            store.behind_bytes,
        ),
        (
            "rocketmq_timing_messages",
            "Messages that wait for their moment, of all topics.",
            len(store.derived.timer),
        ),
    ):
        yield single(name, Kind.GAUGE, text, value, **where)
    oldest_ms = _oldest_ms(core)
    if oldest_ms is not None:
        yield single(
            "rocketmq_storage_message_reserve_time_milliseconds",
            Kind.GAUGE,
            "Milliseconds since the oldest message that is kept was stored.",
            max(core.clock.now_ms() - oldest_ms, 0),
            **where,
        )
    yield single(
        "rocketpipe_log_bytes",
        Kind.GAUGE,
        "Bytes of the log that are kept.",
        positions.written - store.first_offset,
        **named,
    )
    for name, text, value in (
        (
            "rocketpipe_damaged_records_total",
            "Records that were found damaged when they were read.",
            store.damaged.count,
        ),
        (
            "rocketpipe_repairs_total",
            "Queues and indexes that were found damaged, and are made anew from the log.",
            store.derived.repairs.found,
        ),
        (
            "rocketpipe_clock_corrections_total",
            "Times that the clock was found to have been ahead, so that store times went back.",
            store.times.corrections,
        ),
        (
            "rocketpipe_failed_puts_total",
            "Sends that the store did not take.",
            core.stats.failed_puts,
        ),
    ):
        yield single(name, Kind.COUNTER, text, value, **named)
    yield from _disk(core, named, where)


def _disk(core: Core, named: Mapping[str, str], where: Mapping[str, str]) -> Iterator[Family]:
    try:
        total, free = core.retention.room()
    except StoreError:
        return
    yield single(
        "rocketmq_storage_size_bytes",
        Kind.GAUGE,
        "Bytes that are used of the file system that the store is on.",
        total - free,
        **where,
    )
    for name, text, value in (
        ("rocketpipe_disk_bytes", "Bytes of the file system that the store is on.", total),
        ("rocketpipe_disk_free_bytes", "Bytes of it that are free.", free),
    ):
        yield single(name, Kind.GAUGE, text, value, **named)


def _oldest_ms(core: Core) -> int | None:
    """When the first record of the log was stored; None if it has none that can be read."""
    try:
        return RecordView(core.store.record_at(core.store.first_offset)).stored_ms
    except (StoreError, RecordError):
        return None
