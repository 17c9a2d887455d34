"""A store looked at from outside while its broker runs, and after it died."""

from __future__ import annotations

import pickle
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rocketpipe.model.offsets import LogOffset
from rocketpipe.pipeline.log.directory import LogDirectory, LogNotFound
from rocketpipe.pipeline.log.queue_view import NO_TAG_CODE
from rocketpipe.store.config import FlushMode
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.entries import BLANK_SIZE
from rocketpipe.testing.simulation.small_store import HOST, StepClock, put, small_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """A store that its broker has open; it syncs when a test says so."""
    opened = MessageStore.open(
        small_store(tmp_path / "store", FlushMode.ASYNC),
        disk=Disk(),
        clock=StepClock(),
        store_host=HOST,
        threads=False,
    )
    yield opened
    opened.abandon()


def append(store: MessageStore, count: int, topic: str = "plain", queue_id: int = 0) -> None:
    for _ in range(count):
        store.append([[put(topic=topic, queue_id=queue_id)]])
    store.dispatch()


def test_nothing_is_shown_that_was_not_flushed(store: MessageStore, tmp_path: Path) -> None:
    append(store, 3)
    with LogDirectory(tmp_path / "store") as directory:
        assert directory.ends("plain", 0) == (0, 0)
    store.flush()
    append(store, 2)
    with LogDirectory(tmp_path / "store") as directory:
        assert directory.ends("plain", 0) == (0, 3)


def test_nothing_is_shown_that_replicas_have_not_acknowledged(
    store: MessageStore, tmp_path: Path
) -> None:
    append(store, 2)
    store.positions.begin_acknowledged(store.positions.written)
    append(store, 3)
    store.flush()
    with LogDirectory(tmp_path / "store") as directory:
        assert directory.ends("plain", 0) == (0, 2)
    # RocketMQ's slaves count bytes: the fourth is there in part.
    third = store.positions.written - (store.positions.written // 5) - 1
    store.positions.acknowledged = LogOffset(third)
    append(store, 0)
    store.append([[put()]])
    store.flush()
    with LogDirectory(tmp_path / "store") as directory:
        assert directory.ends("plain", 0) == (0, 3)
    store.positions.acknowledged = store.positions.written
    store.dispatch()
    store.append([[put()]])
    store.flush()
    with LogDirectory(tmp_path / "store") as directory:
        assert directory.ends("plain", 0) == (0, 6)


def test_entries_that_a_running_broker_keeps_back_are_found_in_the_log(
    store: MessageStore, tmp_path: Path
) -> None:
    append(store, 40)
    append(store, 5, topic="other", queue_id=3)
    store.append([[put(sys_flag=4)], [put(sys_flag=12)]])  # halves of transactions: in no queue
    append(store, 2)
    store.flush()
    assert not (tmp_path / "store" / "consumequeue" / "other").exists()  # all still in memory
    with LogDirectory(tmp_path / "store") as directory:
        assert directory.ends("plain", 0) == (0, 42)
        assert directory.ends("other", 3) == (0, 5)
        assert directory.queue_ids == {"plain": {0}, "other": {3}}
        entries = directory.queue("plain", 0).entries(0, 42)
        assert (entries["tag"] == NO_TAG_CODE).all()
        for entry in entries.tolist():
            assert len(directory.log.record_at(entry[0])) == entry[1]
        assert directory.queue("plain", 0).entries(40, 42).tolist() == entries[40:].tolist()
        assert directory.queue("plain", 0).bytes_of(0, 42) == int(entries["size"].sum())


def test_what_is_partly_in_files_and_partly_not_is_one_queue(
    store: MessageStore, tmp_path: Path
) -> None:
    append(store, 30)
    store.close()
    opened = MessageStore.open(
        small_store(tmp_path / "store", FlushMode.ASYNC),
        disk=Disk(),
        clock=StepClock(),
        store_host=HOST,
        threads=False,
    )
    append(opened, 7)
    opened.flush()
    with LogDirectory(tmp_path / "store") as directory:
        assert directory.ends("plain", 0) == (0, 37)
        entries = directory.queue("plain", 0).entries(0, 37)
        assert (np.diff(entries["at"]) > 0).all()
        assert (entries["tag"][:30] != NO_TAG_CODE).all()
    opened.close()
    with LogDirectory(tmp_path / "store") as directory:
        assert directory.ends("plain", 0) == (0, 37)
        assert (directory.queue("plain", 0).entries(0, 37)["tag"] != NO_TAG_CODE).all()


def test_after_a_crash_without_a_checkpoint_a_queue_ends_with_its_last_whole_record(
    store: MessageStore, tmp_path: Path
) -> None:
    append(store, 30)
    store.close()
    root = tmp_path / "store"
    (root / "checkpoint").unlink()
    with LogDirectory(root) as directory:
        assert directory.confirmed is None
        assert directory.ends("plain", 0) == (0, 30)
        place = int(directory.queue("plain", 0).entries(25, 26)["at"][0])
        segment = directory.log.path_of(place)
        base = directory.log.base_of(place)
    data = bytearray(segment.read_bytes())
    data[place - base + 30 :] = bytes(len(data) - (place - base + 30))
    segment.write_bytes(data)
    for later in sorted(root.joinpath("commitlog").iterdir()):
        if later.name > segment.name:
            later.write_bytes(bytes(len(data)))
    with LogDirectory(root) as directory:
        assert directory.ends("plain", 0) == (0, 25)


def test_messages_that_retention_took_are_before_the_first(
    store: MessageStore, tmp_path: Path
) -> None:
    append(store, 100)
    store.flush()
    with LogDirectory(tmp_path / "store") as directory:
        second = directory.log.bases[1]
    store.delete_before(LogOffset(second))
    store.close()
    with LogDirectory(tmp_path / "store") as directory:
        first, end = directory.ends("plain", 0)
        view = directory.queue("plain", 0)
        assert 0 < first < end == 100
        assert int(view.entries(first, first + 1)["at"][0]) >= second
        assert directory.stored_ms(int(view.entries(first, first + 1)["at"][0])) > 0
        assert directory.stored_ms(second - 1) == -1
        assert (view.entries(0, view.first)["size"] == BLANK_SIZE).all()


def test_topics_of_the_brokers_table_are_there_before_their_first_message(
    store: MessageStore, tmp_path: Path
) -> None:
    config = tmp_path / "store" / "config"
    config.mkdir(exist_ok=True)
    config.joinpath("topics.json").write_text(
        '{"topicConfigTable":{"empty":{"readQueueNums":2},"odd":{"readQueueNums":"x"}}}'
    )
    with LogDirectory(tmp_path / "store") as directory:
        assert directory.queue_ids == {"empty": {0, 1}}
        assert directory.ends("empty", 1) == (0, 0)


@pytest.mark.parametrize("made", ["nothing", "a file", "an empty directory"])
def test_a_path_without_a_store_is_refused_with_what_to_give(made: str, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere"
    if made == "a file":
        path.write_text("")
    elif made == "an empty directory":
        path.mkdir()
    with pytest.raises(LogNotFound, match=r"no log to read.*storePathRootDir.*executors") as caught:
        LogDirectory(path)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("given", [".", "store/commitlog", "store/config"])
def test_a_directory_beside_the_store_gets_the_one_that_was_meant(
    store: MessageStore, tmp_path: Path, given: str
) -> None:
    (tmp_path / "store" / "config").mkdir(exist_ok=True)
    meant = re.escape(str(tmp_path / "store"))
    with pytest.raises(LogNotFound, match=f"has no commitlog/ in it, but {meant} has;"):
        LogDirectory(tmp_path / given)


def test_a_store_of_a_newer_version_is_not_guessed_at(store: MessageStore, tmp_path: Path) -> None:
    text = "rocketpipe store format 99\nwritten by rocketpipe 9.0.0\n"
    (tmp_path / "store" / "format").write_text(text)
    with pytest.raises(LogNotFound, match=r"format 99, written by rocketpipe 9\.0\.0"):
        LogDirectory(tmp_path / "store")


def test_looking_changes_nothing(store: MessageStore, tmp_path: Path) -> None:
    append(store, 20)
    store.close()
    root = tmp_path / "store"
    shutil.copytree(root, tmp_path / "before")
    with LogDirectory(root) as directory:
        assert directory.queue_ids == {"plain": {0}}
        directory.ends("plain", 0)
    for path in (tmp_path / "before").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (root / path.relative_to(tmp_path / "before")).read_bytes()


def test_entries_that_were_planned_are_those_of_a_view(store: MessageStore, tmp_path: Path) -> None:
    append(store, 40)  # several files of entries
    store.flush()
    store.derived.queues.flush_pending()
    append(store, 3)
    store.flush()
    with LogDirectory(tmp_path / "store") as looks, LogDirectory(tmp_path / "store") as trusts:
        view = looks.queue("plain", 0)
        assert len(view._bases) > 1
        for start, end in ((0, 5), (3, 30), (0, 43), (41, 43), (7, 7), (40, 50)):
            found = trusts.entries("plain", 0, start, end)
            trusts._queues.clear()
            assert found.tolist() == view.entries(start, end).tolist()
        assert trusts.entries("none", 0, 0, 2)["size"].tolist() == [BLANK_SIZE] * 2
