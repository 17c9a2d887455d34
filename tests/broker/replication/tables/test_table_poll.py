"""The tables of a master, polled over its port."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.asking import message
from tests.waiting import until

from rocketpipe.background import running
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.handlers import topics as topic_handlers
from rocketpipe.broker.replication.tables.table_poll import POLL_EVERY_MS, TablePoll
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import DataVersion, TopicSettings
from rocketpipe.protocol.requests.brokers import GetBrokerRuntimeInfo
from rocketpipe.protocol.requests.clients import RequestMode
from rocketpipe.protocol.requests.topics import DeleteTopic
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.testing.clock import ManualClock


@dataclass
class World:
    master: Tables
    address: str
    slave: Tables
    caller: Caller
    clock: ManualClock
    #: Topics whose queues are to go, and up to where of the log.
    cut: dict[str, int] = field(default_factory=dict)
    #: Where the master's log begins, as each poll said.
    kept_from: list[int] = field(default_factory=list)

    def poll(self) -> TablePoll:
        return TablePoll(
            self.slave,
            self.caller,
            self.clock,
            cut=self.cut.__setitem__,
            keep_from=self.kept_from.append,
        )

    @property
    def differences(self) -> list[str]:
        """The tables of which master and slave do not have the same."""
        pairs = {
            "topics": [tables.topics.all() for tables in (self.master, self.slave)],
            "version": [tables.topics.version for tables in (self.master, self.slave)],
            "groups": [tables.groups.to_file() for tables in (self.master, self.slave)],
            "places": [dict(_places(tables)) for tables in (self.master, self.slave)],
            "delays": [tables.delays.all() for tables in (self.master, self.slave)],
            "modes": [tables.modes.to_file() for tables in (self.master, self.slave)],
        }
        return [name for name, (one, other) in pairs.items() if one != other]


def _places(tables: Tables) -> list[tuple[tuple[str, str, int], int]]:
    return [((group, topic, queue), at) for group, topic, queue, at in tables.offsets.all()]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    config = BrokerConfig(
        data=tmp_path / "master", port=0, store=StoreConfig.embedded(tmp_path / "master")
    )
    cores: list[Core] = []
    clock = ManualClock()
    async with broker(config, watch=cores.append) as address, Caller() as caller:
        slave = Tables(Disk(), tmp_path / "slave", clock, default_topic_queues=8)
        yield World(cores[0].tables, address, slave, caller, clock)


def change_all(tables: Tables) -> None:
    tables.topics.update(TopicSettings(name="t", read_queues=4, attributes={"a": "b"}), 5)
    tables.groups.update(GroupSettings(name="g", max_retries=3), 6)
    tables.groups.forbid("g", "t", 4, 7)
    tables.offsets.commit("g", "t", 0, QueueOffset(17))
    tables.delays.advance(2, QueueOffset(100))
    tables.modes.set(RequestMode(topic="t", consumer_group="g"))


async def test_a_slave_has_its_masters_tables_every_three_seconds(world: World) -> None:
    change_all(world.master)
    world.slave.topics.ensure("old", queues=1, now_ms=1)
    world.slave.groups.ensure("old", 1)
    async with running(world.poll().keep_polling(world.address), "tables"):
        await _asleep(world)
        assert world.differences == []
        world.master.topics.delete("t", 8)
        world.master.groups.forbid("g", "t", 0, 9)
        world.master.groups.delete("g", 10)
        world.master.offsets.commit("g", "t", 0, QueueOffset(18))
        await world.clock.advance(POLL_EVERY_MS)
        await _asleep(world)
        assert world.differences == []


async def _asleep(world: World) -> None:
    await until(lambda: any(not wake.done() for _, _, wake in world.clock._sleepers))


async def test_places_and_delays_are_as_the_master_has_them_under_whatever_version(
    world: World,
) -> None:
    world.slave.offsets.commit("g", "t", 0, QueueOffset(99))
    world.slave.offsets.commit("gone", "t", 0, QueueOffset(1))
    change_all(world.master)
    poll = world.poll()
    await poll.poll(world.address)
    assert world.differences == []
    world.master.offsets.commit("g", "t", 0, QueueOffset(5))  # as after a reset
    world.master.offsets.commit("g", "t", 1, QueueOffset(3))
    world.master.delays.advance(2, QueueOffset(101))
    world.master.delays._changes_at_version = world.master.delays.changes  # as Apache's often does
    await poll.poll(world.address)
    assert world.differences == []


async def test_what_a_master_forgot_in_a_crash_goes_forwards_only(world: World) -> None:
    change_all(world.master)
    poll = world.poll()
    await poll.poll(world.address)
    for table in (world.master.offsets, world.master.delays):
        table.version = DataVersion(counter=-1)
    world.master.offsets.commit("g", "t", 0, QueueOffset(5))
    world.master.offsets.commit("g", "t", 1, QueueOffset(3))
    world.master.delays.advance(2, QueueOffset(50))
    world.master.delays.advance(3, QueueOffset(7))
    world.master.delays._changes_at_version = world.master.delays.changes
    await poll.poll(world.address)
    assert world.slave.offsets.places("g", "t") == {0: 17, 1: 3}
    assert world.slave.delays.all() == {2: 100, 3: 7}
    assert world.slave.offsets.version != world.master.offsets.version


async def test_of_a_deleted_topic_queues_and_places_go_too(world: World) -> None:
    for topic in ("deleted", "forgotten"):
        await world.caller.call(world.address, message(topic, b"x" * 100))
    world.master.offsets.commit("g", "deleted", 0, QueueOffset(1))
    poll = world.poll()
    await poll.poll(world.address)
    assert (world.differences, world.cut) == ([], {})
    await world.caller.call(world.address, DeleteTopic(topic="deleted"))
    # Its table has lost the other one, and not its messages.
    world.master.topics.replicate((), ["forgotten"], {}, DataVersion(counter=1000))
    world.slave.offsets.commit("g", "deleted", 0, QueueOffset(1))
    await poll.poll(world.address)
    assert world.slave.topics.deleted() == ["deleted"]
    assert world.cut == {"deleted": world.slave.topics.deleted_to("deleted")}
    assert world.cut["deleted"] > 200
    assert world.differences == []


async def test_a_table_of_a_known_version_is_left_alone(world: World) -> None:
    poll = world.poll()
    await poll.poll(world.address)
    world.slave.topics.ensure("mine", queues=1, now_ms=1)
    await poll.poll(world.address)
    assert world.slave.topics.get("mine") is not None
    world.master.topics.renew(9)
    await poll.poll(world.address)
    assert world.slave.topics.get("mine") is None


async def test_a_master_that_gives_pages_is_asked_for_all_of_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        world.master.topics.ensure(f"t{number}", queues=1, now_ms=number)
        world.master.groups.ensure(f"g{number}", number)
    whole = topic_handlers.page_of

    def some(
        table: Mapping[str, Any],
        version: DataVersion,
        first: int | None,
        before: str | None,
        _: object,
    ) -> dict[str, Any]:
        return whole(table, version, first or 0, before, 7)

    monkeypatch.setattr(topic_handlers, "page_of", some)
    monkeypatch.setattr("rocketpipe.broker.handlers.groups.page_of", some)
    await world.poll().poll(world.address)
    assert world.differences == []


async def test_a_master_that_cannot_be_asked_is_told_of_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    poll = world.poll()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            await poll.poll("127.0.0.1:1")
    assert len([each for each in caplog.messages if "cannot be had" in each]) == 6
    change_all(world.master)
    await poll.poll(world.address)
    assert world.differences == []


@pytest.mark.parametrize(("said", "kept_from"), [("4096", [4096]), ("-1", [0]), ("", [])])
async def test_where_the_masters_log_begins_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch, said: str, kept_from: list[int]
) -> None:
    call = world.caller.call

    async def as_said(address: str, request: Any, within_ms: int) -> Any:
        reply = await call(address, request, within_ms)
        if isinstance(request, GetBrokerRuntimeInfo):
            reply.values.table["commitLogMinOffset"] = said
        return reply

    monkeypatch.setattr(world.caller, "call", as_said)
    await world.poll().poll(world.address)
    assert world.kept_from == kept_from
