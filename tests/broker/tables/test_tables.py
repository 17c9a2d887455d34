"""The tables that outlive a broker."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.background import running
from rocketpipe.broker.tables.offsets_keeper import FEW_PLACES
from rocketpipe.broker.tables.tables import SAVE_EVERY_MS, Tables
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import AUTO_CREATE_TOPIC, HALF_TOPIC, TRANSACTION_GROUP
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.snapshot import Snapshot
from rocketpipe.testing.clock import ManualClock

GOLDEN = Path(__file__).parents[2] / "golden"
STORES = ["4.9.7-stop", "4.9.7-kill", "5.5.0-stop", "5.5.0-kill"]


def tables_at(directory: Path, clock: ManualClock | None = None) -> Tables:
    tables = Tables(Disk(), directory, clock or ManualClock(), default_topic_queues=8)
    tables.load()
    return tables


@pytest.fixture(params=STORES)
def golden(
    request: pytest.FixtureRequest, tmp_path: Path, unpack_golden: Callable[..., Path]
) -> tuple[Path, dict[str, Any]]:
    answers = json.loads((GOLDEN / f"{request.param}.json").read_text())
    return unpack_golden(request.param, tmp_path, "config") / "config", answers


def test_the_tables_of_apaches_broker_are_read_and_survive_our_saving(
    golden: tuple[Path, dict[str, Any]],
) -> None:
    directory, answers = golden
    tables = tables_at(directory)
    for _ in range(2):
        places = {
            str(queue): offset
            for group, topic, queue, offset in tables.offsets.all()
            if (group, topic) == ("golden_group", "orders")
        }
        assert places == answers["committed"]
        orders = tables.topics.get("orders")
        assert orders is not None
        assert (orders.read_queues, orders.write_queues, orders.perm) == (4, 4, 6)
        group = tables.groups.get("golden_group")
        assert group is not None
        assert group.max_retries == 16
        assert tables.delays.next_offset(1) == 2
        before = tables
        before.topics.ensure("%RETRY%new", queues=1, now_ms=1)
        before.save()
        tables = tables_at(directory)
        assert tables.topics.all() == before.topics.all()
        assert tables.groups.all() == before.groups.all()


def test_offsets_of_every_group_are_read_from_5_5_0(
    tmp_path: Path, unpack_golden: Callable[..., Path]
) -> None:
    offsets = tables_at(unpack_golden("5.5.0-stop", tmp_path, "config") / "config").offsets
    assert offsets.committed(TRANSACTION_GROUP, HALF_TOPIC, 0) == 4


def test_what_was_saved_is_there_again(tmp_path: Path) -> None:
    clock = ManualClock()
    tables = tables_at(tmp_path, clock)
    tables.topics.create_for_send("orders", like=AUTO_CREATE_TOPIC, queues=4, now_ms=5)
    tables.groups.update(GroupSettings(name="billing", max_retries=3), now_ms=6)
    tables.groups.forbid("billing", "orders", 1, now_ms=7)
    tables.offsets.commit("billing", "orders", 3, QueueOffset(17))
    tables.delays.advance(4, QueueOffset(2))
    tables.save()
    again = tables_at(tmp_path, clock)
    assert again.topics.all() == tables.topics.all()
    assert again.topics.version == tables.topics.version
    assert again.groups.all() == tables.groups.all()
    assert again.groups.forbidden("billing", "orders") == 1
    assert list(again.offsets.all()) == [("billing", "orders", 3, 17)]
    assert again.delays.next_offset(4) == 2


async def test_topics_and_groups_are_on_disk_when_they_are_settled(tmp_path: Path) -> None:
    tables = tables_at(tmp_path)
    await tables.settled()
    for number in range(3):
        tables.topics.ensure(f"t{number}", queues=4, now_ms=1)
        tables.groups.update(GroupSettings(name=f"g{number}"), now_ms=1)
        tables.offsets.commit("g0", "t0", 0, QueueOffset(number))
        await asyncio.gather(tables.settled(), tables.settled())
        again = tables_at(tmp_path)
        assert again.topics.all() == tables.topics.all()
        assert again.groups.all() == tables.groups.all()
        assert not list(again.offsets.all()), "offsets are saved in their own time"


async def test_offsets_are_on_disk_when_they_are_saved_and_whoever_waits_hears_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = tables_at(tmp_path)
    saves: list[Path] = []
    save = Snapshot.save

    def counted(self: Snapshot, content: bytes) -> None:
        saves.append(self.path)
        save(self, content)

    monkeypatch.setattr(Snapshot, "save", counted)
    tables.offsets.commit("g", "t", 0, QueueOffset(7))
    await asyncio.gather(*(tables.offsets_saved() for _ in range(5)))
    assert len(saves) == 1
    assert tables_at(tmp_path).offsets.committed("g", "t", 0) == 7

    def refuse(self: Snapshot, content: bytes) -> None:
        raise DiskError("write", tmp_path, OSError(5, "no"))

    monkeypatch.setattr(Snapshot, "save", refuse)
    tables.offsets.commit("g", "t", 0, QueueOffset(8))
    with pytest.raises(DiskError):
        await tables.offsets_saved()
    monkeypatch.setattr(Snapshot, "save", save)
    await tables.offsets_saved()
    assert tables_at(tmp_path).offsets.committed("g", "t", 0) == 8


def test_a_table_that_did_not_change_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = tables_at(tmp_path)
    tables.save()
    saved: list[str] = []
    monkeypatch.setattr(Snapshot, "save", lambda self, text: saved.append(self.path.name))
    tables.save()
    assert saved == []
    tables.offsets.commit("g", "t", 0, QueueOffset(1))
    tables.save()
    assert saved == ["consumerOffset.json"]


async def test_what_changes_is_saved_within_the_interval(tmp_path: Path) -> None:
    clock = ManualClock()
    tables = tables_at(tmp_path, clock)
    async with running(tables.keep_saved(), "tables"):
        for offset in (1, 2):
            tables.offsets.commit("g", "t", 0, QueueOffset(offset))
            async with asyncio.timeout(PATIENCE_S):
                while tables_at(tmp_path).offsets.committed("g", "t", 0) != offset:
                    await clock.advance(SAVE_EVERY_MS)


async def test_a_save_that_failed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    tables = tables_at(tmp_path, clock)
    tables.save()
    tables.offsets.commit("g", "t", 0, QueueOffset(1))
    (tmp_path / "consumerOffset.json.tmp").mkdir()  # cannot be created or removed as a file
    async with running(tables.keep_saved(), "tables"):
        async with asyncio.timeout(PATIENCE_S):
            while not caplog.records:
                await clock.advance(SAVE_EVERY_MS)
        assert "consumerOffset.json" in caplog.records[0].getMessage()
        assert caplog.records[0].levelno == logging.WARNING
        (tmp_path / "consumerOffset.json.tmp").rmdir()
        async with asyncio.timeout(PATIENCE_S):
            while tables_at(tmp_path).offsets.committed("g", "t", 0) != 1:
                await clock.advance(SAVE_EVERY_MS)


def test_a_topic_of_the_store_that_no_table_has_is_adopted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = tables_at(tmp_path)
    tables.topics.create_for_send("known", like=AUTO_CREATE_TOPIC, queues=4, now_ms=5)
    tables.adopt([("known", 0), ("lost", 2), ("lost", 0)])
    lost = tables.topics.get("lost")
    known = tables.topics.get("known")
    assert lost is not None
    assert known is not None
    assert (lost.read_queues, lost.write_queues, known.write_queues) == (3, 3, 4)
    assert ["topic=lost" in record.getMessage() for record in caplog.records] == [True]


def test_names_that_a_peer_made_up_do_not_keep_the_rest_from_being_saved(tmp_path: Path) -> None:
    tables = tables_at(tmp_path)
    tables.offsets.commit("g", "t", 0, QueueOffset(1))
    for evil in ("\ud800", "a@b", "../x"):
        tables.offsets.commit(evil, "t", 0, QueueOffset(2))
        tables.offsets.commit("g", evil, 0, QueueOffset(3))
        tables.topics.ensure(evil, queues=1, now_ms=5)
    tables.topics.ensure("%RETRY%g", queues=1, now_ms=5)
    tables.save()
    again = tables_at(tmp_path)
    assert again.offsets.committed("g", "t", 0) == 1
    assert again.topics.all().keys() == {AUTO_CREATE_TOPIC, "%RETRY%g"}


def test_groups_whose_table_is_lost_are_those_with_places_and_retries(tmp_path: Path) -> None:
    tables = tables_at(tmp_path)
    for group in ("placed", "retried", "neither"):
        tables.groups.update(GroupSettings(name=group, max_retries=3), 1)
    tables.offsets.commit("placed", "t", 0, QueueOffset(7))
    tables.save()
    for path in tmp_path.glob("subscriptionGroup.json*"):
        path.write_bytes(b"{")
    again = tables_at(tmp_path)
    again.adopt([("t", 0), ("%RETRY%retried", 0), ("%RETRY%popped+t", 0)])
    known = again.groups.all()
    assert {"placed", "retried", "popped"} <= known.keys()
    assert "neither" not in known
    assert "placed" not in again.offsets.lost_groups


def test_groups_whose_places_are_lost_are_known_until_the_damaged_file_is_gone(
    tmp_path: Path,
) -> None:
    tables = tables_at(tmp_path)
    tables.groups.update(GroupSettings(name="g"), 1)
    tables.offsets.commit("g", "t", 0, QueueOffset(7))
    tables.save()
    for path in tmp_path.glob("consumerOffset.json*"):
        path.write_bytes(b"{")
    for _ in range(2):
        again = tables_at(tmp_path)
        again.adopt([("t", 0)])
        assert "g" in again.offsets.lost_groups
        assert again.offsets.committed("g", "t", 0) is None
        again.save()
    for path in tmp_path.glob("consumerOffset.json*damaged*"):
        path.unlink()
    last = tables_at(tmp_path)
    last.adopt([("t", 0)])
    assert "g" not in last.offsets.lost_groups


def test_where_groups_and_places_are_lost_any_group_may_have_had_one(tmp_path: Path) -> None:
    tables = tables_at(tmp_path)
    tables.groups.update(GroupSettings(name="g"), 1)
    tables.offsets.commit("g", "t", 0, QueueOffset(7))
    tables.save()
    for path in tmp_path.glob("*.json*"):
        path.write_bytes(b"{")
    again = tables_at(tmp_path)
    again.adopt([("t", 0)])
    assert "g" in again.offsets.lost_groups


async def test_of_many_places_a_change_is_saved_and_a_stop_writes_them_all(tmp_path: Path) -> None:
    tables = tables_at(tmp_path)
    for number in range(FEW_PLACES + 1):
        tables.offsets.commit(f"g{number}", "t", 0, QueueOffset(1))
    await tables.offsets_saved()
    whole = (tmp_path / "consumerOffset.json").read_bytes()
    tables.offsets.commit("g7", "t", 0, QueueOffset(5))
    await tables.offsets_saved()
    assert (tmp_path / "consumerOffset.json").read_bytes() == whole
    killed = tables_at(tmp_path)
    assert killed.offsets.committed("g7", "t", 0) == 5
    assert len(killed.offsets) == FEW_PLACES + 1
    killed.save()
    assert b'"t@g7":{\n\t\t\t0:5\n' in (tmp_path / "consumerOffset.json").read_bytes()
    assert not [name for name in Disk().names(tmp_path) if "journal" in name]
    assert list(tables_at(tmp_path).offsets.all()) == list(killed.offsets.all())
