"""Key-values, in memory and on disk."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.namesrv.config import LiveSettings, NamesrvConfig
from rocketpipe.namesrv.kv import KeyValuesFull, KeyValueStore, KeyValueTable
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.snapshot import Snapshot, SnapshotDamaged


def store(path: Path | None = None, disk: Disk | None = None, **limits: Any) -> KeyValueStore:
    snapshot = Snapshot(disk or Disk(), path) if path is not None else None
    return KeyValueStore(LiveSettings(NamesrvConfig(**limits)), snapshot)


def test_a_table_counts_what_it_holds() -> None:
    table = KeyValueTable().having("n", "k", "value").having("n", "k2", "ü")
    assert (table.count, table.total_bytes) == (2, 7 + 5)
    again = table.having("n", "k", "v")
    assert (again.count, again.total_bytes) == (2, 3 + 5)
    assert table.get("n", "k") == "value"
    assert again.lacking("n", "nothing") is again
    assert again.lacking("n", "k") == KeyValueTable.of({"n": {"k2": "ü"}})


async def test_what_was_put_is_got_until_it_is_deleted() -> None:
    values = store()
    await values.put("n", "k", "v")
    assert values.get("n", "k") == "v"
    assert values.all("n") == {"k": "v"}
    await values.delete("n", "k")
    await values.delete("n", "k")
    assert values.get("n", "k") is None
    assert values.all("n") == {}
    assert values.all("other") is None


async def test_another_store_finds_what_was_put(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"
    values = store(path)
    await values.put("ORDER_TOPIC_CONFIG", "t", "broker-a:4")
    await values.put("n", "gone", "x")
    await values.delete("n", "gone")
    again = store(path)
    assert again.get("ORDER_TOPIC_CONFIG", "t") == "broker-a:4"
    assert again.get("n", "gone") is None


async def test_a_file_that_rocketmq_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"t":"broker-a:4"}}}')
    assert store(path).all("ORDER_TOPIC_CONFIG") == {"t": "broker-a:4"}


async def test_a_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("[1, 2")
    with pytest.raises(SnapshotDamaged, match=r"kvConfig\.json"):
        store(path)


async def test_no_more_is_kept_than_the_settings_say() -> None:
    values = store(max_key_values=2, max_key_value_bytes=100)
    await values.put("n", "a", "1")
    await values.put("n", "b", "1")
    with pytest.raises(KeyValuesFull, match=r"keeps 2 key-values .* maxKeyValues"):
        await values.put("n", "c", "1")
    await values.put("n", "b", "2")
    with pytest.raises(KeyValuesFull, match=r"keeps 100 bytes .* maxKeyValueBytes"):
        await values.put("n", "b", "x" * 100)
    assert values.all("n") == {"a": "1", "b": "2"}


async def test_a_store_that_is_too_full_already_can_shrink(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text('{"configTable":{"n":{"a":"long value","b":"x"}}}')
    values = store(path, max_key_values=1, max_key_value_bytes=5)
    await values.put("n", "a", "short")
    await values.delete("n", "a")
    with pytest.raises(KeyValuesFull):
        await values.put("n", "c", "x" * 100)


class FullDisk(Disk):
    """Has no room for new files while ``full``."""

    full = False

    def create(self, path: Path) -> Any:
        if self.full:
            raise DiskError("create", path, OSError(28, "No space left on device"))
        return super().create(path)


async def test_what_cannot_be_written_does_not_count(tmp_path: Path) -> None:
    disk = FullDisk()
    values = store(tmp_path / "kvConfig.json", disk)
    await values.put("n", "k", "before")
    disk.full = True
    with pytest.raises(DiskError):
        await values.put("n", "k", "after")
    with pytest.raises(DiskError):
        await values.delete("n", "k")
    assert values.get("n", "k") == "before"
    disk.full = False
    await values.put("n", "k", "after")
    assert store(tmp_path / "kvConfig.json").get("n", "k") == "after"


async def test_many_changes_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    values = store(path)
    async with asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(values.put("n", str(number), "v"))
    assert len(store(path).all("n") or {}) == 20


async def test_a_change_whose_asker_left_is_done_in_full(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    values = store(path)
    asking = asyncio.create_task(values.put("n", "k", "v"))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    await values.settle()
    assert values.get("n", "k") == "v"
    assert store(path).get("n", "k") == "v"
