"""Derived files, rebuilt from the logs that Apache's brokers wrote and compared with theirs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView, walk
from rocketpipe.store.config import FlushMode, StoreConfig, delays_ms
from rocketpipe.store.derived.dispatcher import Dispatcher
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.index.key_index import KeyIndex
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.queues.entries import QUEUE_ENTRY
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.store.state.positions import Positions
from rocketpipe.store.timers.wheel import TimerWheel
from rocketpipe.testing.clock import ManualClock

GOLDEN = Path(__file__).parents[1] / "golden"
STORES = ["4.9.7-stop", "4.9.7-kill", "5.5.0-stop", "5.5.0-kill"]


@dataclass(frozen=True)
class Golden:
    """One store as Apache left it, and what that broker answered."""

    name: str
    root: Path
    answers: dict[str, Any]

    @property
    def killed(self) -> bool:
        return self.name.endswith("kill")

    def config(self, root: Path) -> StoreConfig:
        settings = self.answers["settings"]
        return StoreConfig(
            root=root,
            segment_bytes=settings["mappedFileSizeCommitLog"],
            queue_file_bytes=settings["mappedFileSizeConsumeQueue"],
            index_slots=settings["maxHashSlotNum"],
            index_entries=settings["maxIndexNum"],
            delay_levels=settings["messageDelayLevel"],
            max_open_files=4,
        )

    def log_end(self) -> LogOffset:
        end = 0
        for segment in sorted((self.root / "commitlog").iterdir()):
            for at, size in walk(segment.read_bytes()):
                end = int(segment.name) + at + size
        return LogOffset(end)


@dataclass
class Opened:
    queues: QueueSet
    index: KeyIndex
    timer: TimerWheel
    dispatcher: Dispatcher
    log: CommitLog
    start: LogOffset

    def close(self) -> None:
        self.queues.sync()
        self.index.sync(closing=True)
        self.timer.sync()


Open = Callable[..., Opened]


@pytest.fixture(scope="module", params=STORES)
def golden(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    unpack_golden: Callable[..., Path],
) -> Golden:
    directory = tmp_path_factory.mktemp("golden")
    root = unpack_golden(request.param, directory, "commitlog", "consumequeue", "index")
    answers = json.loads((GOLDEN / f"{request.param}.json").read_text("utf-8"))
    return Golden(request.param, root, answers)


@pytest.fixture
def open_copy(golden: Golden, tmp_path: Path) -> Open:
    """Open a copy that has these of Apache's directories, and dispatch what is missing."""

    def opened(*parts: str, clean: bool = False) -> Opened:
        for part in parts:
            shutil.copytree(golden.root / part, tmp_path / part)
        config = golden.config(tmp_path)
        layout = StoreLayout(tmp_path)
        disk = Disk()
        log = CommitLog(disk, layout.commit_log, config.segment_bytes)
        end = golden.log_end()
        files = OpenFiles(disk, 4)
        sums = tmp_path / "sums"
        disk.make_directory(sums)
        queues = QueueSet(disk, files, layout.queues, sums / "queues.json", config.queue_file_bytes)
        index = KeyIndex(
            disk,
            files,
            layout.index,
            sums / "index.json",
            slots=config.index_slots,
            entries=config.index_entries,
            clock=ManualClock(1_800_000_000_000),
        )
        timer = TimerWheel(disk, files, layout.timer)
        first = log.first_offset
        trusted = end if clean else first
        start = min(
            queues.recover(first, end, trusted, clean=clean),
            index.recover(first, end, trusted, clean=clean),
            timer.recover(first, end, None if clean else first),
        )
        positions = Positions(FlushMode.ASYNC)
        positions.rewind(end, dispatched=start)
        dispatcher = Dispatcher(
            log,
            positions,
            queues,
            index,
            timer,
            level_delays_ms=delays_ms(config.delay_levels),
            index_tags=golden.name.startswith("5.5"),
        )
        dispatcher.run()
        assert dispatcher.behind_bytes == 0
        return Opened(queues, index, timer, dispatcher, log, start)

    return opened


def files_under(root: Path, part: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted((root / part).rglob("*"))
        if path.is_file()
    }


def test_consume_queues_rebuilt_from_the_log_are_apaches_byte_for_byte(
    golden: Golden, open_copy: Open, tmp_path: Path
) -> None:
    store = open_copy("commitlog")
    store.close()
    theirs = files_under(golden.root, "consumequeue")
    assert len(theirs) >= 14
    assert files_under(tmp_path, "consumequeue") == theirs


def test_the_index_rebuilt_from_the_log_is_apaches_byte_for_byte_but_for_its_name(
    golden: Golden, open_copy: Open, tmp_path: Path
) -> None:
    store = open_copy("commitlog")
    store.close()
    theirs = list(files_under(golden.root, "index").values())
    assert len(theirs) == 1
    assert list(files_under(tmp_path, "index").values()) == theirs


@pytest.mark.parametrize("kept", [("commitlog",), ("commitlog", "consumequeue", "index")])
def test_keys_lead_to_the_messages_that_apache_found(
    golden: Golden, open_copy: Open, kept: tuple[str, ...]
) -> None:
    store = open_copy(*kept, clean=len(kept) > 1 and not golden.killed)
    assert golden.answers["by_key"]
    for key, expected in golden.answers["by_key"].items():
        found = [
            offset
            for offset in store.index.find("orders", key)
            if key in RecordView(record_at(store, offset)).message().properties["KEYS"].split()
        ]
        assert found == sorted(found, reverse=True)
        assert sorted(found) == sorted(expected)


def record_at(store: Opened, offset: LogOffset) -> bytes:
    size = int.from_bytes(store.log.read(offset, 4), "big")
    return store.log.read(offset, size)


@pytest.mark.parametrize("kept", [("commitlog",), ("commitlog", "consumequeue", "index")])
def test_offsets_of_every_queue_are_those_that_apache_gave(
    golden: Golden, open_copy: Open, kept: tuple[str, ...]
) -> None:
    store = open_copy(*kept, clean=len(kept) > 1 and not golden.killed)
    # A delayed message was delivered after the last answer, and is in the log for all that.
    last_answered = max(answer["log_offset"] for answer in golden.answers["messages"])
    for queue, (least, greatest) in golden.answers["offsets"].items():
        topic, _, number = queue.rpartition("@")
        queue_id = int(number)
        entries = store.queues.entries(topic, queue_id, QueueOffset(0), 1000)
        later = sum(at > last_answered for at, _, _ in QUEUE_ENTRY.iter_unpack(entries))
        assert later <= 1
        assert store.queues.min_offset(topic, queue_id) == least
        assert store.queues.max_offset(topic, queue_id) == greatest + later
        assert store.queues.next_offset(topic, queue_id) == greatest + later


def test_every_message_is_where_its_queue_entry_says(golden: Golden, open_copy: Open) -> None:
    store = open_copy("commitlog")
    for answer in golden.answers["messages"]:
        offset = QueueOffset(answer["offset"])
        entry = store.queues.entries(answer["topic"], answer["queue"], offset, 1)
        log_offset, size, _ = QUEUE_ENTRY.unpack(entry)
        assert log_offset == answer["log_offset"]
        message = RecordView(store.log.read(log_offset, size)).message()
        assert (message.topic, message.queue_offset) == (answer["topic"], offset)


def test_entries_of_the_schedule_topic_say_when_they_fall_due(
    golden: Golden, open_copy: Open
) -> None:
    store = open_copy("commitlog")
    delays = delays_ms(golden.answers["settings"]["messageDelayLevel"])
    seen = 0
    for topic, queue_id in store.queues.queues():
        if topic != SCHEDULE_TOPIC:
            continue
        entries = store.queues.entries(topic, queue_id, QueueOffset(0), 100)
        for log_offset, size, due_ms in QUEUE_ENTRY.iter_unpack(entries):
            message = RecordView(store.log.read(LogOffset(log_offset), size)).message()
            assert due_ms == message.stored_ms + delays[queue_id]
            seen += 1
    assert seen >= 3


def test_files_that_apache_left_cleanly_are_taken_over_as_they_are(
    golden: Golden, open_copy: Open, tmp_path: Path
) -> None:
    if golden.killed:
        pytest.skip("this broker was killed")
    store = open_copy("commitlog", "consumequeue", "index", clean=True)
    assert store.start == golden.log_end()
    store.close()
    assert files_under(tmp_path, "consumequeue") == files_under(golden.root, "consumequeue")
    assert files_under(tmp_path, "index") == files_under(golden.root, "index")


def test_files_of_a_killed_broker_end_up_as_if_rebuilt(
    golden: Golden, open_copy: Open, tmp_path: Path
) -> None:
    store = open_copy("commitlog", "consumequeue", "index", clean=False)
    assert store.start == 0
    store.close()
    assert files_under(tmp_path, "consumequeue") == files_under(golden.root, "consumequeue")
    assert list(files_under(tmp_path, "index").values()) == list(
        files_under(golden.root, "index").values()
    )


def test_nothing_waits_in_a_timer_topic_that_has_no_messages(
    golden: Golden, open_copy: Open
) -> None:
    store = open_copy("commitlog")
    assert store.queues.queue(TIMER_TOPIC, 0) is None
    assert len(store.timer) == 0
