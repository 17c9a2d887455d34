"""Wrong logins in floods, and how long they take: long runs, where a time may be looked at."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import statistics
import time
import tracemalloc
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.auth.conftest import FakePeer, credentials, make_gate
from tests.auth.test_gate import SEND
from tests.scenarios.test_access_control import ROOT, Place, exchange, place, send, written

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.hot import scan
from rocketpipe.protocol.request import to_command
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.connection import PeerConnection

__all__ = ["place"]

pytestmark = [pytest.mark.soak, pytest.mark.scenario]

FLOOD = 10_000
TRIES = 20_000


async def test_a_flood_of_wrong_logins_harms_nobody_who_is_known(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten thousand wrong logins: few lines, little memory, and good requests are answered."""
    caplog.set_level(logging.INFO)
    writer = await place.user("writer", Topic="orders:Pub")
    await place.ask(send(), writer)
    wrong = Credentials("writer", Secret("not-the-secret-of-writer"))

    async def flood(number: int) -> None:
        for at in range(0, FLOOD // 4, 10):
            frames = [written(send(), at + each, wrong) for each in range(10)]
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await exchange(place.broker, *frames)

    async def served(count: int) -> list[float]:
        taken = []
        async with Caller(sign=writer.sign) as caller:
            for _ in range(count):
                asked = time.perf_counter()
                await caller.call(place.broker, send())
                taken.append(time.perf_counter() - asked)
        return taken

    await served(200)
    lines = len(caplog.records)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    begun = time.monotonic()
    floods = [asyncio.create_task(flood(number)) for number in range(4)]
    answered = 0
    while not all(task.done() for task in floods):
        answered += len(await served(20))
    await asyncio.gather(*floods)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answered, "who signs rightly is let in while others fail"
    refused = [record for record in caplog.records[lines:] if "refused" in record.getMessage()]
    assert len(refused) < 100 * (2 + int(time.monotonic() - begun) // 60)
    assert after - before < 32 << 20
    assert (await place.ask(send(), ROOT)).queue_offset > 0


def _times(chosen: list[tuple[str, Any]], chance: random.Random) -> dict[str, list[int]]:
    """Nanoseconds of CPU that each try took, in one shuffled order."""
    taken: dict[str, list[int]] = {name: [] for name, _ in chosen}
    order = [each for each in chosen for _ in range(TRIES)]
    chance.shuffle(order)
    for name, try_it in order:
        begun = time.thread_time_ns()
        try_it()
        taken[name].append(time.thread_time_ns() - begun)
    return taken


def _middle(values: list[int]) -> float:
    """The mean of the middle half: neither a pause of the machine nor its best moment counts."""
    values = sorted(values)
    return statistics.fmean(values[len(values) // 4 : 3 * len(values) // 4])


@pytest.mark.parametrize("way", ["router", "fast path"])
def test_neither_users_nor_signatures_are_guessed_by_time(way: str) -> None:
    """Unknown, disabled, wrong from the first character on, and in the last one alone."""
    gate = make_gate()
    gate.audit.refused = lambda *_: None  # type: ignore[method-assign]
    good = credentials("writer").sign(to_command(SEND, 1))
    signature = good.fields["Signature"]
    last = "A" if signature[-2] != "A" else "B"
    cases = {
        "unknown": replace(credentials("unknown").sign(to_command(SEND, 1))),
        "disabled": credentials("gone").sign(to_command(SEND, 1)),
        "first": replace(good, fields={**good.fields, "Signature": "!" + signature[1:]}),
        "last": replace(good, fields={**good.fields, "Signature": signature[:-2] + last + "="}),
    }

    def trying(command: Any) -> Any:
        data = encode_frame(command)
        (frame,) = scan(data, 0, len(data), 1 << 20)
        peer = cast("PeerConnection", FakePeer())

        def by_router() -> None:
            with contextlib.suppress(RequestRejected):
                gate.admit(command, peer)

        return by_router if way == "router" else lambda: gate.cleared(data, [frame], 0, peer)

    chosen = [(name, trying(command)) for name, command in cases.items()]
    for _, try_it in chosen:
        for _ in range(1000):
            try_it()
    taken = _times(chosen, random.Random(7))
    middles = {name: _middle(values) for name, values in taken.items()}
    # Twice the same thing differs as well: what counts is a difference beyond that.
    noise = _times([("a", chosen[0][1]), ("b", chosen[0][1])], random.Random(8))
    spread = abs(_middle(noise["a"]) - _middle(noise["b"]))
    known = [middles["first"], middles["last"]]
    assert abs(known[0] - known[1]) < max(4 * spread, 0.03 * min(known)), middles
    usual = statistics.fmean(middles.values())
    assert max(middles.values()) - min(middles.values()) < max(4 * spread, 0.1 * usual), middles
