"""Two brokers and two NameServers, each a process of its own, killed and started again."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.ports import lasting_ports
from tests.waiting import PATIENCE_S

from rocketpipe import Producer, PullConsumer
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.route import TopicRoute
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.protocol.requests.topics import UpdateAndCreateTopic
from rocketpipe.remoting.caller import Caller

pytestmark = pytest.mark.scenario

BROKERS = ("broker-a", "broker-b")


class Servers:
    """Four servers by name; each can be killed, and started again where it was."""

    def __init__(self, scratch: Path) -> None:
        first, second, a, b = lasting_ports(4)
        self.name_servers = (f"127.0.0.1:{first}", f"127.0.0.1:{second}")
        self.brokers = dict(zip(BROKERS, (f"127.0.0.1:{a}", f"127.0.0.1:{b}"), strict=True))
        self._scratch = scratch
        self._processes: dict[str, subprocess.Popen[str]] = {}

    @property
    def all_name_servers(self) -> str:
        return ";".join(self.name_servers)

    def start(self, *names: str) -> None:
        for name in names:
            command = [sys.executable, "-m", "rocketpipe.cli.main", *self._arguments(name)]
            with (self._scratch / f"{name.replace(':', '_')}.log").open("a") as log:
                self._processes[name] = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=log, text=True
                )
        for name in names:
            self._await_ready(name)

    def _arguments(self, name: str) -> list[str]:
        if name in self.name_servers:
            return ["namesrv", "--port", name.rpartition(":")[2]]
        conf = self._scratch / f"{name}.conf"
        conf.write_text(f"profile=dev\nbrokerName={name}\nnamesrvAddr={self.all_name_servers}\n")
        port = self.brokers[name].rpartition(":")[2]
        data = str(self._scratch / name)
        return ["broker", "-c", str(conf), "--data", data, "--port", port, "--small-files"]

    def _await_ready(self, name: str) -> None:
        output = self._processes[name].stdout
        assert output is not None
        assert select.select([output], [], [], PATIENCE_S)[0], f"{name} says nothing"
        line = ""
        while not line.startswith("ready "):
            line = output.readline()
            assert line, f"{name} did not start"

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        with process:
            process.wait(PATIENCE_S)

    def stop(self) -> None:
        with ExitStack() as stack:
            for process in self._processes.values():
                stack.enter_context(process)
                process.kill()


@contextmanager
def four_servers(scratch: Path) -> Iterator[Servers]:
    servers = Servers(scratch)
    try:
        servers.start(*servers.name_servers)
        servers.start(*BROKERS)
        yield servers
    finally:
        servers.stop()


class Tool:
    """Asks any of the servers, on connections of its own."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def ask(self, address: str, request: Request[Any]) -> Any:
        return await self._caller.call(address, request, PATIENCE_S * 1000)

    async def route_until(
        self, name_server: str, topic: str, so: Callable[[TopicRoute], bool]
    ) -> TopicRoute:
        """Ask for a topic's route until it is so."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    reply = await self.ask(name_server, GetRouteInfoByTopic(topic=topic))
                except RocketPipeError:
                    continue
                route: TopicRoute = reply.route
                if so(route):
                    return route


def held_by(*names: str) -> Callable[[TopicRoute], bool]:
    def so(route: TopicRoute) -> bool:
        return {broker.broker_name for broker in route.brokers} == set(names) and {
            held.broker_name for held in route.queues
        } == set(names)

    return so


def create(topic: str) -> UpdateAndCreateTopic:
    return UpdateAndCreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=2,
        write_queue_nums=2,
        perm=6,
    )


async def send(name_servers: str, topic: str, bodies: list[bytes]) -> set[str]:
    """Send each message until it is stored; gives the brokers that took them."""
    used = set()
    async with Producer(name_servers) as producer, asyncio.timeout(PATIENCE_S):
        for body in bodies:
            while True:
                try:
                    result = await producer.send(topic, body)
                except RocketPipeError as error:
                    if error.retryable or error.stale_route:
                        continue
                    raise
                used.add(result.queue.broker_name)
                break
    return used


async def read(name_servers: str, topic: str, wanted: set[bytes]) -> set[bytes]:
    """Read a topic from its start until everything wanted has come."""
    found: set[bytes] = set()
    async with PullConsumer(name_servers, group="readers") as consumer:
        await consumer.subscribe(topic)
        async with asyncio.timeout(PATIENCE_S):
            while not wanted <= found:
                found |= {message.body for message in await consumer.poll()}
    return found


def bodies(word: str) -> list[bytes]:
    return [f"{word} {number}".encode() for number in range(8)]


async def test_a_topic_lives_on_both_brokers_and_outlives_either(tmp_path: Path) -> None:
    with four_servers(tmp_path) as servers:
        async with Caller() as caller:
            tool = Tool(caller)
            for name_server in servers.name_servers:
                await tool.route_until(name_server, "TBW102", held_by(*BROKERS))
            for address in servers.brokers.values():
                await tool.ask(address, create("orders"))
            for name_server in servers.name_servers:
                # Known everywhere before the creation was answered: the first look finds it.
                reply = await tool.ask(name_server, GetRouteInfoByTopic(topic="orders"))
                assert held_by(*BROKERS)(reply.route)
                assert len(reply.route.writable_queues("orders")) == 4
            first = bodies("both")
            assert await send(servers.all_name_servers, "orders", first) == set(BROKERS)

            servers.kill("broker-b")
            for name_server in servers.name_servers:
                await tool.route_until(name_server, "orders", held_by("broker-a"))
            second = bodies("one")
            assert await send(servers.all_name_servers, "orders", second) == {"broker-a"}

            servers.start("broker-b")
            for name_server in servers.name_servers:
                await tool.route_until(name_server, "orders", held_by(*BROKERS))
            third = bodies("again")
            assert await send(servers.all_name_servers, "orders", third) == set(BROKERS)
        everything = {*first, *second, *third}
        assert await read(servers.all_name_servers, "orders", everything) == everything


async def test_a_name_server_that_comes_back_soon_knows_all_again(tmp_path: Path) -> None:
    with four_servers(tmp_path) as servers:
        kept, lost = servers.name_servers
        async with Caller() as caller:
            tool = Tool(caller)
            for address in servers.brokers.values():
                await tool.ask(address, create("before"))
            servers.kill(lost)
            # Neither a new topic nor a new group waits for the one that is gone.
            for address in servers.brokers.values():
                await tool.ask(address, create("meanwhile"))
                consumer = ConsumerData(group_name="g")
                data = HeartbeatData(client_id="tool", consumers=(consumer,))
                await tool.ask(address, Heartbeat(data=data))
            reply = await tool.ask(kept, GetRouteInfoByTopic(topic="%RETRY%g"))
            assert held_by(*BROKERS)(reply.route)
            sent = bodies("meanwhile")
            assert await send(servers.all_name_servers, "meanwhile", sent) == set(BROKERS)

            servers.start(lost)
            for topic in ("TBW102", "before", "meanwhile", "%RETRY%g"):
                await tool.route_until(lost, topic, held_by(*BROKERS))
        # By it alone everything is found.
        assert await read(lost, "meanwhile", set(sent)) == set(sent)
