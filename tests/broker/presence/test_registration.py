"""Brokers and NameServers, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.background import running
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.presence.registration import (
    SEEK_EVERY_MS,
    TELL_WITHIN_MS,
    WATCH_EVERY_MS,
    Registrar,
)
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import RequestRejected
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.registration import read_registration, registration_crc
from rocketpipe.protocol.requests.routes import (
    GetRouteInfoByTopic,
    RegisterBroker,
    RegisterBrokerReply,
    UnregisterBroker,
)
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing import ManualClock

ROUTE = GetRouteInfoByTopic(topic="TBW102")


def small_broker(data: Path, *name_servers: str) -> BrokerConfig:
    store = StoreConfig.embedded(data)
    return BrokerConfig(data=data, name_servers=name_servers, port=0, store=store)


async def test_a_broker_registers_with_every_name_server_that_is_there(tmp_path: Path) -> None:
    async with (
        name_server(NamesrvConfig(port=0)) as first,
        name_server(NamesrvConfig(port=0)) as second,
        Caller() as caller,
    ):
        config = small_broker(tmp_path, first, "127.0.0.1:1", second)
        async with broker(config) as address:
            for server in (first, second):
                reply = await caller.call(server, ROUTE)
                assert reply.route.brokers[0].leader == address
                assert reply.route.queues[0].perm == 7
        with pytest.raises(RequestRejected):
            await caller.call(first, ROUTE)


async def test_a_name_server_that_lost_its_memory_is_told_again_within_thirty_seconds(
    tmp_path: Path, lasting_port: int
) -> None:
    clock = ManualClock()
    async with name_server(NamesrvConfig(port=lasting_port)) as address, Caller() as caller:
        config = small_broker(tmp_path, address)
        serving = broker(config, clock=clock)
        await serving.__aenter__()
    async with name_server(NamesrvConfig(port=lasting_port)) as address, Caller() as caller:
        with pytest.raises(RequestRejected):
            await caller.call(address, ROUTE)
        await clock.advance(30_000)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    await caller.call(address, ROUTE)
                    break
                except RequestRejected:
                    continue
        await serving.__aexit__(None, None, None)


class NameServer:
    """Notes what it is told; answers, refuses or says nothing."""

    def __init__(self) -> None:
        self.told: list[RegisterBroker] = []
        self.left = 0
        self.mute = False
        self.refuses: Callable[[RegisterBroker], bool] = lambda _: False
        self.reply = RegisterBrokerReply()
        self.answers = asyncio.Event()
        self.answers.set()
        self.goodbyes: list[UnregisterBroker] = []

    @handles(RegisterBroker)
    async def register(self, request: RegisterBroker, call: Call) -> RegisterBrokerReply:
        if self.mute:
            await asyncio.Event().wait()
        if self.refuses(request):
            raise RequestRejected(1, "register broker failed")
        self.told.append(request)
        await self.answers.wait()
        return self.reply

    @handles(UnregisterBroker)
    async def unregister(self, request: UnregisterBroker, call: Call) -> None:
        self.left += 1
        self.goodbyes.append(request)

    def topics(self) -> list[set[str]]:
        """The topics of each registration since the last look."""
        told, self.told = self.told, []
        return [set(read_registration(each.body).topic_table.topics) for each in told]

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[str]:
        async with Server.bound("127.0.0.1", port) as server:
            async with server.serving(Router(self).answer):
                yield server.address


@asynccontextmanager
async def registrar(
    *addresses: str, clock: ManualClock, **settings: Any
) -> AsyncIterator[tuple[Registrar, TopicTable]]:
    topics = TopicTable(default_topic_queues=8)
    topics.ensure("t", queues=1, now_ms=1)
    config = BrokerConfig(data=Path(), name_servers=addresses, **settings)
    async with Caller() as caller:
        yield Registrar(config, "10.0.0.9:10911", topics, caller, clock), topics


async def until(condition: Callable[[], bool], clock: ManualClock, step_ms: int = 0) -> None:
    """Let the servers talk, and time pass, until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await clock.advance(step_ms)


async def test_all_topics_are_told_first_and_then_those_that_changed() -> None:
    server = NameServer()
    async with (
        server.listening() as address,
        registrar(address, clock=ManualClock()) as (registering, topics),
    ):
        topics.ensure("early", queues=1, now_ms=1)
        await registering.register(changed=["early"])
        assert server.topics() == [{"TBW102", "t", "early"}]
        topics.ensure("late", queues=1, now_ms=1)
        await registering.register(changed=["late", "deleted meanwhile"])
        assert server.topics() == [{"late"}]
        await registering.register()
        assert server.topics() == [{"TBW102", "t", "early", "late"}]
        await registering.unregister()
        assert server.left == 1


async def test_a_registration_has_its_checksum_and_how_long_silence_may_last() -> None:
    server = NameServer()
    async with (
        server.listening() as address,
        registrar(address, clock=ManualClock()) as (registering, topics),
    ):
        await registering.register()
        (told,) = server.told
        assert told.body_crc32 == registration_crc(told.body) != 0
        assert told.heartbeat_timeout_millis == 120_000
        assert told.broker_addr == "10.0.0.9:10911"
        assert read_registration(told.body).topic_table.version == topics.version


@pytest.mark.parametrize(("permission", "perms"), [(6, {7, 6}), (4, {4}), (2, {2}), (0, {0})])
async def test_topics_allow_no_more_than_the_broker(permission: int, perms: set[int]) -> None:
    server = NameServer()
    async with (
        server.listening() as address,
        registrar(address, clock=ManualClock(), permission=permission) as (registering, _),
    ):
        await registering.register()
        table = read_registration(server.told[0].body).topic_table
        assert {topic.perm for topic in table.topics.values()} == perms


async def test_what_changes_at_the_same_time_is_told_together() -> None:
    server = NameServer()
    async with (
        server.listening() as address,
        registrar(address, clock=ManualClock()) as (registering, topics),
    ):
        await registering.register()
        server.topics()
        names = {f"t{number}" for number in range(50)}
        for name in names:
            topics.ensure(name, queues=1, now_ms=1)
        await asyncio.gather(*(registering.register(changed=[name]) for name in names))
        told = server.topics()
        assert set().union(*told) == names
        assert len(told) == 2


async def test_one_that_says_nothing_keeps_a_change_waiting_a_second_and_only_once() -> None:
    mute, server, clock = NameServer(), NameServer(), ManualClock()
    async with (
        mute.listening() as first,
        server.listening() as second,
        registrar(first, second, clock=clock) as (registering, topics),
    ):
        await registering.register()
        mute.topics()
        mute.mute = True
        topics.ensure("late", queues=1, now_ms=1)
        asking = asyncio.create_task(registering.register(changed=["late"]))
        await until(lambda: len(server.told) == 2, clock)
        await clock.advance(TELL_WITHIN_MS - 1)
        assert not asking.done()
        await clock.advance(1)
        await asyncio.wait_for(asking, PATIENCE_S)
        topics.ensure("later", queues=1, now_ms=1)
        await asyncio.wait_for(registering.register(changed=["later"]), PATIENCE_S)
        assert server.topics()[-1] == {"later"}
        mute.mute = False
        async with running(registering.keep_registered(), "registration"):
            await until(lambda: bool(mute.told), clock, WATCH_EVERY_MS)
        assert mute.topics() == [{"TBW102", "t", "late", "later"}]


async def test_one_that_forgot_us_is_told_everything_at_once() -> None:
    server = NameServer()
    async with (
        server.listening() as address,
        registrar(address, clock=ManualClock()) as (registering, topics),
    ):
        await registering.register()
        server.topics()
        # RocketMQ refuses a broker that comes with one topic and that it does not know.
        server.refuses = lambda asked: len(read_registration(asked.body).topic_table.topics) == 1
        topics.ensure("late", queues=1, now_ms=1)
        await registering.register(changed=["late"])
        assert server.topics() == [{"TBW102", "t", "late"}]


async def test_one_that_comes_back_is_told_everything_within_a_second(lasting_port: int) -> None:
    clock, server = ManualClock(), NameServer()
    async with registrar(f"127.0.0.1:{lasting_port}", clock=clock) as (registering, _):
        async with server.listening(lasting_port):
            await registering.register()
            server.topics()
        async with running(registering.keep_registered(), "registration"):
            await clock.advance(3 * WATCH_EVERY_MS)
            async with server.listening(lasting_port):
                await until(lambda: bool(server.told), clock, WATCH_EVERY_MS)
                assert server.topics() == [{"TBW102", "t"}]


@pytest.mark.parametrize(
    ("every_ms", "really_ms"), [(30_000, 30_000), (1000, 10_000), (600_000, 60_000)]
)
async def test_it_registers_again_and_again_within_bounds(every_ms: int, really_ms: int) -> None:
    clock, server = ManualClock(), NameServer()
    async with (
        server.listening() as address,
        registrar(address, clock=clock, register_every_ms=every_ms) as (registering, _),
    ):
        await registering.register()
        server.topics()
        async with running(registering.keep_registered(), "registration"):
            await clock.advance(0)
            await clock.advance(really_ms - 1)
            assert server.topics() == []
            await clock.advance(1)
            await until(lambda: bool(server.told), clock)
            assert server.topics() == [{"TBW102", "t"}]


async def test_what_changed_is_told_though_who_asked_has_gone() -> None:
    clock, server = ManualClock(), NameServer()
    async with (
        server.listening() as address,
        registrar(address, clock=clock) as (registering, topics),
    ):
        await registering.register()
        server.topics()
        topics.ensure("late", queues=1, now_ms=1)
        asking = asyncio.create_task(registering.register(changed=["late"]))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        async with running(registering.keep_registered(), "registration"):
            everything = {"TBW102", "t", "late"}
            await until(lambda: everything in server.topics(), clock, WATCH_EVERY_MS)


async def test_a_name_server_that_is_not_there_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    async with registrar("127.0.0.1:1", clock=clock) as (registering, _):
        await registering.register()
        async with running(registering.keep_registered(), "registration"):
            await clock.advance(20 * WATCH_EVERY_MS)
            await registering.register()
    assert [record.getMessage()[:44] for record in caplog.records] == [
        "name server not told address=127.0.0.1:1 rea"
    ]


async def test_a_change_is_settled_before_anyone_is_told_of_it(tmp_path: Path) -> None:
    settled: list[bool] = []
    async with name_server(NamesrvConfig(port=0)) as server, Caller() as caller:
        topics = TopicTable(8)
        topics.ensure("t", queues=4, now_ms=1)
        asking = GetRouteInfoByTopic(topic="t")

        async def settle() -> None:
            with pytest.raises(RequestRejected):
                await caller.call(server, asking)
            settled.append(True)

        config = small_broker(tmp_path, server)
        registrar = Registrar(config, "127.0.0.1:1", topics, caller, ManualClock(), settled=settle)
        await registrar.register(changed=["t"])
        assert settled == [True]
        assert (await caller.call(server, asking)).route.queues


async def test_what_nobody_counts_on_is_told_without_being_settled(tmp_path: Path) -> None:
    settled = 0

    async def settle() -> None:
        nonlocal settled
        settled += 1

    async with name_server(NamesrvConfig(port=0)) as server, Caller() as caller:
        topics = TopicTable(8)
        topics.ensure("t", queues=4, now_ms=1)
        config = small_broker(tmp_path, server)
        registrar = Registrar(config, "127.0.0.1:1", topics, caller, ManualClock(), settled=settle)
        await registrar.register(["t"], settle=False)
        assert (await caller.call(server, GetRouteInfoByTopic(topic="t"))).route.queues
        assert settled == 0
        # Told in one go with another that somebody does count on.
        await asyncio.gather(registrar.register(["t"], settle=False), registrar.register(["t"]))
        assert settled == 1


async def test_what_is_registered_is_what_the_broker_stands_for() -> None:
    server = NameServer()
    async with (
        server.listening() as address,
        registrar(address, clock=ManualClock()) as (registering, topics),
    ):
        await registering.register()
        (before,) = server.told
        assert (before.broker_id, before.ha_server_addr) == (0, "")
        assert read_registration(before.body).topic_table.version.state_version == 0
        server.topics()
        registering.stand(0, "10.0.0.9:10912", epoch=7)
        topics.ensure("late", queues=1, now_ms=1)
        await registering.register(["late"])
        (told,) = server.told
        assert (told.broker_id, told.ha_server_addr) == (0, "10.0.0.9:10912")
        table = read_registration(told.body).topic_table
        assert table.topics.keys() == {"TBW102", "t", "late"}, "all, as it is another now"
        assert table.version.state_version == 7
        assert told.body_crc32 == registration_crc(told.body)
        server.topics()
        topics.ensure("later", queues=1, now_ms=1)  # its version's own state is 0 again
        await registering.register(["later"])
        version = read_registration(server.told[0].body).topic_table.version
        assert (version.state_version, version.counter) == (7, topics.version.counter)
        assert server.topics() == [{"later"}]
        registering.stand(3, "10.0.0.9:10912", epoch=8)
        await registering.unregister()
        assert server.goodbyes[0].broker_id == 3


async def test_a_follower_hears_who_leads_and_leaves_topics_to_the_leader() -> None:
    server, clock = NameServer(), ManualClock()
    async with (
        server.listening() as address,
        registrar("127.0.0.1:1", address, clock=clock) as (registering, topics),
    ):
        registering.stand(2, "10.0.0.9:10912", epoch=1)
        assert registering.master is None
        await registering.register()
        assert (server.told[0].broker_id, server.topics()) == (2, [set()])
        assert registering.master is None
        topics.ensure("late", queues=1, now_ms=1)
        await registering.register(["late"])
        assert server.topics() == []
        server.reply = RegisterBrokerReply(master_addr="m:1", ha_server_addr="m:2")
        async with running(registering.keep_registered(), "registration"):
            # One that follows nobody asks sooner than every thirty seconds.
            await clock.advance(0)
            await clock.advance(SEEK_EVERY_MS)
            await until(lambda: registering.master == ("m:1", "m:2"), clock)
            server.topics()
            await clock.advance(2 * SEEK_EVERY_MS)
            assert server.topics() == []
        registering.stand(0, "10.0.0.9:10912", epoch=2)
        assert registering.master is None


async def test_a_broker_without_a_place_yet_is_not_told_of() -> None:
    server, clock = NameServer(), ManualClock()
    async with (
        server.listening() as address,
        registrar(address, clock=clock, broker_id=-1) as (registering, _),
    ):
        await registering.register()
        async with running(registering.keep_registered(), "registration"):
            await clock.advance(40_000)
            await registering.unregister()
            assert (server.told, server.left) == ([], 0)
            registering.stand(1, "", epoch=1)
            await until(lambda: bool(server.told), clock, WATCH_EVERY_MS)


async def test_an_answer_to_what_is_no_longer_so_does_not_count() -> None:
    server, clock = NameServer(), ManualClock()
    async with (
        server.listening() as address,
        registrar(address, clock=clock) as (registering, _),
    ):
        registering.stand(1, "", epoch=1)
        server.reply = RegisterBrokerReply(master_addr="old:1", ha_server_addr="old:2")
        server.answers.clear()
        asking = asyncio.create_task(registering.register())
        await until(lambda: bool(server.told), clock)
        registering.stand(0, "", epoch=2)
        server.answers.set()
        await asking
        assert registering.master is None
        before_ms = clock.monotonic_ms()
        async with running(registering.keep_registered(), "registration"):
            await until(lambda: len(server.told) == 2, clock, WATCH_EVERY_MS)
        assert [each.broker_id for each in server.told] == [1, 0]
        assert clock.monotonic_ms() - before_ms < 10 * WATCH_EVERY_MS, "not only when it is due"


async def test_after_a_failover_there_is_one_leader_and_readers_keep_their_follower() -> None:
    clock = ManualClock()
    route = GetRouteInfoByTopic(topic="t")
    async with name_server(NamesrvConfig(port=0)) as names, Caller() as asking:

        @asynccontextmanager
        async def one(address: str) -> AsyncIterator[Registrar]:
            topics = TopicTable(default_topic_queues=8)
            topics.ensure("t", queues=1, now_ms=1)
            config = BrokerConfig(data=Path(), name_servers=(names,))
            async with Caller() as caller:
                yield Registrar(config, address, topics, caller, clock)

        async def places() -> dict[int, str]:
            (broker,) = (await asking.call(names, route)).route.brokers
            return dict(broker.addresses)

        async with one("b:1") as second:
            async with one("a:1") as first:
                first.stand(0, "a:2", epoch=1)
                await first.register()
                second.stand(2, "b:2", epoch=1)
                await second.register()
                assert second.master == ("a:1", "a:2")
                assert await places() == {0: "a:1", 2: "b:1"}
                second.stand(0, "b:2", epoch=2)
                await second.register()
                assert await places() == {0: "b:1"}
                await first.register()  # it has not heard yet that it leads no longer
                assert await places() == {0: "b:1"}
                first.stand(1, "a:2", epoch=2)
                await first.register()
                assert first.master == ("b:1", "b:2")
                assert await places() == {0: "b:1", 1: "a:1"}
            async with asyncio.timeout(PATIENCE_S):
                while 1 in await places():  # its connection ended, and with it its place
                    pass
            second.stand(2, "b:2", epoch=2)
            await second.register()
            assert await places() == {2: "b:1"}
