"""A leader is followed whatever that takes: a cut, a log begun anew, files of another length."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.replica_group import log_bytes
from tests.broker.support.replica_parts import Parts, replica_parts
from tests.waiting import until

from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.coordination.coordinator import Leader
from rocketpipe.errors import StoreError

#: Leaders wait for nobody.
ALONE: dict[str, Any] = {"role": BrokerRole.ASYNC_MASTER}


async def parted(one: Parts, two: Parts, *in_sync: int) -> Leader:
    """Replica 2 leads, and has less than 1, which led before it with others in sync."""
    await two.replica.follow(await one.lead(1, *in_sync))
    await two.caught_up(one)
    two.replica.stop_following()
    one.append(3)
    one.core.visibility.dispatch()
    one.replica.step_down("another leads")
    return await two.lead(2)


async def same(one: Parts, two: Parts) -> None:
    await one.caught_up(two)
    assert log_bytes(one.core) == log_bytes(two.core)


async def test_what_the_leader_does_not_have_is_cut_off_and_kept_aside(
    one: Parts, two: Parts
) -> None:
    await one.replica.follow(await parted(one, two, 9))
    await same(one, two)
    assert any((one.core.config.data / "quarantine").iterdir())
    assert [each.epoch for each in one.run.epochs.entries] == [1, 2]
    await two.send()
    await same(one, two)


async def test_nothing_that_was_confirmed_is_cut_off(tmp_path: Path, two: Parts) -> None:
    async with replica_parts(tmp_path / "1", max_lag_ms=100) as one:
        await two.replica.follow(await one.lead(1))
        await two.caught_up(one)
        two.replica.stop_following()
        end = one.append(3)
        await until(lambda: one.core.store.positions.confirmed == end)
        await one.replica.follow(await two.lead(2))
        await until(lambda: one.replica.refused)
        assert "something acknowledged would go" in (one.replica.refused or "")
        assert one.end == end
        assert not one.replica.is_connected


async def test_where_leaders_wait_for_nobody_it_is_cut_off_all_the_same(tmp_path: Path) -> None:
    async with (
        replica_parts(tmp_path / "1", **ALONE) as one,
        replica_parts(tmp_path / "2", 2, **ALONE) as two,
    ):
        await one.replica.follow(await parted(one, two))
        await same(one, two)


async def test_a_cut_that_fails_is_tried_again(
    one: Parts, two: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []
    loop = one.replica._following
    offline = loop._offline

    class Offline:
        drop = offline.drop

        @staticmethod
        def cut(to: int) -> object:
            tries.append(to)
            if len(tries) == 1:
                raise StoreError("not today")
            return offline.cut(to)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "_offline", Offline)
    await one.replica.follow(await parted(one, two, 9))
    await until(lambda: tries)
    await same(one, two)
    assert len(tries) == 2


async def test_another_log_is_refused_and_left_alone(one: Parts, two: Parts) -> None:
    await one.lead(3)
    await one.send()
    end = one.end
    await two.lead(1)
    await two.send()
    await one.replica.follow(await two.lead(5))
    await until(lambda: one.replica.refused)
    assert one.end == end


async def test_an_empty_log_takes_files_of_the_leaders_length_and_is_cut_by_it(
    tmp_path: Path,
) -> None:
    async with (
        replica_parts(tmp_path / "1", **ALONE) as one,
        replica_parts(tmp_path / "2", 2, segment_bytes=4 << 20, **ALONE) as two,
    ):
        await one.replica.follow(await two.lead(1))
        await same(one, two)
        assert one.core.store.commit_log.segment_bytes == 4 << 20
        await two.replica.follow(await one.lead(2))
        await two.caught_up(one)
        two.replica.stop_following()
        one.append(3)
        await one.replica.follow(await two.lead(3))
        await same(one, two)
        assert one.core.store.commit_log.segment_bytes == 4 << 20


async def test_files_of_the_leaders_length_are_known_after_a_restart(
    tmp_path: Path, two: Parts
) -> None:
    leader = await two.lead(1)
    async with replica_parts(tmp_path / "1", segment_bytes=4 << 20) as one:
        await one.replica.follow(leader)
        await same(one, two)
    async with replica_parts(tmp_path / "1", segment_bytes=4 << 20) as one:
        await one.replica.follow(leader)
        await two.send()
        await same(one, two)


async def test_a_leader_that_is_not_there_is_tried_until_it_is(one: Parts, two: Parts) -> None:
    nobody = Leader(id=2, epoch=1, address="127.0.0.1:1", ha_address="127.0.0.1:1")
    await one.replica.follow(nobody)
    await until(lambda: one.replica.refused)
    assert not one.replica.is_connected
    await one.replica.follow(await two.lead(1))
    assert one.replica.refused is None
    await same(one, two)


async def test_after_it_was_closed_no_connection_is_made(
    one: Parts, two: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = await two.lead(1)
    asked, answered = asyncio.Event(), asyncio.Event()
    terms_of = one.replica._following._terms_of

    async def slow(*given: object) -> object:
        asked.set()
        await answered.wait()
        return await terms_of(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(one.replica._following, "_terms_of", slow)
    await one.replica.follow(leader)
    await asked.wait()
    one.replica.stop_following()
    answered.set()
    task = one.replica._following._task
    assert task is not None
    await asyncio.wait([task])
    assert one.replica.following is None
    assert not one.end
