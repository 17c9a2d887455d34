"""Decisions are written before a broker is told, and again when it has answered."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.errors import ConnectionLost, ReceiptExpired, RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.host import Host
from rocketpipe.model.ids import ReceiptHandle, RetryKind
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.record.codec import encode_record
from rocketpipe.testing.histories.decision_recorder import DecisionRecorder
from rocketpipe.testing.histories.history import Journal, Phase, What, read_history

INVOKE, OK, FAIL, INFO = Phase.INVOKE, Phase.OK, Phase.FAIL, Phase.INFO
REFUSED = RequestRejected(ResponseCode.SYSTEM_ERROR, "it has ended")
EXPIRED = ReceiptExpired("handle", "its time is over")
LOST = ConnectionLost("broker", "gone")
HOST = Host(bytes((127, 0, 0, 1)), 10911)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.jsonl"


@pytest.fixture
def record(path: Path) -> Iterator[DecisionRecorder]:
    ticks = itertools.count(1)
    with Journal(path) as journal:
        yield DecisionRecorder(journal, "one", now_ns=lambda: next(ticks))


def popped(retry: RetryKind) -> PoppedMessage:
    stored = StoredMessage(
        topic=retry.topic("orders", "g"),
        body=b"body",
        raw_properties=properties.encode({"KEYS": "7"}).encode(),
        queue_id=1,
        queue_offset=QueueOffset(4),
        log_offset=LogOffset(0),
        born_ms=1,
        born_host=HOST,
        stored_ms=2,
        store_host=HOST,
        reconsume_times=0,
    )
    handle = ReceiptHandle(
        start_offset=QueueOffset(4),
        pop_ms=1,
        invisible_ms=2,
        revive_queue_id=0,
        retry=retry,
        broker="broker-a",
        queue_id=1,
        queue_offset=QueueOffset(4),
    )
    queue = MessageQueue(topic="orders", broker_name="broker-a", queue_id=1)
    return PoppedMessage(encode_record(stored), queue, handle, None)


DEEDS: list[tuple[What, Callable[[DecisionRecorder], AbstractContextManager[Any]]]] = [
    (What.DECIDE, lambda record: record.deciding("7", commit=True)),
    (What.RECALL, lambda record: record.recalling("7")),
    (What.ACK, lambda record: record.acking("g", popped(RetryKind.NORMAL))),
    (What.HIDE, lambda record: record.hiding("g", popped(RetryKind.NORMAL), 9)),
]


@pytest.mark.parametrize(("what", "doing"), DEEDS, ids=[what for what, _ in DEEDS])
def test_a_deed_is_done_or_refused_or_nobody_knows(
    record: DecisionRecorder,
    path: Path,
    what: What,
    doing: Callable[[DecisionRecorder], AbstractContextManager[Any]],
) -> None:
    with doing(record):
        pass
    for error in (REFUSED, EXPIRED, LOST):
        with pytest.raises(type(error)), doing(record):
            raise error
    events = [event for event in read_history(path) if event.what is what]
    assert [event.phase for event in events[::2]] == [INVOKE] * 4
    assert [event.phase for event in events[1::2]] == [OK, FAIL, FAIL, INFO]
    assert {event.id for event in events} == {"7"}


def test_what_is_acknowledged_is_handled_and_what_is_refused_is_not(
    record: DecisionRecorder, path: Path
) -> None:
    message = popped(RetryKind.NORMAL)
    record.got("g", message, until_ns=99)
    with pytest.raises(ConnectionLost), record.acking("g", message):
        raise LOST
    with record.acking("g", message):
        pass
    with pytest.raises(ReceiptExpired), record.acking("g", message):
        raise EXPIRED
    handled = [event for event in read_history(path) if event.what is What.HANDLE]
    assert [event.phase for event in handled] == [INVOKE, OK, FAIL]
    assert (handled[0].until_ns, handled[0].topic) == (99, "orders")
    assert {(event.queue, event.offset) for event in handled} == {("orders/broker-a/1", 4)}


@pytest.mark.parametrize(
    ("retry", "queue"),
    [
        (RetryKind.RETRY_V1, "%RETRY%g_orders/broker-a/1"),
        (RetryKind.RETRY_V2, "%RETRY%g+orders/broker-a/1"),
    ],
)
def test_a_popped_message_that_comes_again_comes_from_its_retry_topic(
    record: DecisionRecorder, path: Path, retry: RetryKind, queue: str
) -> None:
    record.got("g", popped(retry))
    (event,) = read_history(path)
    assert (event.topic, event.queue) == ("orders", queue)


def test_what_a_broker_is_told_when_it_asks_has_no_end(
    record: DecisionRecorder, path: Path
) -> None:
    record.answering("7", commit=True)
    (event,) = read_history(path)
    assert (event.what, event.phase, event.id, event.commit) == (What.DECIDE, INVOKE, "7", True)


def test_a_batch_may_show_from_the_end_of_its_block_on(
    record: DecisionRecorder, path: Path
) -> None:
    with record.staging("billing/17", "try 1") as stage:
        stage.send("7", "bills", b"body", tag="paid")
        stage.commits()
        stage.committed()
    with suppress(ConnectionLost), record.staging("billing/17", "try 2") as stage:
        stage.commits()
        raise LOST
    with pytest.raises(LookupError), record.staging("billing/18", "try 1 of 18"):
        raise LookupError
    events = read_history(path)
    assert [(event.what, event.phase) for event in events] == [
        (What.SEND, INVOKE),
        (What.COMMIT, INVOKE),
        (What.COMMIT, OK),
        (What.COMMIT, INVOKE),
        (What.COMMIT, INFO),
    ]
    assert {event.name for event in events} == {"billing/17"}
    assert [event.stage for event in events] == ["try 1"] * 3 + ["try 2"] * 2
    assert (events[0].id, events[0].topic, events[0].tag) == ("7", "bills", "paid")
