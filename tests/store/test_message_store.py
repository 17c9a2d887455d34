"""Messages by queue and offset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.errors import StoreError
from rocketpipe.model.host import Host
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.record.codec import decode_records
from rocketpipe.record.hot import java_hash
from rocketpipe.store.message_store import MAX_READ_BYTES, MessageStore, Put, ReadStatus

HOST = Host.parse("127.0.0.1:10911").pack()


def put(queue_id: int = 0, body: bytes = b"body", tag: str = "A", topic: str = "t") -> Put:
    return Put(
        topic=topic,
        queue_id=queue_id,
        body=body,
        properties=f"TAGS\x01{tag}\x02".encode(),
        flag=7,
        sys_flag=0,
        born_ms=1,
        born_host=HOST,
        reconsume_times=0,
    )


@pytest.fixture
def arrivals() -> list[tuple[str, int]]:
    return []


@pytest.fixture
def store(tmp_path: Path, arrivals: list[tuple[str, int]]) -> Iterator[MessageStore]:
    made = MessageStore(
        tmp_path, HOST, lambda: 1234, lambda topic, queue_id: arrivals.append((topic, queue_id))
    )
    yield made
    made.close()


def read(store: MessageStore, offset: int, *, count: int = 32, queue_id: int = 0) -> ReadStatus:
    return store.read("t", queue_id, QueueOffset(offset), max_count=count).status


def test_offsets_are_dense_in_each_queue_and_records_know_their_place(store: MessageStore) -> None:
    placed = store.append([put(0), put(1), put(0)])
    assert [each.queue_offset for each in placed] == [0, 0, 1]
    result = store.read("t", 0, QueueOffset(0), max_count=32)
    messages = list(decode_records(result.records))
    assert [message.queue_offset for message in messages] == [0, 1]
    assert [message.log_offset for message in messages] == [
        placed[0].log_offset,
        placed[2].log_offset,
    ]
    assert messages[0].stored_ms == 1234
    assert messages[0].flag == 7


def test_arrival_is_told_once_for_each_queue_of_a_batch(
    store: MessageStore, arrivals: list[tuple[str, int]]
) -> None:
    store.append([put(0), put(1), put(0)])
    assert arrivals == [("t", 0), ("t", 1)]


def test_a_batch_that_cannot_be_written_leaves_nothing_behind(
    store: MessageStore, arrivals: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int, data: bytes, at: int) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", fail)
        with pytest.raises(StoreError):
            store.append([put(0), put(0)])
    assert store.max_offset("t", 0) == 0
    assert arrivals == []
    assert store.append([put(0)])[0].queue_offset == 0


def test_offsets_outside_the_queue_are_told_apart(store: MessageStore) -> None:
    assert read(store, 0) is ReadStatus.NO_MATCHED_LOGIC_QUEUE
    store.append([put(), put()])
    assert read(store, -1) is ReadStatus.OFFSET_TOO_SMALL
    assert read(store, 1) is ReadStatus.FOUND
    assert read(store, 2) is ReadStatus.OFFSET_OVERFLOW_ONE
    assert read(store, 3) is ReadStatus.OFFSET_OVERFLOW_BADLY
    assert store.read("t", 0, QueueOffset(9), max_count=1).next_offset == 2
    assert store.min_offset("t", 0) == 0


def test_a_read_is_bounded_in_count_and_bytes_but_gives_at_least_one(store: MessageStore) -> None:
    store.append([put(body=bytes(MAX_READ_BYTES)), put(body=bytes(MAX_READ_BYTES))])
    assert store.read("t", 0, QueueOffset(0), max_count=32).count == 1
    store.append([put(1) for _ in range(40)])
    assert store.read("t", 1, QueueOffset(0), max_count=100).count == 32
    assert store.read("t", 1, QueueOffset(0), max_count=5).count == 5


def test_a_filter_sees_tag_codes_and_the_next_offset_passes_what_it_left_out(
    store: MessageStore,
) -> None:
    store.append([put(tag="A"), put(tag="B"), put(tag="A")])
    wanted = java_hash("B")
    result = store.read("t", 0, QueueOffset(0), max_count=32, matches=lambda code: code == wanted)
    assert result.count == 1
    assert result.next_offset == 3
    nothing = store.read("t", 0, QueueOffset(2), max_count=32, matches=lambda code: False)
    assert nothing.status is ReadStatus.NO_MATCHED_MESSAGE
    assert nothing.next_offset == 3


def test_an_ipv6_broker_marks_its_records(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, Host.parse("[::1]:10911").pack(), lambda: 1)
    store.append([put()])
    (message,) = decode_records(store.read("t", 0, QueueOffset(0), max_count=1).records)
    assert str(message.store_host) == "[::1]:10911"
    store.close()
