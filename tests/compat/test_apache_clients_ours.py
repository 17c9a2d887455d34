"""Our client with Apache's servers, while things break: the plays of ``tests/scenarios``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from tests.compat.support.apache import BROKER, Apache
from tests.scenarios.support import shared_scenarios as plays
from tests.scenarios.support.hurried_clock import SPEED
from tests.scenarios.support.scenario_clients import PATIENCE_S, Cast

from rocketpipe import Admin, Producer, PullConsumer, Session
from rocketpipe.client.producer.sending.batching import Batching
from rocketpipe.testing.histories.checker import assert_clean

pytestmark = pytest.mark.compat

#: Apache's clock does not hurry as our clients' do, so that its locks have to be shorter.
LOCK_MS = 60_000 // SPEED
DELAYS = "1s 1s 1s 1s 1s 1s"


class Killed(Exception):
    """Thrown into a server's block, which then ends without a word to the server."""


class Running:
    """A server that can be killed."""

    def __init__(self, block: AbstractAsyncContextManager[str]) -> None:
        self._block = block
        self.address = ""

    async def start(self) -> str:
        self.address = await self._block.__aenter__()
        return self.address

    async def stop(self) -> None:
        await self._block.__aexit__(None, None, None)

    async def kill(self) -> None:
        with contextlib.suppress(Killed):
            await self._block.__aexit__(Killed, Killed(), None)


class ApacheStage:
    """Two brokers and a NameServer of Apache's."""

    def __init__(self, apache: Apache, directory: Path) -> None:
        self._apache = apache
        self._directory = directory
        self._running: dict[str, Running] = {}
        self.name_servers = ""

    @classmethod
    @asynccontextmanager
    async def running(cls, apache: Apache, directory: Path) -> AsyncIterator[ApacheStage]:
        stage = cls(apache, directory)
        try:
            await stage.start_name_servers()
            await stage._start(BROKER)
            await stage.start_broker()
            yield stage
        finally:
            for server in reversed(stage._running.values()):
                await server.kill()

    async def kill_broker(self) -> None:
        await self._running.pop(plays.LOST_BROKER).kill()

    async def start_broker(self) -> None:
        await self._start(plays.LOST_BROKER)

    async def kill_name_servers(self) -> None:
        await self._running.pop("names").kill()

    async def start_name_servers(self) -> None:
        directory = self._directory / "names"
        directory.mkdir(exist_ok=True)
        port = int(self.name_servers.rpartition(":")[2]) if self.name_servers else None
        server = Running(self._apache.name_server(directory, port))
        self.name_servers = await server.start()
        self._running["names"] = server

    async def _start(self, name: str) -> None:
        directory = self._directory / name
        directory.mkdir(exist_ok=True)
        # The least that it takes: after the NameServer was gone, this is how long nobody is known.
        settings = {"brokerName": name, "registerNameServerPeriod": 10_000}
        server = Running(self._apache.broker(directory, self.name_servers, **settings))
        self._running[name] = server
        await server.start()


async def until_both_are_known(name_servers: str) -> None:
    async with Admin(name_servers) as admin, asyncio.timeout(PATIENCE_S):
        while len(await admin.brokers.all()) < 2:  # noqa: ASYNC110 - they register in their time
            await asyncio.sleep(0.05)


async def test_neither_a_killed_broker_nor_a_lost_name_server_lose_a_message(
    apache: Apache, tmp_path: Path
) -> None:
    async with ApacheStage.running(apache, tmp_path) as stage:
        await until_both_are_known(stage.name_servers)
        async with Cast(tmp_path / "history", stage.name_servers) as cast:
            await plays.outages(cast, stage)
            assert_clean(cast.history())


async def test_a_storm_order_with_kills_broadcasts_and_dead_letters(
    apache: Apache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = f"-Drocketmq.broker.rebalance.lockMaxLiveTime={LOCK_MS}"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", option)
    async with apache.cluster(tmp_path, messageDelayLevel=DELAYS) as servers:
        async with Cast(tmp_path / "storm", servers.name_servers) as cast:
            await plays.storm(cast)
            assert_clean(cast.history())
        async with Cast(tmp_path / "ordered", servers.name_servers) as cast:
            await plays.ordered_with_kills(cast)
            assert_clean(cast.history())
        async with Cast(tmp_path / "news", servers.name_servers) as cast:
            await plays.broadcast_and_dead_letters(cast)
            assert_clean(cast.history())
        await _send_and_pull(servers.name_servers)


async def _send_and_pull(name_servers: str) -> None:
    """All ways to send that leave different bytes, and what comes back by pulling."""
    async with Session(name_servers) as session:
        async with Admin(session) as admin:
            await admin.topics.create("pulled", queues=2)
        sent = {b"plain", b"z" * 10_000, b"one way", b"called back"}
        async with Producer(session) as producer:
            await producer.send("pulled", b"plain", tags="paid", keys=["A1"])
            await producer.send("pulled", b"z" * 10_000)  # which is compressed
            await producer.send_oneway("pulled", b"one way")
            await producer.send_async("pulled", b"called back", callback=lambda result: None)
        async with Producer(session, group="batching", batching=Batching()) as producer:
            for number in range(20):
                await producer.send_async("pulled", b"%d" % number, callback=lambda result: None)
                sent.add(b"%d" % number)
        async with PullConsumer(session, group="pullers") as consumer:
            await consumer.subscribe("pulled")
            got: list[bytes] = []
            async with asyncio.timeout(PATIENCE_S):
                while len(got) < len(sent):
                    got += [message.body for message in await consumer.poll()]
            await consumer.commit()
        assert sorted(got) == sorted(sent)
        async with Admin(session) as admin:
            places = await admin.offsets.of_group("pullers", "pulled")
        assert sum(place.committed or 0 for place in places) == len(sent)
