"""Stores that Apache's own brokers left behind, opened by ours; see tests/golden."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.clock import SystemClock
from rocketpipe.model.host import Host
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView, decode_record, view_records
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.entries import QUEUE_ENTRY
from rocketpipe.store.queues.reader import ReadStatus

GOLDEN = Path(__file__).parents[1] / "golden"
STORES = ["4.9.7-stop", "4.9.7-kill", "5.5.0-stop", "5.5.0-kill"]
HOST = Host.parse("127.0.0.1:10911").pack()
EVER = 1 << 62


def open_store(root: Path) -> MessageStore:
    """Open with sizes that are not those of the files: theirs count."""
    config = StoreConfig(root=root, segment_bytes=1 << 20, queue_file_bytes=20_000)
    return MessageStore.open(
        config, disk=Disk(), clock=SystemClock(), store_host=HOST, threads=False
    )


@pytest.fixture(params=STORES)
def golden(
    request: pytest.FixtureRequest, tmp_path: Path, unpack_golden: Callable[..., Path]
) -> tuple[Path, dict[str, Any]]:
    answers = json.loads((GOLDEN / f"{request.param}.json").read_text("utf-8"))
    return unpack_golden(request.param, tmp_path), answers


@pytest.fixture
def store(golden: tuple[Path, dict[str, Any]]) -> Iterator[MessageStore]:
    opened = open_store(golden[0])
    yield opened
    opened.abandon()


def read_all(store: MessageStore, topic: str, queue_id: int) -> dict[int, RecordView]:
    found: dict[int, RecordView] = {}
    at = store.min_offset(topic, queue_id)
    while at < store.max_offset(topic, queue_id):
        result = store.read(topic, queue_id, at, max_count=32)
        assert result.status is ReadStatus.FOUND
        found |= {view.queue_offset: view for view in view_records(result.records)}
        at = result.next_offset
    return found


def check_answers(store: MessageStore, answers: dict[str, Any]) -> None:
    """Everything is as the broker said before it ended."""
    queues = {(answer["topic"], answer["queue"]) for answer in answers["messages"]}
    read = {queue: read_all(store, *queue) for queue in queues}
    for answer in answers["messages"]:
        view = read[answer["topic"], answer["queue"]][answer["offset"]]
        message = view.message()
        assert message.log_offset == answer["log_offset"]
        assert dict(message.properties) == answer["properties"]
        assert message.reconsume_times == answer["reconsume"]
        assert len(message.body) == answer["body_bytes"]
        assert hashlib.sha256(message.body).hexdigest() == answer["body_sha256"]
        if "body" in answer:
            assert message.body == base64.b64decode(answer["body"])
        assert store.record_at(LogOffset(answer["log_offset"])) == view.raw


def test_every_message_is_read_as_the_broker_gave_it(
    store: MessageStore, golden: tuple[Path, dict[str, Any]]
) -> None:
    check_answers(store, golden[1])


def entries_in_files(root: Path, topic: str, queue_id: str) -> int:
    files = (root / "consumequeue" / topic / queue_id).iterdir()
    return sum(
        size > 0 for file in files for _, size, _ in QUEUE_ENTRY.iter_unpack(file.read_bytes())
    )


def test_the_ends_of_each_queue_are_those_the_broker_told_or_wrote_since(
    golden: tuple[Path, dict[str, Any]],
) -> None:
    root, answers = golden
    written = {
        name: entries_in_files(root, name.rpartition("@")[0], name.rpartition("@")[2])
        for name in answers["offsets"]
    }
    store = open_store(root)
    try:
        for name, (low, high) in answers["offsets"].items():
            topic, _, queue_id = name.rpartition("@")
            assert store.min_offset(topic, int(queue_id)) == low
            assert store.max_offset(topic, int(queue_id)) == written[name]
            # A delayed message was delivered between the answers and the end.
            assert written[name] == high or (topic == "mixed_TOPIC-1" and written[name] == high + 1)
    finally:
        store.abandon()


def test_keys_find_what_they_found_there(
    store: MessageStore, golden: tuple[Path, dict[str, Any]]
) -> None:
    assert golden[1]["by_key"]
    for key, offsets in golden[1]["by_key"].items():
        assert sorted(store.find_by_key("orders", key, 0, EVER)) == sorted(offsets), key


def test_what_we_append_is_there_with_the_rest_after_a_stop_and_after_a_kill(
    golden: tuple[Path, dict[str, Any]],
) -> None:
    root, answers = golden
    bodies = []
    for ending in (MessageStore.close, MessageStore.abandon, MessageStore.close):
        store = open_store(root)
        try:
            check_answers(store, answers)
            views = read_all(store, "orders", 0).values()
            ours = [view.body for view in views if view.body.startswith(b"ours ")]
            assert ours == bodies
            body = b"ours %d" % len(bodies)
            put = Put(
                topic="orders",
                queue_id=0,
                body=body,
                properties=b"KEYS\x01ours\x02",
                flag=0,
                sys_flag=0,
                born_ms=1,
                born_host=HOST,
            )
            before = store.max_offset("orders", 0)
            ((placed,),) = store.append([[put]])
            assert placed.queue_offset == before
            store.dispatch()
            bodies.append(body)
            assert len(list(store.find_by_key("orders", "ours", 0, EVER))) == len(bodies)
            ending(store)
        finally:
            store.abandon()


def test_derived_files_that_are_gone_are_made_again(
    golden: tuple[Path, dict[str, Any]],
) -> None:
    root, answers = golden
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    store = open_store(root)
    try:
        check_answers(store, answers)
        for key, offsets in answers["by_key"].items():
            assert sorted(store.find_by_key("orders", key, 0, EVER)) == sorted(offsets)
    finally:
        store.abandon()


def test_times_find_the_offsets_around_them(
    store: MessageStore, golden: tuple[Path, dict[str, Any]]
) -> None:
    found = read_all(store, "orders", 0)
    for offset, view in found.items():
        first = min(at for at, other in found.items() if other.stored_ms >= view.stored_ms)
        assert store.offset_at_time("orders", 0, view.stored_ms) == first
        assert decode_record(view.raw).queue_offset == offset
    last = max(view.stored_ms for view in found.values())
    assert store.offset_at_time("orders", 0, last + 1) == store.max_offset("orders", 0)
    assert store.offset_at_time("orders", 0, 0) == QueueOffset(0)
