"""Tests of the port for those who watch."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.remoting.tls_rooms import server_tls

from rocketpipe import compiled
from rocketpipe._version import __version__
from rocketpipe.health.http_port import (
    MAX_CONNECTIONS,
    MAX_REQUEST_BYTES,
    PATIENCE_MS,
    REMEMBERED_MS,
    Watched,
    health_port,
)
from rocketpipe.metrics import PIECE_LINES, Family, Kind, Series, single
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.caller import split_address
from rocketpipe.testing.clock import ManualClock


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def address(watched: Watched, clock: ManualClock) -> AsyncIterator[tuple[str, int]]:
    async with health_port("127.0.0.1", 0, watched, clock=clock) as text:
        host, _, port = text.rpartition(":")
        yield host, int(port)


async def ask(address: tuple[str, int], request: bytes) -> tuple[int, str, str]:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), head, body


async def get(address: tuple[str, int], path: str) -> tuple[int, str]:
    code, _, body = await ask(address, f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return code, body


async def test_it_is_alive_before_it_is_ready(address: tuple[str, int], watched: Watched) -> None:
    assert await get(address, "/healthz") == (200, "ok\n")
    assert await get(address, "/readyz") == (503, "it is still starting\n")
    watched.started = True
    assert await get(address, "/readyz") == (200, "ready\n")


async def test_who_is_not_ready_says_why(address: tuple[str, int], watched: Watched) -> None:
    watched.started = True
    watched.add(lambda: None, list)
    watched.add(lambda: "the disk is full", list)
    assert await get(address, "/readyz") == (503, "the disk is full\n")


async def test_measurements_are_taken_when_they_are_asked_for(
    address: tuple[str, int], watched: Watched, clock: ManualClock
) -> None:
    taken = iter(range(1, 9))
    watched.add(lambda: None, lambda: [single("a", Kind.GAUGE, "A.", next(taken))])
    assert "\na 1\n" in (await get(address, "/metrics"))[1]
    assert "\na 1\n" in (await get(address, "/metrics?x=y"))[1]  # not so soon again
    await clock.advance(REMEMBERED_MS)
    assert "\na 2\n" in (await get(address, "/metrics"))[1]


async def test_all_who_ask_at_once_get_one_measurement_and_others_have_their_turn(
    address: tuple[str, int], watched: Watched
) -> None:
    taken: list[int] = []
    turns: list[int] = []

    def series() -> Iterator[Series]:
        for number in range(20 * PIECE_LINES):
            taken.append(number)
            yield Series(number, {"n": str(number)})

    async def other_work() -> None:
        while True:
            await asyncio.sleep(0)
            turns.append(len(taken))

    watched.add(lambda: None, lambda: [Family("a", Kind.GAUGE, "A.", series())])
    work = asyncio.create_task(other_work())
    answers = await asyncio.gather(*(get(address, "/metrics") for _ in range(5)))
    work.cancel()
    assert len({body for _, body in answers}) == 1
    assert len(taken) == 20 * PIECE_LINES
    assert len(set(turns)) >= 20


async def test_one_that_leaves_does_not_take_the_answer_away_from_the_others(
    address: tuple[str, int], watched: Watched, clock: ManualClock
) -> None:
    watched.add(lambda: None, lambda: [single("a", Kind.GAUGE, "A.", 1)])
    asking = [asyncio.create_task(watched.metrics(clock)) for _ in range(2)]
    await asyncio.sleep(0)
    asking[0].cancel()
    assert "\na 1\n" in await asking[1]


async def test_the_version_is_json_and_unknown_pages_are_told_what_there_is(
    address: tuple[str, int],
) -> None:
    told = json.loads((await get(address, "/version"))[1])
    assert told == {
        "name": "rocketpipe",
        "version": __version__,
        "engine": compiled.describe(),
    }
    code, body = await get(address, "/secrets")
    assert code == 404
    assert "/metrics" in body


async def test_head_has_no_body_and_other_methods_are_refused(address: tuple[str, int]) -> None:
    code, head, body = await ask(address, b"HEAD /healthz HTTP/1.1\r\n\r\n")
    assert (code, body) == (200, "")
    assert "Content-Length: 3" in head
    assert (await ask(address, b"POST /healthz HTTP/1.1\r\n\r\n"))[0] == 405
    assert (await ask(address, b"\x00\x00\r\n\r\n"))[0] == 400


async def test_a_request_without_an_end_is_cut_off(address: tuple[str, int]) -> None:
    long = b"GET /" + b"a" * MAX_REQUEST_BYTES * 2
    assert (await ask(address, long))[0] == 431


async def test_who_takes_too_long_is_sent_away(
    address: tuple[str, int], clock: ManualClock
) -> None:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /heal")
    reading = asyncio.ensure_future(reader.read())
    while not reading.done():
        await clock.advance(PATIENCE_MS)
        await asyncio.sleep(0)
    assert reading.result() == b""
    writer.close()
    await writer.wait_closed()


async def held(address: tuple[str, int], request: bytes, count: int) -> list[asyncio.StreamWriter]:
    """Connections that say this and then nothing."""
    writers = []
    for _ in range(count):
        _, writer = await asyncio.open_connection(*address)
        writer.write(request)
        writers.append(writer)
    return writers


@pytest.mark.parametrize("request_", [b"", b"GET /healthz HTTP/1.1\r\n"])
async def test_held_connections_keep_no_probe_from_its_answer(
    address: tuple[str, int], request_: bytes
) -> None:
    writers = await held(address, request_, 2 * MAX_CONNECTIONS)
    for _ in range(3):
        assert await get(address, "/healthz") == (200, "ok\n")
    for writer in writers:
        writer.close()


async def test_who_does_not_take_its_answer_keeps_no_probe_from_one(
    address: tuple[str, int], watched: Watched
) -> None:
    watched.add(lambda: None, lambda: [single("long", Kind.GAUGE, "x" * 8_000_000, 1)])
    writers = await held(address, b"GET /metrics HTTP/1.1\r\n\r\n", MAX_CONNECTIONS + 1)
    assert await get(address, "/healthz") == (200, "ok\n")
    for writer in writers:
        writer.transport.abort()


async def test_who_is_being_answered_stays_while_others_only_hold_on(
    address: tuple[str, int], watched: Watched
) -> None:
    reader, writer = await asyncio.open_connection(*address)
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(clock: object) -> str:
        asked.set()
        await go.wait()
        return "measured 1\n"

    watched.metrics = slow  # type: ignore[method-assign,assignment]
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    await asked.wait()
    writers = await held(address, b"", MAX_CONNECTIONS + 10)
    assert await get(address, "/healthz") == (200, "ok\n")
    go.set()
    assert (await reader.read()).endswith(b"measured 1\n")
    for each in (writer, *writers):
        each.close()


async def test_who_is_connected_when_it_closes_is_left_without_a_traceback(
    watched: Watched, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with health_port("127.0.0.1", 0, watched, clock=clock) as text:
        host, _, port = text.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /heal")
        await get((host, int(port)), "/healthz")  # by then the first is known too
    assert await reader.read() == b""
    await asyncio.sleep(0)
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []
    writer.close()


@pytest.mark.parametrize("begin", [b"", b"\x16"])
async def test_by_https_held_connections_keep_no_probe_from_its_answer_either(
    watched: Watched, authority: Authority, begin: bytes
) -> None:
    tls = server_tls(authority)
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    async with health_port("127.0.0.1", 0, watched, tls=tls) as text:
        where = split_address(text)
        flood = [await asyncio.open_connection(*where) for _ in range(2 * MAX_CONNECTIONS)]
        for _, writer in flood:
            writer.write(begin)
        reader, writer = await asyncio.open_connection(*where, ssl=context)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert (await reader.read()).endswith(b"ok\n")
        writer.close()
        ended = 0
        for early, _ in flood[:MAX_CONNECTIONS]:  # they made room
            try:
                assert await early.read() == b""
            except ConnectionResetError:
                pass
            ended += 1
        assert ended == MAX_CONNECTIONS
        for _, writer in flood:
            writer.close()
