"""Peers that are too many, too slow or too silent: bounded memory, few lines, others unharmed."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
from tests.faults.support.raw_peers import (
    PATIENCE_S,
    PULL,
    QUEUE,
    SEND,
    Stranger,
    both_servers,
    json_frame,
    resident_bytes,
)
from tests.waiting import until

from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.remoting.caller import split_address
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.cluster import Cluster
from rocketpipe.testing.servers import LOG_NAME, Servers, serving

DESCRIPTORS = 300
CONNECTS = 1_000
MOST_LINES = 100

ASK = json_frame(RequestCode.GET_MIN_OFFSET, 1, QUEUE)


@contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    """Whoever is started inside the block may open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def limited_servers(scratch: Path) -> Iterator[Servers]:
    """Servers in a process with few descriptors; this one keeps its own."""
    starting = serving(scratch)
    with few_descriptors(DESCRIPTORS):
        servers = starting.__enter__()
    try:
        yield servers
    finally:
        starting.__exit__(None, None, None)


@pytest.fixture
def room_for_sockets() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < CONNECTS + 200:
        if hard != resource.RLIM_INFINITY and hard < CONNECTS + 200:
            pytest.skip(f"RLIMIT_NOFILE is {hard}, {CONNECTS + 200} are needed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (CONNECTS + 200, hard))


async def answers(stranger: Stranger) -> bool:
    return (await stranger.ask([ASK], [1]))[1].code == ResponseCode.SUCCESS


@asynccontextmanager
async def flood(address: str) -> AsyncIterator[None]:
    """Connect, and connect, and connect; all of it lasts as long as the block."""
    with ExitStack() as stack:
        for number in range(CONNECTS):
            connecting = stack.enter_context(socket.socket())
            connecting.setblocking(False)
            with suppress(BlockingIOError):
                connecting.connect(split_address(address))
            if number % 50 == 0:
                await asyncio.sleep(0.01)
        yield


def opened_by(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are Linux's")
@pytest.mark.usefixtures("room_for_sockets")
@pytest.mark.parametrize("exhausted", [False, True], ids=["too many", "no descriptor left"])
async def test_a_flood_of_connections_harms_nobody_who_is_there_and_passes(
    exhausted: bool, tmp_path: Path
) -> None:
    with limited_servers(tmp_path) as servers:
        process = servers.process.pid
        client = await Stranger.at(servers.broker)
        assert await answers(client)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if exhausted:
            # Fewer than the server counted on: to accept fails, as it would on a full machine.
            most = opened_by(process) + 30
            resource.prlimit(process, resource.RLIMIT_NOFILE, (most, hard))
        async with flood(servers.broker):
            assert await answers(client)
            if exhausted:
                await until(lambda: opened_by(process) == most)
                assert await answers(client)
            else:
                sent = await client.ask([json_frame(10, 2, SEND, body=b"x")], [2])
                assert sent[2].code == ResponseCode.SUCCESS
        resource.prlimit(process, resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
        assert await until_served(servers.broker)
        sent = await client.ask([json_frame(10, 2, SEND, body=b"x")], [2])
        assert sent[2].code == ResponseCode.SUCCESS
        await client.close()
        assert servers.process.poll() is None
    lines = (tmp_path / LOG_NAME).read_text().splitlines()
    assert len(lines) < MOST_LINES, lines[:MOST_LINES]
    assert not [line for line in lines if "Traceback" in line]


async def until_served(address: str) -> bool:
    """Try again until there is room for a newcomer."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            newcomer = await Stranger.at(address)
            try:
                return await answers(newcomer)
            except AssertionError:  # sent away
                await asyncio.sleep(0.05)
            finally:
                await newcomer.close()


# Slow and silent peers, by a clock that the test turns.


@asynccontextmanager
async def turned(data: Path) -> AsyncIterator[tuple[Cluster, ManualClock]]:
    clock = ManualClock()
    async with both_servers(data, clock=clock) as servers:
        yield servers, clock


async def seconds_until_closed(stranger: Stranger, clock: ManualClock, most: int) -> int:
    """Let time pass until the server ends the connection."""
    begun = clock.monotonic_ms()
    while not stranger.closed.is_set():
        await clock.advance(1000)
        assert clock.monotonic_ms() - begun <= most * 1000, "it is still there"
        await asyncio.sleep(0.001)
    return (clock.monotonic_ms() - begun) // 1000


@pytest.fixture(params=["broker", "name_server"])
def which(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def arrived(address: str) -> Stranger:
    """A stranger whom the server has surely seen."""
    stranger = await Stranger.at(address)
    for _ in range(10):
        await asyncio.sleep(0.001)
    return stranger


async def test_who_never_asks_is_sent_away(which: str, tmp_path: Path) -> None:
    async with turned(tmp_path) as (servers, clock):
        silent = [await arrived(getattr(servers, which)) for _ in range(20)]
        assert await seconds_until_closed(silent[0], clock, 20) >= 9
        await until(lambda: all(each.closed.is_set() for each in silent))


async def test_who_asks_by_one_byte_a_second_is_sent_away(which: str, tmp_path: Path) -> None:
    async with turned(tmp_path) as (servers, clock):
        stranger = await arrived(getattr(servers, which))
        seconds = 0
        while not stranger.closed.is_set():
            stranger.transport.write(ASK[seconds : seconds + 1])
            await clock.advance(1000)
            await asyncio.sleep(0.001)
            seconds += 1
            assert seconds < 30
        assert seconds >= 9


async def test_a_trickle_behind_a_whole_request_is_no_better(which: str, tmp_path: Path) -> None:
    """One byte a second, with a request before it: the frame that has begun must come along."""
    async with turned(tmp_path) as (servers, clock):
        stranger = await Stranger.at(getattr(servers, which))
        await stranger.ask([ASK], [1])
        long = json_frame(RequestCode.SEND_MESSAGE, 2, SEND, body=bytes(100_000))
        seconds = 0
        while not stranger.closed.is_set():
            stranger.transport.write(long[seconds : seconds + 1])
            await clock.advance(1000)
            await asyncio.sleep(0.001)
            seconds += 1
            assert seconds < 60
        assert seconds >= 29


async def test_half_a_frame_and_then_silence_ends(which: str, tmp_path: Path) -> None:
    async with turned(tmp_path) as (servers, clock):
        stranger = await Stranger.at(getattr(servers, which))
        await stranger.ask([ASK], [1])
        stranger.transport.write(ASK[:-5])
        await asyncio.sleep(0.001)
        assert await seconds_until_closed(stranger, clock, 60) >= 29


async def test_long_silence_ends_and_a_word_now_and_then_does_not(
    which: str, tmp_path: Path
) -> None:
    async with turned(tmp_path) as (servers, clock):
        silent = await Stranger.at(getattr(servers, which))
        talking = await Stranger.at(getattr(servers, which))
        await silent.ask([ASK], [1])
        seconds = 0
        while not silent.closed.is_set():
            await clock.advance(1000)
            await talking.ask([ASK], [1])
            seconds += 1
            assert seconds < 150
        assert seconds >= 119
        assert not talking.closed.is_set()
        await talking.close()


async def test_who_does_not_read_is_held_in_bounds_and_ends_and_others_notice_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with turned(tmp_path) as (servers, clock):
        other = await Stranger.at(servers.broker)
        for _ in range(8):
            sent = await other.ask([json_frame(10, 1, SEND, body=bytes(100_000))], [1])
            assert sent[1].code == ResponseCode.SUCCESS
        pull = json_frame(RequestCode.PULL_MESSAGE, 1, PULL)
        assert len((await other.ask([pull], [1]))[1].body) > 100_000
        memory = resident_bytes()
        # A gigabyte is asked for, and not a byte of it read.
        with socket.create_connection(split_address(servers.broker)) as stopped:
            stopped.setblocking(False)
            asked = pull * 5_000
            while asked:
                try:
                    asked = asked[stopped.send(asked) :]
                except BlockingIOError:
                    break  # the server has stopped reading, as it should
                await asyncio.sleep(0)
            for _ in range(50):
                await asyncio.sleep(0.001)
                assert (await other.ask([pull], [1]))[1].code == ResponseCode.SUCCESS
            grown = (resident_bytes() or 0) - (memory or 0)
            assert grown < 64 << 20, f"{grown >> 20} MB more"
            for _ in range(90):
                await clock.advance(1000)
                await other.ask([ASK], [1])
            assert [line for line in caplog.messages if "did not take its answers" in line]
            assert await _ends(stopped)
        assert (await other.ask([pull], [1]))[1].code == ResponseCode.SUCCESS
        await other.close()


async def _ends(stopped: socket.socket) -> bool:
    """Read all that is left, until the end."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE_S):
        try:
            while await loop.sock_recv(stopped, 1 << 20):
                pass
        except ConnectionResetError:
            pass
    return True


async def test_no_number_of_requests_makes_more_than_so_many_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broken = json_frame(RequestCode.UPDATE_NAMESRV_CONFIG, 1, "3")
    async with both_servers(tmp_path) as servers:
        names = await Stranger.at(servers.name_server)
        asked = [
            (RequestCode.UPDATE_NAMESRV_CONFIG, {}, b"kvConfigPath=x"),
            (RequestCode.UPDATE_NAMESRV_CONFIG, {}, b"enableTopicList=false"),
            (RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "nobody"}, b""),
            (RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "none"}, b""),
            (RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"}, b""),
            (RequestCode.DELETE_KV_CONFIG, {"namespace": "n", "key": "k"}, b""),
        ]
        for code, fields, body in asked:
            frames = [json_frame(code, each, fields, body=body) for each in range(1000)]
            await names.ask(frames, range(len(frames)))
        await names.close()
        for address in (servers.name_server, servers.broker):
            for _ in range(200):
                stranger = await Stranger.at(address)
                stranger.transport.write(broken)
                await stranger.ended()
    assert len(caplog.records) < 1000
