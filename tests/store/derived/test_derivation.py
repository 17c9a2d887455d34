from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from tests.twins import WAYS, each_way

from rocketpipe.model.flags import Transaction
from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.derived.derivation import (
    Derivation,
    derive,
    derive_bytes,
    is_indexed,
    is_queued,
    queue_code,
)
from rocketpipe.store.index.entries import INDEX_KEY, INDEX_KEY_BYTES, key_hash
from rocketpipe.store.log.appender import Appender
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.store.queues.entries import QUEUE_ENTRY

TAG_A = 2598919
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
TAGGED = b"TAGS\x01TagA\x02"


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__]):
        yield


def record(
    at: int,
    offset: int = 0,
    *,
    topic: str = "orders",
    queue_id: int = 0,
    flags: int = 0,
    properties: bytes = TAGGED,
) -> Appended:
    place = (LogOffset(at), 90, QueueOffset(offset), 1000 + at)
    return Appended(*place, topic, queue_id, flags, properties)


def derived(*records: Appended, tags: bool = False) -> Derivation:
    return derive(records, (1000, 5000), tags)


def runs(result: Derivation) -> list[tuple[str, int, int, list[tuple[int, ...]]]]:
    return [
        (run.topic, run.queue_id, run.first, list(QUEUE_ENTRY.iter_unpack(run.entries)))
        for run in result.runs
    ]


def test_entries_of_a_queue_come_together() -> None:
    result = derived(record(0, 4), record(100, 0, queue_id=1), record(200, 5))
    assert runs(result) == [
        ("orders", 0, 4, [(0, 90, TAG_A), (200, 90, TAG_A)]),
        ("orders", 1, 0, [(100, 90, TAG_A)]),
    ]
    assert [run.log_offset for run in result.runs] == [0, 100]


def test_a_gap_in_a_queue_begins_another_run() -> None:
    result = derived(record(0, 4), record(100, 6), record(200, 7))
    assert [(run.first, run.next) for run in result.runs] == [(4, 5), (6, 8)]


@pytest.mark.parametrize(
    ("state", "queued", "indexed"),
    [
        (Transaction.NONE, True, True),
        (Transaction.PREPARED, False, True),
        (Transaction.COMMITTED, True, True),
        (Transaction.ROLLED_BACK, False, False),
    ],
)
def test_what_follows_from_parts_of_a_transaction(
    state: Transaction, queued: bool, indexed: bool
) -> None:
    result = derived(record(0, flags=int(state), properties=b"KEYS\x01k\x02"))
    assert len(result.runs) == len(result.arrivals) == queued
    assert len(result.keys) == INDEX_KEY_BYTES * indexed
    assert (is_queued(int(state)), is_indexed(int(state))) == (queued, indexed)


def test_keys_come_in_log_order_with_the_unique_one_first() -> None:
    both = b"KEYS\x01b a\x02UNIQ_KEY\x01U\x02TAGS\x01t\x02"
    result = derived(record(0, properties=both), record(100, 1), tags=True)
    assert list(INDEX_KEY.iter_unpack(result.keys)) == [
        *((key_hash("orders", key), 0, 1000) for key in ("U", "b", "a", "T#t")),
        (key_hash("orders", "T#TagA"), 100, 1100),
    ]
    assert derived(record(0), record(100, 1)).keys == b""


def test_the_timer_is_told_of_its_own_topic_and_of_deliveries() -> None:
    waiting = record(0, topic=TIMER_TOPIC)
    delivered = record(200, properties=b"TIMER_DEQUEUE_MS\x019\x02")
    assert derived(waiting, record(100), delivered).timed == [waiting, delivered]


def test_a_scheduled_message_has_its_due_time_for_a_code() -> None:
    delayed = TAGGED + b"DELAY\x012\x02"
    result = derived(record(0, topic=SCHEDULE_TOPIC, properties=delayed), record(100))
    assert [arrival[3] for arrival in result.arrivals] == [1000 + 5000, TAG_A]
    assert queue_code(SCHEDULE_TOPIC, TAGGED, 1000, (1000,)) == TAG_A
    assert queue_code(SCHEDULE_TOPIC, delayed, 1000, ()) == TAG_A


def test_an_arrival_has_what_a_waiting_reader_asks_for() -> None:
    assert derived(record(100, 3)).arrivals == [("orders", 0, 3, TAG_A, 1100, TAGGED)]


def encoded(at: int, *, seal: bool = True) -> tuple[bytes, list[Appended]]:
    """Records of two queues of one topic, and what their appender tells of them."""
    put = Put("orders", 0, b"body", TAGGED + b"UNIQ_KEY\x01K\x02", 0, 0, 5, HOST)
    appender = Appender(1 << 20, HOST, lambda topic, queue_id: 7, seal=seal)
    groups = [[put], [put._replace(queue_id=1)], [put, put._replace(body=b"")]]
    found = appender.encode(groups, at, 1000)
    return found.chunks[0][1], [each for group in found.placed for each in group]


@pytest.mark.parametrize("seal", [True, False])
def test_the_same_follows_from_bytes_of_the_log(seal: bool) -> None:
    data, records = encoded(4096, seal=seal)
    expected = derive(records, (), False)
    found = derive_bytes(data, 4096, {b"orders": "orders"}, (), False, None)
    assert found is not None
    assert (found.records, found.keys, found.arrivals) == (4, expected.keys, expected.arrivals)
    assert [(run.queue_id, run.first, run.next, run.log_offset) for run in found.runs] == [
        (run.queue_id, run.first, run.next, run.log_offset) for run in expected.runs
    ]
    assert [bytes(run.entries) for run in found.runs] == [
        bytes(run.entries) for run in expected.runs
    ]


def test_arrivals_are_made_for_whom_somebody_waits() -> None:
    data, _ = encoded(0)
    topics = {b"orders": "orders"}
    for wanted, count in ((None, 4), ((), 0), (("orders",), 4), (("others",), 0)):
        found = derive_bytes(data, 0, topics, (), False, wanted)
        assert found is not None
        assert len(found.arrivals) == count
    assert derive_bytes(data, 0, {}, (), False, None) is None
