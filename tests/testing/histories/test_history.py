"""Histories are written as things happen, and read back in the order of time."""

from __future__ import annotations

import asyncio
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketpipe import MessageQueue, SendResult
from rocketpipe.client.consumer.group.assignment import AVERAGE
from rocketpipe.errors import CallTimeout, MessageRefused
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.testing.histories.history import (
    HistoryUnreadable,
    Journal,
    Phase,
    Recorder,
    What,
    queue_name,
    read_history,
)

QUEUE = MessageQueue(topic="orders", broker_name="broker-a", queue_id=1)


class Given:
    """A message in a handler's hands."""

    queue = QUEUE
    topic, queue_offset, keys, tags, body = "orders", 4, ("7",), "paid", b"body"
    reconsume_times = 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.jsonl"


@pytest.fixture
def record(path: Path) -> Iterator[Recorder]:
    ticks = itertools.count(1)
    with Journal(path) as journal:
        yield Recorder(journal, "one", now_ns=lambda: next(ticks))


def result(*, durable: bool | None = True) -> SendResult:
    return SendResult("id", QUEUE, QueueOffset(4), durable)


def test_a_send_says_where_it_went(record: Recorder, path: Path) -> None:
    with record.sending("7", "orders", b"body", key="k", tag="paid") as sending:
        sending.stored(result())
    begun, done = read_history(path)
    assert (begun.at_ns, begun.who, begun.what, begun.phase) == (1, "one", What.SEND, Phase.INVOKE)
    assert (begun.id, begun.key, begun.tag) == ("7", "k", "paid")
    assert begun.crc == zlib.crc32(b"body")
    assert (done.at_ns, done.phase, done.id) == (2, Phase.OK, "7")
    assert (done.queue, done.offset) == ("orders/broker-a/1", 4)


@pytest.mark.parametrize(
    ("error", "phase"),
    [
        (MessageRefused("orders", "no body", "give it one"), Phase.FAIL),
        (CallTimeout("broker", "send", 1), Phase.INFO),
        (asyncio.CancelledError(), Phase.INFO),
    ],
)
def test_only_what_was_never_sent_has_certainly_failed(
    record: Recorder, path: Path, error: BaseException, phase: Phase
) -> None:
    with pytest.raises(type(error)), record.sending("7", "orders", b"body"):
        raise error
    assert [event.phase for event in read_history(path)] == [Phase.INVOKE, phase]


def test_a_send_in_doubt_and_one_without_a_result_are_unknown(record: Recorder, path: Path) -> None:
    with record.sending("7", "orders", b"body") as sending:
        sending.stored(result(durable=None))
    with record.sending("8", "orders", b"body"):
        pass
    assert [event.phase for event in read_history(path)][1::2] == [Phase.INFO, Phase.INFO]


@pytest.mark.parametrize("facts", [{"half": True}, {"due_ns": 9}])
def test_what_waits_does_not_say_where_it_will_be(
    record: Recorder, path: Path, facts: dict[str, Any]
) -> None:
    with record.sending("7", "orders", b"body", **facts) as sending:
        sending.stored(result())
    begun, done = read_history(path)
    assert {name: getattr(begun, name) for name in facts} == facts
    assert (done.phase, done.queue, done.offset) == (Phase.OK, "", -1)


def test_a_question_that_was_answered_was_stored_somewhere(record: Recorder, path: Path) -> None:
    with record.sending("7", "orders", b"body") as sending:
        sending.stored()
    assert [(event.phase, event.queue) for event in read_history(path)][1] == (Phase.OK, "")


def test_a_handler_is_done_or_failed_or_never_heard_of_again(record: Recorder, path: Path) -> None:
    with record.handling("g", Given()):
        pass
    with pytest.raises(ValueError, match="no"), record.handling("g", Given()):
        raise ValueError("no")
    with pytest.raises(asyncio.CancelledError), record.handling("g", Given()):
        raise asyncio.CancelledError
    events = read_history(path)
    invoke = Phase.INVOKE
    assert [event.phase for event in events] == [invoke, Phase.OK, invoke, Phase.FAIL, invoke]
    first = events[0]
    assert (first.group, first.id, first.times, first.tag) == ("g", "7", 2, "paid")
    assert (first.queue, first.offset, first.crc) == (queue_name(QUEUE), 4, zlib.crc32(b"body"))


def test_members_shares_and_faults_are_recorded(record: Recorder, path: Path) -> None:
    record.joined("g", "orders", ordered=True, tags=["paid"], max_retries=2)
    other = MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)
    share = record.sharing("g", AVERAGE)
    assert share.name == AVERAGE.name
    assert share("b", [other, QUEUE], ["a", "b"]) == [QUEUE]
    with record.fault("broker killed"), record.leaving("g"):
        record.killed("two")
    joined, shared, *more = read_history(path)
    assert (joined.topics, joined.tags, joined.ordered) == (("orders",), ("paid",), True)
    assert (joined.broadcast, joined.max_retries) == (False, 2)
    assert (shared.group, shared.topic, shared.queues) == ("g", "orders", (queue_name(QUEUE),))
    assert [(event.what, event.phase, event.who) for event in more] == [
        (What.FAULT, Phase.INVOKE, "one"),
        (What.LEAVE, Phase.INVOKE, "one"),
        (What.KILL, Phase.OK, "two"),
        (What.LEAVE, Phase.OK, "one"),
        (What.FAULT, Phase.OK, "one"),
    ]


def test_the_files_of_many_processes_make_one_history(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b")]
    ticks = itertools.count(1)
    with Journal(paths[0]) as a, Journal(paths[1]) as b:
        recorders = [Recorder(each, "x", now_ns=lambda: next(ticks)) for each in (a, b)]
        for turn in (0, 1, 1, 0, 1):
            recorders[turn].killed(str(turn))
    assert [event.who for event in read_history(*paths)] == ["0", "1", "1", "0", "1"]


def test_a_torn_last_line_has_not_happened_and_any_other_is_told(
    record: Recorder, path: Path
) -> None:
    record.killed("a")
    with path.open("ab") as file:
        file.write(b'{"at_ns":2,"who"')
    assert len(read_history(path)) == 1
    with path.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(HistoryUnreadable, match=r"one\.jsonl line 2"):
        read_history(path)


def test_too_long_a_history_is_refused(record: Recorder, path: Path) -> None:
    for _ in range(3):
        record.killed("a")
    with pytest.raises(HistoryUnreadable, match="more than 2 events"):
        read_history(path, limit=2)
