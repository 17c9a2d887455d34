"""What a planner hears from a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.log.offsets import LogNotFound, LogOffsets
from rocketpipe.pipeline.planning.offset_reader import UnknownTopic
from rocketpipe.pipeline.planning.ranges import QueueRange
from rocketpipe.record.codec import RecordView
from rocketpipe.store import roster, set_aside
from rocketpipe.store.config import FlushMode
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.simulation.small_store import HOST, StepClock, put, small_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """An open store with a few messages in two queues, all of them flushed."""
    config = small_store(tmp_path / "store", FlushMode.ASYNC)
    opened = MessageStore.open(
        config, disk=Disk(), clock=StepClock(), store_host=HOST, threads=False
    )
    for number in range(50):
        opened.append([[put(b"%d" % number, queue_id=number % 2)]])
    opened.append([[put(topic="RMQ_SYS_TRANS_HALF_TOPIC")]])
    opened.dispatch()
    opened.flush()
    yield opened
    opened.abandon()


def queue(number: int, broker: str = "broker-a") -> MessageQueue:
    return MessageQueue(topic="plain", broker_name=broker, queue_id=number)


def test_topics_queues_and_ends_are_those_of_the_store(store: MessageStore, tmp_path: Path) -> None:
    places = LogOffsets(tmp_path / "store", "broker-z")
    assert places.topics() == {"plain"}
    assert places.queues("plain") == [queue(0, "broker-z"), queue(1, "broker-z")]
    assert set(places.ends(places.queues("plain")).values()) == {(0, 25)}
    assert places.addresses() == {}
    places.close()


def test_ends_are_looked_up_anew_each_time(store: MessageStore, tmp_path: Path) -> None:
    places = LogOffsets(tmp_path / "store")
    assert places.ends([queue(0)])[queue(0)] == (0, 25)
    store.append([[put(b"later")]])
    store.dispatch()
    assert places.ends([queue(0)])[queue(0)] == (0, 25)  # not durable yet
    store.flush()
    assert places.ends([queue(0)])[queue(0)] == (0, 26)
    places.close()


def test_a_time_finds_the_first_message_stored_then_or_later(
    store: MessageStore, tmp_path: Path
) -> None:
    places = LogOffsets(tmp_path / "store")
    for offset in (0, 7, 24):
        stored_ms = _stored_ms(store, offset)
        assert places.at_time(queue(1), stored_ms) == offset
        assert places.at_time(queue(1), stored_ms + 1) == offset + 1
    assert places.at_time(queue(1), 0) == 0
    places.close()


def _stored_ms(store: MessageStore, offset: int) -> int:
    found = store.read("plain", 1, QueueOffset(offset), max_count=1)
    return RecordView(found.records).stored_ms


def test_sizes_are_those_of_the_records(store: MessageStore, tmp_path: Path) -> None:
    places = LogOffsets(tmp_path / "store")
    found = store.read("plain", 0, QueueOffset(3), max_count=4)
    part = QueueRange(queue(0), QueueOffset(3), QueueOffset(7))
    assert places.sizes([part]) == {queue(0): len(found.records)}
    places.close()


def test_a_topic_that_is_not_there_is_named_with_where_it_was_looked_for(
    store: MessageStore, tmp_path: Path
) -> None:
    places = LogOffsets(tmp_path / "store")
    with pytest.raises(UnknownTopic, match=r"topic 'orders' is not known to .*store"):
        places.queues("orders")
    with pytest.raises(UnknownTopic, match=r"this store knows .*the nearest is 'plain'"):
        places.queues("plian")
    places.close()


def test_no_store_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(LogNotFound, match="no commitlog"):
        LogOffsets(tmp_path)


def test_the_stores_of_several_brokers_are_one(tmp_path: Path) -> None:
    known = roster.begun("b", taken=False).grown(2)
    known.save(tmp_path)
    for number, member in enumerate(known.brokers):
        config = small_store(member.root(tmp_path), FlushMode.ASYNC)
        opened = MessageStore.open(
            config, disk=Disk(), clock=StepClock(), store_host=HOST, threads=False
        )
        for _ in range(number + 1):
            opened.append([[put(b"x")]])
        opened.dispatch()
        opened.flush()
        opened.abandon()
    places = LogOffsets(tmp_path)
    assert places.topics() == {"plain"}
    first, second = queue(0, "b-0"), queue(0, "b-1")
    assert places.queues("plain") == [first, second]
    assert places.ends([first, second]) == {first: (0, 1), second: (0, 2)}
    assert set(places.oldest_ms([first, second])) == {first, second}
    assert places.at_time(second, 0) == 0
    assert places.sizes([QueueRange(second, QueueOffset(0), QueueOffset(2))])[second] > 0
    assert places.deleted([first, second]) == frozenset()
    with pytest.raises(UnknownTopic, match="nothing"):
        places.queues("nothing")

    # One that has left takes its queues along, and says where they ended.
    places.ends([second])
    set_aside.save_ends(tmp_path, "b-1", {"plain": {0: 2}})
    known.with_leaving("b-1", delete=True).save(tmp_path)
    set_aside.finish_leaving(tmp_path)
    assert places.ends([first, second]) == {first: (0, 1)}
    assert places.queues("plain") == [first]
    assert places.drained([first, second]) == {second: 2}
    places.close()
