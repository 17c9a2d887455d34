"""All kinds of messages at once, while a broker dies: the checker finds nothing.

And with one lie of each kind planted, it names each, and nothing else.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.scenarios.support.hurried_broker import HurriedBroker
from tests.scenarios.support.hurried_clock import HurriedClock
from tests.scenarios.support.mixed_load import MIX, Honest, Load, MixedCast

from rocketpipe import Producer, RocketPipeError, SimpleConsumer
from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.testing.histories.checker import assert_clean, check
from rocketpipe.testing.histories.facts import Anomaly

pytestmark = pytest.mark.scenario

#: How long everybody is kept busy; `make soak` says an hour. Then some seconds go by until nothing
#: waits any more.
SECONDS = int(os.environ.get("ROCKETPIPE_MIXED_SECONDS", "25"))
#: A history is no longer than this: what takes longer is several.
ROUND_S = 60
#: Every now and then the broker falls.
LIFE_S = 8
#: What each player does is drawn from it; when, is up to the machine.
SEED = int(os.environ.get("ROCKETPIPE_MIXED_SEED", "20260716"))


@asynccontextmanager
async def servers(data: Path) -> AsyncIterator[tuple[str, HurriedBroker]]:
    async with name_server(NamesrvConfig(port=0), clock=HurriedClock()) as names:
        broker = HurriedBroker(names, data)
        try:
            await broker.start()
            yield names, broker
        finally:
            await broker.kill()


async def test_nothing_is_wrong_with_a_mix_of_everything_while_the_broker_dies(
    tmp_path: Path,
) -> None:
    over_s = time.monotonic() + SECONDS
    async with servers(tmp_path / "data") as (names, broker):
        for seed in itertools.count(SEED):
            left_s = over_s - time.monotonic()
            if left_s <= 0 and seed > SEED:
                break
            directory = tmp_path / f"history-{seed}"
            async with MixedCast(directory, names) as cast:
                await one_round(cast, broker, seed, min(left_s, ROUND_S))
            shutil.rmtree(directory)  # of an hour only what is broken is kept


async def one_round(cast: MixedCast, broker: HurriedBroker, seed: int, seconds: float) -> None:
    """Have the broker killed first, and stopped in good order the next time, and so on."""
    load, chance = Load(cast, seed), random.Random(seed)
    over_s = time.monotonic() + seconds
    falls = itertools.cycle((broker.kill, broker.stop))
    async with load.running():
        while True:
            await until_s(cast, min(over_s, time.monotonic() + LIFE_S * chance.uniform(0.5, 1)))
            if time.monotonic() >= over_s:
                break
            with cast.nemesis.fault("the broker falls"):
                await next(falls)()
                await broker.start()
                await load.more_done(50)
        await load.settled()
    assert_clean(cast.history())


async def until_s(cast: MixedCast, at_s: float) -> None:
    await cast.until(lambda: time.monotonic() >= at_s)


# Whoever lies must be found out: otherwise the mix above shows nothing.

LIES = {
    *("acked", "hidden", "lost", "half", "rolled back", "early", "recalled", "batch twice"),
}
HOUR_MS = 3_600_000


class Liar(Honest):
    """Does once of each kind something else than is recorded."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.producer: Producer | None = None
        #: The ids of messages, or batches, by what is wrong with them.
        self.planted: dict[str, str] = {}
        #: Those too with which something went wrong, so that nobody knows.
        self._tried: set[str] = set()

    async def ack(self, consumer: SimpleConsumer, message: PoppedMessage) -> None:
        if not self._lies("acked", message.keys[0]):
            await consumer.ack(message)

    def later_ms(self, kind: str, message_id: str) -> int:
        return HOUR_MS if self._lies("early" if kind == "timed" else kind, message_id) else 0

    def halves(self, message_id: str) -> bool:
        return not self._lies("half", message_id)

    def commits(self, message_id: str) -> bool:
        return not self._lies("lost", message_id)

    def batch(self, number: int, *, again: bool) -> int:
        if again and self._lies("batch twice", f"batch-{number:07d}"):
            return number + (1 << 32)
        return number

    async def watch(self, fate: str, message_id: str, body: bytes) -> None:
        if self.producer is not None and self._lies(fate, message_id):
            await self.producer.send(MIX, body, keys=[message_id])

    @contextlib.contextmanager
    def about(self, message_id: str) -> Iterator[None]:
        try:
            yield
        except RocketPipeError:  # as on a machine that is too busy to be in time
            self.planted = {kind: at for kind, at in self.planted.items() if at != message_id}
            raise

    def _lies(self, kind: str, message_id: str) -> bool:
        """Whether it is time for it; about one message it lies once."""
        if kind in self.planted or message_id in self._tried:
            return False
        if self._chance.random() < 0.7:
            return False
        self.planted[kind] = message_id
        self._tried.add(message_id)
        return True

    def told_of(self, anomaly: Anomaly) -> bool:
        """Whether an anomaly is one of its lies."""
        return any(message_id in anomaly.what for message_id in self._tried)


async def test_each_lie_in_a_mix_of_everything_is_named_and_nothing_else_is(
    tmp_path: Path,
) -> None:
    liar = Liar(random.Random(SEED))
    async with servers(tmp_path / "data") as (names, _):
        async with MixedCast(tmp_path / "history", names) as cast:

            def named() -> set[str]:
                return {anomaly.kind for anomaly in check(cast.history())}

            load = Load(cast, SEED, liar)
            async with load.running() as producer:
                liar.producer = producer
                await cast.until(lambda: liar.planted.keys() == LIES)
                await load.settled(liar.told_of)
                await cast.until(lambda: named() >= LIES)
            found = check(cast.history())
    assert [str(anomaly) for anomaly in found if not liar.told_of(anomaly)] == []
    for kind, message_id in liar.planted.items():
        of_it = {anomaly.kind for anomaly in found if message_id in anomaly.what}
        # What was taken back, and is there all the same, may be there before its moment.
        assert of_it - {"early"} == {kind} - {"early"}, message_id
        assert kind in of_it
