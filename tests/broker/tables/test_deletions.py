"""Queues and places of deleted topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.tables.deletions import cut_off, forget_places, queues_in_use
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


class Parts:
    def __init__(self, root: Path) -> None:
        self.store = MessageStore.open(
            StoreConfig.embedded(root),
            disk=Disk(),
            clock=ManualClock(),
            store_host=HOST,
            threads=False,
        )
        self.topics, self.offsets = TopicTable(4), OffsetTable()

    def send(self, topic: str) -> None:
        self.store.append([[Put(topic, 0, b"m", b"", 0, 0, 0, HOST)]])
        self.store.dispatch()

    def range(self, topic: str) -> tuple[int, int]:
        return self.store.min_offset(topic, 0), self.store.max_offset(topic, 0)


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    parts = Parts(tmp_path)
    for name in ("a", "b", "c"):
        parts.topics.ensure(name, queues=1, now_ms=1)
        parts.send(name)
        parts.offsets.commit("g", name, 0, QueueOffset(1))
    return parts


def test_a_queue_of_a_deleted_topic_goes_and_of_a_new_one_its_beginning(parts: Parts) -> None:
    for name in ("a", "b"):
        parts.topics.delete(name, 2, parts.store.positions.written)
    parts.send("b")
    assert cut_off(parts.store, parts.topics, {"c"}) == 0
    assert parts.range("a") == (0, 1)
    assert cut_off(parts.store, parts.topics) == 1
    assert (parts.range("a"), parts.range("b"), parts.range("c")) == ((0, 0), (1, 2), (0, 1))
    assert cut_off(parts.store, parts.topics) == 0, "to do it again is no harm"
    assert sorted(queues_in_use(parts.store)) == [("b", 0), ("c", 0)]


def test_places_in_a_topic_that_is_there_again_stay(parts: Parts) -> None:
    for name in ("a", "b"):
        parts.topics.delete(name, 2, parts.store.positions.written)
    parts.topics.ensure("b", queues=1, now_ms=3)
    forget_places(parts.topics, parts.offsets)
    assert parts.offsets.pairs() == [("g", "b"), ("g", "c")]
