"""Sends that wait for replicas are answered alike on the fast path and by the handlers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker.fast_path.test_fast_path import ask, pull, send
from tests.broker.support.leader_parts import ME, Told, elected, fixed
from tests.broker.support.scripted_follower import ScriptedFollower, following
from tests.twins import each_way
from tests.waiting import PATIENCE_S, until

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.fast_path import sending, turn
from rocketpipe.broker.replication.epochs import EpochTable
from rocketpipe.broker.replication.leading.followers import Followers
from rocketpipe.broker.replication.leading.ha_port import ha_port
from rocketpipe.protocol.command import ONEWAY, Command
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.record.codec import view_records
from rocketpipe.remoting.caller import split_address
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.derived import undispatched

SOON = {"slave_timeout_ms": 50}


class Led:
    """A broker, its followers and one that a test speaks for."""

    def __init__(self, address: str, core: Core, followers: Followers) -> None:
        self.address = address
        self.core = core
        self.followers = followers
        self.slave: ScriptedFollower | None = None
        self.began = core.store.positions.written

    async def stored(self) -> None:
        """Wait until something is stored behind what was there first."""
        await until(lambda: self.core.store.positions.written > self.began)

    def step_down(self) -> None:
        """As a role does that has lost its leadership."""
        self.core.standing.refusal = (14, "no longer master, the leader is 10.0.0.7:10911")
        self.followers.fail(*self.core.standing.refusal)

    async def asked(self, *commands: Command) -> bytes:
        """The very bytes of the answers, in the order of their coming."""
        reader, writer = await asyncio.open_connection(*split_address(self.address))
        writer.write(b"".join(map(encode_frame, commands)))
        wire, found, answers = Connection(), b"", 0
        async with asyncio.timeout(PATIENCE_S):
            while answers < len(commands):
                data = await reader.read(1 << 16)
                assert data, "the connection was closed"
                found += data
                answers += len(wire.receive(data))
        writer.close()
        return found


@asynccontextmanager
async def led(
    root: Path,
    config: ReplicationConfig,
    *,
    lane: bool = True,
    in_sync: Collection[int] = (),
    slave: bool = True,
    flush: FlushMode = FlushMode.ASYNC,
) -> AsyncIterator[Led]:
    cores: list[Core] = []
    settings = BrokerConfig(
        data=root, name_servers=(), port=0, store=StoreConfig.embedded(root, flush=flush)
    )
    around: Any = None if lane else lambda answer: answer
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(
            broker(settings, watch=cores.append, around=around)
        )
        (core,) = cores
        await ask(address, send(1, queue_id=0))  # makes the topic
        port = await stack.enter_async_context(ha_port("127.0.0.1", 0))
        followers = Followers(
            core.store,
            EpochTable(core.disk, root / "epochFileCheckpoint"),
            core.clock,
            config,
            me=ME,
            epoch=1,
            in_sync=frozenset(in_sync) if config.elected else None,
            change_in_sync=Told() if config.elected else None,
            moved=core.visibility.dispatch,
            hold=core.pins.hold,
        )
        stack.callback(followers.fail, 14, "over")
        port.serve(lambda: followers)
        core.standing.followers = followers
        one = Led(address, core, followers)
        if slave:
            end = core.store.positions.written
            one.slave = await stack.enter_async_context(following(port.address, 2, end))
            await until(followers.status)
        yield one


def alike(told: bytes) -> bytes:
    """An answer without what names the broker's port."""
    return re.sub(rb"[0-9A-F]{32}", b"ID", told)


async def on_both_ways(
    root: Path, then: Callable[[Led], None] | None, config: ReplicationConfig, **given: Any
) -> Command:
    """What a send is answered, which is the same on both ways."""
    told = []
    for name in ("quick", "slow"):
        async with led(root / name, config, lane=name == "quick", **given) as one:
            asking = asyncio.ensure_future(one.asked(send(7)))
            if then is not None:
                await one.stored()
                then(one)
            told.append(await asking)
    quick, slow = told
    assert alike(quick) == alike(slow)
    (answer,) = Connection().receive(quick)
    return answer


def reports(one: Led) -> None:
    assert one.slave is not None
    one.slave.reports = True
    if one.slave.log:
        one.slave.report(one.slave.end)


def steps_down(one: Led) -> None:
    one.step_down()


FLUSHES = pytest.mark.parametrize("flush", FlushMode)


@FLUSHES
@pytest.mark.parametrize(("config", "in_sync"), [(fixed(), ()), (elected(), {1, 2})])
async def test_what_replicas_have_is_sent(
    tmp_path: Path, flush: FlushMode, config: ReplicationConfig, in_sync: Collection[int]
) -> None:
    answer = await on_both_ways(tmp_path, reports, config, in_sync=in_sync, flush=flush)
    assert (answer.code, answer.fields["queueOffset"]) == (0, "0")


async def test_without_a_slave_that_is_said(tmp_path: Path) -> None:
    answer = await on_both_ways(tmp_path, None, fixed(min_in_sync=1), slave=False)
    assert (answer.code, answer.fields["queueOffset"]) == (11, "0")


@FLUSHES
async def test_a_slave_that_takes_too_long_is_said(tmp_path: Path, flush: FlushMode) -> None:
    answer = await on_both_ways(tmp_path, None, fixed(**SOON), flush=flush)
    assert (answer.code, answer.fields["queueOffset"]) == (12, "0")


@FLUSHES
async def test_where_leaders_are_elected_that_is_an_error(tmp_path: Path, flush: FlushMode) -> None:
    answer = await on_both_ways(tmp_path, None, elected(**SOON), in_sync={1, 2}, flush=flush)
    assert (answer.code, answer.fields) == (1, {})
    assert answer.remark is not None
    assert "whether it stays is not known" in answer.remark


async def test_with_too_few_copies_nothing_is_stored(tmp_path: Path) -> None:
    answer = await on_both_ways(tmp_path, None, elected(), in_sync={1}, slave=False)
    assert answer.code == 1
    assert answer.remark is not None
    assert answer.remark.startswith("in-sync replicas not enough")
    async with led(tmp_path / "more", elected(), in_sync={1}, slave=False) as one:
        before = one.core.store.positions.written
        await one.asked(send(7))
        assert one.core.store.positions.written == before


@FLUSHES
async def test_who_waits_when_the_leadership_is_lost_is_told_to_go_elsewhere(
    tmp_path: Path, flush: FlushMode
) -> None:
    answer = await on_both_ways(tmp_path, steps_down, fixed(), flush=flush)
    assert (answer.code, answer.fields) == (14, {})
    assert answer.remark == "no longer master, the leader is 10.0.0.7:10911"


async def test_who_comes_later_is_told_the_same(tmp_path: Path) -> None:
    async with led(tmp_path, fixed()) as one:
        one.step_down()
        before = one.core.store.positions.written
        (answer,) = Connection().receive(await one.asked(send(7)))
        assert (answer.code, answer.remark) == one.core.standing.refusal
        assert one.core.store.positions.written == before


async def test_nothing_is_appended_by_who_was_let_in_before(tmp_path: Path) -> None:
    """A send may wait for its topic to be saved, while the broker stops to lead."""
    async with led(tmp_path, fixed()) as one:
        before = one.core.store.positions.written
        asking = asyncio.ensure_future(one.asked(send(7, topic="new")))
        await until(lambda: one.core.tables.topics.get("new"))
        one.step_down()
        (answer,) = Connection().receive(await asking)
        assert (answer.code, answer.remark) == one.core.standing.refusal
        assert one.core.store.positions.written == before


async def test_a_turns_sends_wait_with_one_entry_and_show_when_they_are_acknowledged(
    tmp_path: Path,
) -> None:
    async with led(tmp_path, fixed()) as one:
        assert one.slave is not None
        asking = asyncio.ensure_future(one.asked(*(send(n) for n in range(2, 102))))
        await until(lambda: one.followers.waiting)
        await until(lambda: one.slave and one.slave.end == one.core.store.positions.written)
        assert one.followers.waiting < 10
        assert one.core.store.max_offset("t", 1) == 0
        one.slave.report(one.slave.end)
        told = Connection().receive(await asking)
        assert [each.code for each in told] == [0] * 100
        assert [each.fields["queueOffset"] for each in told] == [str(n) for n in range(100)]
        (found,) = await ask(one.address, pull(1, 0, max_msg_nums=200))
        assert len(list(view_records(found.body))) > 10


async def test_who_does_not_wait_is_answered_at_once_and_shown_later(tmp_path: Path) -> None:
    async with led(tmp_path, fixed()) as one:
        assert one.slave is not None
        properties = "WAIT\x01false\x02UNIQ_KEY\x01" + "7" * 32
        (answer,) = Connection().receive(await one.asked(send(7, properties=properties)))
        assert answer.code == 0
        assert one.core.store.max_offset("t", 1) == 0
        reports(one)
        await until(lambda: one.core.store.max_offset("t", 1) == 1)


async def test_one_way_sends_wait_for_nothing(tmp_path: Path) -> None:
    async with led(tmp_path, fixed()) as one:
        _, writer = await asyncio.open_connection(*split_address(one.address))
        before = one.core.store.positions.written
        oneway = send(7)
        oneway = Command(
            code=oneway.code,
            opaque=7,
            flag=ONEWAY,
            fields=oneway.fields,
            body=oneway.body,
            language=oneway.language,
            version=oneway.version,
        )
        writer.write(encode_frame(oneway))
        await until(lambda: one.core.store.positions.written > before)
        reports(one)
        await until(lambda: one.core.store.max_offset("t", 1) == 1)
        writer.close()


async def test_an_end_of_the_broker_waits_for_those_answers(tmp_path: Path) -> None:
    async with led(tmp_path, fixed(**SOON)) as one:
        asking = asyncio.ensure_future(one.asked(send(7)))
        await until(lambda: one.followers.waiting)
    (answer,) = Connection().receive(await asking)
    assert answer.code in (12, 14)


async def test_what_a_long_turn_stores_before_its_end_is_not_read_back_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores: list[Core] = []
    settings = BrokerConfig(
        data=tmp_path, name_servers=(), port=0, store=StoreConfig.embedded(tmp_path)
    )

    def not_read(*_: Any, **__: Any) -> Any:
        raise AssertionError("the log is read")

    with each_way("python", sending):
        async with broker(settings, watch=cores.append) as address:
            (core,) = cores
            store = core.store
            await ask(address, send(1, queue_id=0))  # makes the topic
            await until(lambda: store.positions.dispatched == store.positions.written)
            # A turn is stored with each send, and no more is kept than one append.
            for module in (turn, sending):
                monkeypatch.setattr(module, "TURN_BYTES", 0)
            monkeypatch.setattr(undispatched, "UNDISPATCHED_BYTES", 1)
            monkeypatch.setattr(store.commit_log, "walk", not_read)
            answers = await ask(address, *(send(number, queue_id=0) for number in range(2, 30)))
            assert {answer.code for answer in answers} == {0}
            await until(lambda: store.positions.dispatched == store.positions.written)
