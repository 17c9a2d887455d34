"""What is told of messages that wait for their moment, under RocketMQ's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rocketpipe.broker.core import Core
from rocketpipe.clock import Clock
from rocketpipe.errors import RecordError, StoreError
from rocketpipe.metrics import Distribution, Family, Kind, Series, single
from rocketpipe.model.properties import read_text
from rocketpipe.record.codec import RecordView
from rocketpipe.store.log.records import value_of
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.timers.entry import is_number

#: Messages that are due within these many seconds, and not within those before, are told together.
DUE_WITHIN_S: Final = (5, 60, 300, 900, 3600, 14_400, 28_800, 86_400)
_WHERE: Final = {"storage_type": "local", "storage_medium": "disk"}


def count_waiting(core: Core, properties: bytes, stored_ms: int) -> None:
    """Count a record of the timer topic that puts a message to wait for the first time."""
    again = b"TIMER_DEL_UNIQKEY\x01", b"TIMER_ROLL_TIMES\x01"
    due = value_of(properties, b"TIMER_OUT_MS\x01")
    if not is_number(due) or any(value_of(properties, name) for name in again):
        return
    topic = read_text(value_of(properties, b"REAL_TOPIC\x01"))
    core.stats.counts.timed(topic, int(due) - stored_ms)


def families(core: Core, named: Mapping[str, str]) -> Iterator[Family]:
    """What waits, how far that is behind, and what was put to wait and delivered."""
    where = {**named, **_WHERE}
    yield from _behind(core.store, core.clock, where)
    delays = [(spread, {**where, "topic": topic}) for topic, spread in core.stats.counts.delays()]
    yield Family(
        "rocketmq_timer_enqueue_total",
        Kind.COUNTER,
        "Messages that were put to wait for their moment.",
        (Series(sum(spread.counts), labels) for spread, labels in delays),
    )
    yield Family(
        "rocketmq_timer_dequeue_total",
        Kind.COUNTER,
        "Messages that were delivered as their moment had come.",
        (Series(n, {**where, "topic": topic}) for topic, n in core.stats.counts.deliveries()),
    )
    yield Family(
        "rocketmq_delay_message_latency_seconds",
        Kind.HISTOGRAM,
        "Seconds that messages were put to wait.",
        (
            Distribution(spread.bounds, spread.counts, spread.total, labels)
            for spread, labels in delays
        ),
    )


def _behind(store: MessageStore, clock: Clock, where: Mapping[str, str]) -> Iterator[Family]:
    wheel, now_ms = store.derived.timer, clock.now_ms()
    waits_ms = _not_seen_ms(store, now_ms)
    if waits_ms == 0:  # else how many of what is not dispatched are to wait is not known
        text = "Messages to wait that are stored, and that the timer does not know of yet."
        yield single("rocketmq_timer_enqueue_lag", Kind.GAUGE, text, 0, **where)
    if waits_ms is not None:
        yield single(
            "rocketmq_timer_enqueue_latency_milliseconds",
            Kind.GAUGE,
            "Milliseconds since the oldest record was stored that the timer does not know of yet.",
            waits_ms,
            **where,
        )
    text = "Messages that wait for their moment, or are due and not delivered yet."
    yield single("rocketmq_timer_dequeue_lag", Kind.GAUGE, text, len(wheel), **where)
    try:
        late_ms = now_ms - wheel.delivered_to_ms(now_ms)
        bounds = [0, *(now_ms + 1000 * each for each in DUE_WITHIN_S)]
        counts = wheel.within(bounds)
    except StoreError:
        return
    yield single(
        "rocketmq_timer_dequeue_latency_milliseconds",
        Kind.GAUGE,
        "Milliseconds since the moment of the message that is overdue for longest.",
        late_ms,
        **where,
    )
    yield Family(
        "rocketmq_timer_message_snapshot",
        Kind.GAUGE,
        "Messages that are due within so many seconds, and not within the bound before.",
        (
            Series(n, {**where, "timer_bound_s": str(bound)})
            for n, bound in zip(counts, DUE_WITHIN_S, strict=True)
        ),
    )


def _not_seen_ms(store: MessageStore, now_ms: int) -> int | None:
    """How long the oldest record waits to be dispatched; None if that cannot be found out."""
    positions = store.positions
    if positions.dispatched >= positions.written:
        return 0
    try:
        return max(0, now_ms - RecordView(store.record_at(positions.dispatched)).stored_ms)
    except (StoreError, RecordError):
        return None
