"""Ten thousand clients, most of them idle, and strangers who would be as many if they were let."""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.faults.support.broker_process import Broker
from tests.faults.support.raw_peers import (
    QUEUE,
    SEND,
    Stranger,
    both_servers,
    json_frame,
    resident_bytes,
)
from tests.waiting import until

from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.servers import Servers, serving

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]

IDLE = 10_000
ACTIVE = 200
SENDS = 100
SLOW = 2_000
KEPT = 1_000


def need_descriptors(count: int) -> None:
    """Raise the soft limit to what a test needs, or skip it and name the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"{count} open files are needed, and RLIMIT_NOFILE's hard limit is {hard}")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def megabytes_of(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * 4096 >> 20


@asynccontextmanager
async def idle(address: str) -> AsyncIterator[list[Stranger]]:
    """Clients that asked once, and are silent since."""
    strangers: list[Stranger] = []
    frame = json_frame(RequestCode.GET_MIN_OFFSET, 1, QUEUE)
    for _ in range(IDLE // 100):
        some = await asyncio.gather(*(Stranger.at(address) for _ in range(100)))
        await asyncio.gather(*(each.ask([frame], [1]) for each in some))
        strangers += some
    try:
        yield strangers
    finally:
        for each in strangers:
            each.transport.abort()
        await until(lambda: all(each.closed.is_set() for each in strangers))


async def sent_by_many(servers: Servers, first: int) -> list[float]:
    """Send from every active connection, one message after another; seconds of each send."""
    took: list[float] = []
    clients = await asyncio.gather(*(Stranger.at(servers.broker) for _ in range(ACTIVE)))

    async def send(client: Stranger, number: int) -> None:
        for each in range(SENDS):
            body = b"%d" % (first + number * SENDS + each)
            frame = json_frame(
                RequestCode.SEND_MESSAGE, each, {**SEND, "queueId": str(number % 4)}, body=body
            )
            begun = time.perf_counter()
            answer = (await client.ask([frame], [each]))[each]
            took.append(time.perf_counter() - begun)
            assert answer.code == ResponseCode.SUCCESS, answer.remark

    async with asyncio.TaskGroup() as tasks:
        for number, client in enumerate(clients):
            tasks.create_task(send(client, number))
    for client in clients:
        await client.close()
    return took


def show(capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Tell a figure to whoever runs this; a test passes with any."""
    with capsys.disabled():
        sys.stdout.write(f"\n{line}\n")


def p99_ms(took: list[float]) -> float:
    return sorted(took)[len(took) * 99 // 100] * 1000


@pytest.mark.skipif(sys.platform != "linux", reason="memory of another process is read from /proc")
async def test_ten_thousand_idle_clients_cost_memory_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Both in the server's process and in this one.
    need_descriptors(IDLE + ACTIVE + KEPT)
    settings = tmp_path / "broker.conf"
    settings.write_text(f"maxConnections={IDLE + ACTIVE + KEPT}\n")
    with serving(tmp_path, ["-c", str(settings)]) as servers:
        process = servers.process.pid
        await sent_by_many(servers, 0)
        alone = await sent_by_many(servers, ACTIVE * SENDS)
        before = megabytes_of(process)
        async with idle(servers.broker) as strangers:
            crowded = await sent_by_many(servers, 2 * ACTIVE * SENDS)
            after = megabytes_of(process)
            assert not [each for each in strangers if each.closed.is_set()]
        show(
            capsys,
            f"{ACTIVE} active clients: p99 {p99_ms(alone):.1f} ms alone, "
            f"{p99_ms(crowded):.1f} ms beside {IDLE} idle ones; "
            f"memory {before} MB before, {after} MB with them",
        )
        assert after < 400, f"{after} MB"
        async with Caller() as caller:
            broker = Broker(caller, servers.broker)
            bodies = [
                int(each.body) for queue_id in range(4) for each in await broker.read("t", queue_id)
            ]
        assert sorted(bodies) == list(range(3 * ACTIVE * SENDS)), "some were lost"


async def test_slow_strangers_are_all_sent_away_and_a_client_notices_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_descriptors(2 * SLOW + KEPT)
    clock, chance = ManualClock(), random.Random(1)
    frame = json_frame(RequestCode.SEND_MESSAGE, 1, SEND, body=b"x")
    async with both_servers(tmp_path, clock=clock, max_connections=SLOW + KEPT) as servers:
        client = await Stranger.at(servers.broker)
        memory = resident_bytes()
        with ExitStack() as stack:
            slow = []
            for _ in range(SLOW):
                each = stack.enter_context(socket.socket())
                each.setblocking(False)
                await asyncio.get_running_loop().sock_connect(each, split_address(servers.broker))
                slow.append(each)
            for second in range(40):
                for each in slow:
                    if chance.random() < 0.9:  # the rest never says a word in this second
                        _drip(each, frame[second : second + 1])
                await clock.advance(1000)
                answer = (await client.ask([frame], [1]))[1]
                assert answer.code == ResponseCode.SUCCESS
            await until(lambda: all(_gone(each) for each in slow))
        grown = ((resident_bytes() or 0) - (memory or 0)) >> 20
        show(capsys, f"{SLOW} slow strangers: {grown} MB more")
        assert (await client.ask([frame], [1]))[1].code == ResponseCode.SUCCESS
        await client.close()


def _drip(stranger: socket.socket, data: bytes) -> None:
    try:
        stranger.send(data)
    except (BlockingIOError, ConnectionError):
        pass  # it was sent away


def _gone(stranger: socket.socket) -> bool:
    try:
        return stranger.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
