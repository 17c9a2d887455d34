"""Scenarios of our client, for our servers and for Apache's alike; each leaves a history."""

from __future__ import annotations

import asyncio
import random
from typing import Protocol

from tests.scenarios.support.scenario_clients import PATIENCE_S, Cast

from rocketpipe import PushConsumer
from rocketpipe.errors import RocketPipeError

LOST_BROKER = "broker-b"


class Stage(Protocol):
    """Servers, some of which can be taken away: brokers ``broker-a`` and ``broker-b``."""

    async def kill_broker(self) -> None:
        """kill -9 for ``broker-b``."""
        ...

    async def start_broker(self) -> None:
        """Start it again with the data that it had."""
        ...

    async def kill_name_servers(self) -> None:
        """No NameServer is left."""
        ...

    async def start_name_servers(self) -> None:
        """They are back where they were, and know nothing."""
        ...


async def outages(cast: Cast, stage: Stage, *, pace: int = 100) -> None:
    """A broker is killed in mid-send and comes back; so do all NameServers."""
    await cast.create_topic("orders", 2)
    for name in ("one", "two"):
        await cast.join(name, "billing", "orders")
    async with cast.producer() as producer, cast.sending(producer, "orders"):
        await cast.until(lambda: cast.stored_at[LOST_BROKER] > 10)
        with cast.nemesis.fault("a broker is killed", broker=LOST_BROKER):
            await stage.kill_broker()
            await cast.more_stored(pace)
            await stage.start_broker()
            before = cast.stored_at[LOST_BROKER]
            await cast.until(lambda: cast.stored_at[LOST_BROKER] > before + 10)
        # Who asked for routes while the broker was gone must have asked again: soon nobody answers.
        await cast.until(lambda: all(map(_knows_lost_broker, cast.members.values())))
        await cast.more_stored(pace)
        with cast.nemesis.fault("no NameServer", repeats=False):
            await stage.kill_name_servers()
            await cast.more_stored(pace)
            await cast.drained("billing")
            await stage.start_name_servers()
            await _join_when_known(cast, "three")
        await cast.until(lambda: cast.members["three"].queues)
        await cast.more_stored(pace)
    await cast.drained("billing")
    for name in sorted(cast.members):
        await cast.leave(name)


def _knows_lost_broker(member: PushConsumer) -> bool:
    route = member.session.routes.remembered("orders")
    return route is not None and LOST_BROKER in {each.broker_name for each in route.brokers}


async def _join_when_known(cast: Cast, name: str) -> None:
    """Join as soon as brokers have registered anew."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await cast.until_route("orders")
                await cast.join(name, "billing", "orders")
            except RocketPipeError:
                await asyncio.sleep(0.1)
            else:
                return


async def storm(cast: Cast, *, members: int = 20, messages: int = 600, seed: int = 20) -> None:
    """Members come and go while messages are sent; two of them are killed."""
    chance = random.Random(seed)
    await cast.create_topic("storm", 8)
    record = cast.recorder("sender")
    waiting = [f"member-{number}" for number in range(members - 2)]
    await asyncio.gather(
        *(cast.join_from_outside(name, "stormers", "storm") for name in ("outside-1", "outside-2")),
        *(cast.join(waiting.pop(), "stormers", "storm") for _ in range(3)),
    )
    turns = len(waiting) + 3
    async with cast.producer() as producer:
        for turn in range(turns):
            size = messages // turns
            await asyncio.gather(*(cast.send(record, producer, "storm") for _ in range(size)))
            moves = []
            if waiting:
                moves.append(_join(cast, waiting.pop()))
            if len(cast.members) > 3 and chance.random() < 0.6:
                moves.append(cast.leave(chance.choice(sorted(cast.members))))
            if turn in (turns // 3, 2 * turns // 3):
                moves.append(cast.kill(f"outside-{1 if turn == turns // 3 else 2}"))
            await asyncio.gather(*moves)
    assert not waiting, "all of them took part"
    while len(cast.members) > 2:
        await cast.leave(chance.choice(sorted(cast.members)))
    await cast.drained("stormers")
    for name in sorted(cast.members):
        await cast.leave(name)
    # They left in good order, so that nothing is left for whoever comes now.
    await cast.join("last", "stormers", "storm")
    async with cast.producer() as producer:
        await cast.send(record, producer, "storm")
    await cast.drained("stormers")
    await cast.leave("last")


async def _join(cast: Cast, name: str) -> None:
    await cast.join(name, "stormers", "storm")


async def ordered_with_kills(cast: Cast, *, kills: int = 2, pace: int = 60) -> None:
    """Keys are consumed in order by members that are killed, come and leave."""
    await cast.create_topic("steps", 4)
    names = [f"outside-{number}" for number in range(2)]
    await asyncio.gather(
        *(cast.join_from_outside(name, "steppers", "steps", ordered=True) for name in names)
    )
    async with cast.producer() as producer:
        async with cast.sending(producer, "steps", senders=8, keyed=True):
            await cast.join("inside", "steppers", "steps", ordered=True, work_s=0.002)
            for number in range(kills):
                await cast.handled_by(names[number], pace // 4)
                await cast.kill(names[number])
                names.append(f"outside-{len(names)}")
                await cast.join_from_outside(names[-1], "steppers", "steps", ordered=True)
                await cast.more_stored(pace)
            await cast.leave("inside")
            await cast.handled_by(names[-1], pace // 4)
    await cast.drained("steppers")
    for name in names[kills:]:
        await cast.dismiss(name)


async def broadcast_and_dead_letters(cast: Cast, *, messages: int = 40) -> None:
    """Each member of one group gets everything; of another some fail once, and some always."""
    await cast.create_topic("news", 3)
    for name in ("reader-1", "reader-2", "reader-3"):
        await cast.join(name, "readers", "news", broadcast=True)

    def fails(message_id: str, times: int) -> bool:
        return message_id.endswith("bad") or (message_id.endswith("once") and times == 0)

    await cast.join("worker", "workers", "news", fails=fails, max_retries=2)
    record = cast.recorder("sender")
    async with cast.producer() as producer:
        for number in range(messages):
            suffix = {0: "-bad", 1: "-once"}.get(number % 10, "")
            await cast.send(record, producer, "news", suffix=suffix)
    await cast.drained("workers", but=lambda message_id: message_id.endswith("bad"))
    await cast.until_route("%DLQ%workers")
    await cast.join("undertaker", "undertakers", "%DLQ%workers")
    bad = {message_id for message_id in cast.stored if message_id.endswith("bad")}
    await cast.until(lambda: bad <= cast.handled["undertakers"])
    for name in ("reader-1", "reader-2", "reader-3"):
        await cast.drained(name)
