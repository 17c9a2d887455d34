"""A replica's damaged log, mended from its leader or from another replica's directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.broker.support.replica_group import log_bytes
from tests.broker.support.replica_parts import replica_parts

from rocketpipe.broker.replication.following.log_reader import LeaderUnread
from rocketpipe.broker.replication.following.repair import mend_from_directory, mend_from_leader
from rocketpipe.clock import SystemClock
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.mending import NotMended


def config(root: Path) -> StoreConfig:
    return StoreConfig.embedded(root, segment_bytes=1 << 20)


def flip(root: Path, at: int) -> None:
    (file,) = (each for each in StoreLayout(root).commit_log.iterdir() if int(each.name) == 0)
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def is_whole(root: Path) -> bool:
    return check_store(Disk(), root).lines()[1:] == ["nothing is wrong"]


async def pair(root: Path, epoch: int = 1) -> bytes:
    """Two replicas that stopped in order, with one log; gives its bytes."""
    async with replica_parts(root / "1") as one, replica_parts(root / "2", 2) as two:
        await two.replica.follow(await one.lead(epoch))
        await two.caught_up(one)
        for number in range(3):
            await one.send(b"%d" % number)
        await two.caught_up(one)
        return log_bytes(one.core)


async def test_a_flipped_bit_is_mended_from_the_leader(tmp_path: Path) -> None:
    data = await pair(tmp_path)
    flip(tmp_path / "2", len(data) - 20)
    assert not is_whole(tmp_path / "2")
    async with replica_parts(tmp_path / "1") as one:
        await one.lead(2)
        report = await asyncio.to_thread(
            mend_from_leader, config(tmp_path / "2"), Disk(), SystemClock(), one.replica.ha_address
        )
    assert [each.reason for each in report.ranges]
    assert is_whole(tmp_path / "2")
    async with replica_parts(tmp_path / "2", 2) as two:
        assert log_bytes(two.core)[: len(data)] == data


async def test_and_from_the_directory_of_another_replica(tmp_path: Path) -> None:
    data = await pair(tmp_path)
    flip(tmp_path / "2", len(data) - 20)
    mend_from_directory(config(tmp_path / "2"), Disk(), SystemClock(), tmp_path / "1")
    assert is_whole(tmp_path / "2")


async def test_a_log_of_another_past_mends_nothing(tmp_path: Path) -> None:
    data = await pair(tmp_path)
    await pair(tmp_path / "other", epoch=5)
    flip(tmp_path / "2", len(data) - 20)
    with pytest.raises(NotMended):
        mend_from_directory(config(tmp_path / "2"), Disk(), SystemClock(), tmp_path / "other" / "1")
    assert not is_whole(tmp_path / "2")


async def test_a_leader_that_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    data = await pair(tmp_path)
    flip(tmp_path / "2", len(data) - 20)
    with pytest.raises(LeaderUnread):
        await asyncio.to_thread(
            mend_from_leader, config(tmp_path / "2"), Disk(), SystemClock(), "127.0.0.1:1"
        )
