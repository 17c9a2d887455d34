"""A topic that is made is announced before anyone hears of what was stored in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from tests.broker.support.sending_parts import SendingParts

from rocketpipe.errors import RequestRejected
from rocketpipe.model.group import GroupSettings
from rocketpipe.testing.clock import ManualClock


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[SendingParts]:
    parts = SendingParts(tmp_path, ManualClock())
    yield parts
    parts.abandon()


async def test_a_topic_is_made_after_its_pattern_once(parts: SendingParts) -> None:
    made = await parts.topic_provider.for_send("t", like="TBW102", queues=3)
    assert (made.read_queues, made.write_queues, made.perm) == (3, 3, 6)
    version = parts.tables.topics.version
    assert await parts.topic_provider.for_send("t", like="TBW102", queues=8) == made
    assert parts.tables.topics.version == version
    assert parts.topic_provider.known("t") == made
    assert parts.topic_provider.known("u") is None


async def test_a_topic_without_a_pattern_is_not_made(parts: SendingParts) -> None:
    with pytest.raises(RequestRejected, match=r"topic\[t\] not exist, apply first") as refused:
        await parts.topic_provider.for_send("t", like="nothing", queues=3)
    assert refused.value.code == 17


async def test_with_creation_switched_off_only_the_brokers_own_are_made(tmp_path: Path) -> None:
    closed = {"auto_create_topics": False, "auto_create_groups": False}
    parts = SendingParts(tmp_path, ManualClock(), config=closed)
    with pytest.raises(RequestRejected):
        await parts.topic_provider.for_send("t", like="TBW102", queues=3)
    assert (await parts.topic_provider.ensured("%RETRY%g", queues=2)).write_queues == 2
    with pytest.raises(RequestRejected, match="subscription group not exist, g") as refused:
        parts.topic_provider.group("g")
    assert refused.value.code == 26
    parts.abandon()


async def test_a_group_that_comes_for_the_first_time_is_made(parts: SendingParts) -> None:
    assert parts.topic_provider.group("g") == GroupSettings(name="g")
    assert parts.tables.groups.get("g") is not None


async def test_a_kept_group_is_on_disk_and_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = SendingParts(tmp_path, ManualClock())
    assert await parts.topic_provider.kept_group("g") == GroupSettings(name="g")
    parts.abandon()  # as if it had been killed
    parts = SendingParts(tmp_path, ManualClock())
    try:
        assert parts.tables.groups.get("g") == GroupSettings(name="g")
        monkeypatch.setattr(parts.tables, "_save_beside", None)  # nothing calls it
        await parts.topic_provider.kept_group("g")
    finally:
        parts.abandon()


async def test_a_group_that_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    parts = SendingParts(tmp_path, ManualClock())
    try:
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config" / "subscriptionGroup.json.tmp").mkdir()
        with pytest.raises(RequestRejected, match="cannot be saved") as refused:
            await parts.topic_provider.kept_group("g")
        assert refused.value.code == 1
    finally:
        parts.abandon()


@pytest.mark.parametrize("name", ["../x", "", "g" * 121])
async def test_a_name_that_no_group_may_have_is_refused(parts: SendingParts, name: str) -> None:
    with pytest.raises(RequestRejected) as refused:
        parts.topic_provider.group(name)
    assert refused.value.code == 29


async def test_whoever_needs_a_topic_waits_until_it_is_announced(
    parts: SendingParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, asked = asyncio.Event(), list[tuple[str, ...]]()

    async def register(changed: Iterable[str] = (), *, settle: bool = True) -> None:
        asked.append(tuple(changed))
        await told.wait()

    monkeypatch.setattr(parts.topic_provider._registrar, "register", register)
    first = asyncio.create_task(parts.topic_provider.for_send("t", like="TBW102", queues=3))
    await asyncio.sleep(0)
    second = asyncio.create_task(parts.topic_provider.for_send("t", like="TBW102", queues=3))
    await parts.clock.advance(0)
    assert parts.topic_provider.known("t") is not None
    assert not first.done()
    assert not second.done()
    told.set()
    assert await first == await second
    assert asked == [("t",)]


async def test_any_queue_is_one_of_them(parts: SendingParts) -> None:
    assert {parts.topic_provider.any_queue(3) for _ in range(60)} == {0, 1, 2}
    assert parts.topic_provider.any_queue(0) == 0


async def test_a_topic_that_is_deleted_and_made_again_meanwhile_is_announced_twice(
    parts: SendingParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [asyncio.Event(), asyncio.Event()]
    asked = iter(told)

    async def register(changed: Iterable[str] = (), *, settle: bool = True) -> None:
        await next(asked).wait()

    monkeypatch.setattr(parts.topic_provider._registrar, "register", register)
    first = asyncio.create_task(parts.topic_provider.for_send("t", like="TBW102", queues=3))
    await asyncio.sleep(0)
    parts.tables.topics.delete("t", 1)
    second = asyncio.create_task(parts.topic_provider.for_send("t", like="TBW102", queues=4))
    await asyncio.sleep(0)
    told[0].set()
    assert (await first).write_queues == 3
    third = asyncio.create_task(parts.topic_provider.for_send("t", like="TBW102", queues=4))
    await asyncio.sleep(0)
    assert not third.done(), "it is still being announced"
    told[1].set()
    assert (await second) == (await third)
