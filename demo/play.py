"""The run itself: who is on the stage, what happens to them, and when it is over.

    a share of the flights is sent          pipeline, consumers and watch are at work
    boarding calls are sent                 most of them due later
    the broker is killed, amid sending      Spark reads the log as a table; the broker is restarted
    a guest joins a group                   and shares its queues with our member
    the pipeline is killed, in a batch      and started again: it goes on from its checkpoints
    the rest is sent                        all is waited for, as long as something moves

Each act begins when the one before has happened, not after a time: a slow machine takes longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from demo import delaying, following, pipelining, rejecting, third_party
from demo.data import Flight
from demo.delaying import BoardingCalls
from demo.following import Followers
from demo.log_reading import LogReader
from demo.pipelining import DELAYS, FLIGHTS, LETTERS, FlightsPipeline
from demo.producing import Replay, plans
from demo.proof import Evidence
from demo.rejecting import DEAD_LETTERS, Departures
from demo.servers import Servers
from demo.third_party import SmallCarriers
from demo.watching import Watch
from rocketpipe import Admin
from rocketpipe.background import running
from rocketpipe.errors import RocketPipeError

TOPIC: Final = FLIGHTS
QUEUES: Final = 8
#: All flights take about a minute to send; fewer take less, but leave time for what happens.
PER_SECOND: Final = 7_000
LEAST_SENDING_S: Final = 20
MOST_CALLS: Final = 600
FLIGHTS_PER_CALL: Final = 100
#: So long nothing at all may move at the end before the wait is given up.
STILL_S: Final = 60
LOOK_AGAIN_S: Final = 0.25
TELL_EVERY_S: Final = 10
KILL_WITHIN_S: Final = 10
GUEST_S: Final = 45
GUEST_STAYS_S: Final = 5


@dataclass(slots=True, kw_only=True)
class Run:
    """What is told about a run when it is over."""

    evidence: Evidence
    watch: Watch
    replay: Replay
    pipeline: FlightsPipeline
    sent_s: float
    total_s: float


class Play:
    """One run, with its files in ``place``."""

    def __init__(
        self, flights: Sequence[Flight], servers: Servers, place: Path, say: Callable[[str], None]
    ) -> None:
        total = len(flights)
        cancelled = sum(not flight.departed for flight in flights)
        self._servers = servers
        self._place = place
        self._say = say
        self._total = total
        self._cancelled = cancelled
        self._small_total = sum(flight.carrier in third_party.CARRIERS for flight in flights)
        self._plans = plans(flights, QUEUES)
        self._replay = Replay(TOPIC, self._plans, min(PER_SECOND, total / LEAST_SENDING_S))
        self._followers = Followers(total)
        self._departures = Departures(total)
        self._calls = BoardingCalls(max(1, min(MOST_CALLS, total // FLIGHTS_PER_CALL)))
        self._small = SmallCarriers(total)
        groups = (following.GROUP, rejecting.GROUP, third_party.GROUP, pipelining.GROUP)
        small = self._small.tally
        counted = {third_party.GROUP: lambda: small.found + small.again}
        self._watch = Watch(TOPIC, groups, DEAD_LETTERS, counted)
        self._pipeline = FlightsPipeline(place, servers.name_server, say)
        self._broker_kills = 0

    async def run(self) -> Run:
        """Play it; the servers must run.

        Raises:
            RocketPipeError: If something fails that is not meant to.
        """
        name_server = self._servers.name_server
        pipeline = self._pipeline
        async with AsyncExitStack() as stage, asyncio.TaskGroup() as tasks:
            admin = await stage.enter_async_context(Admin(name_server))
            await admin.topics.create(TOPIC, queues=QUEUES)
            await admin.topics.create(delaying.TOPIC, queues=QUEUES)
            await admin.topics.create(
                DEAD_LETTERS, queues=1
            )  # the pipeline reads it from the start
            await stage.enter_async_context(running(self._watch.run(name_server), "watch"))
            await stage.enter_async_context(running(self._tell_progress(), "progress"))
            tasks.create_task(pipeline.run())
            for consumer in (
                self._followers.consumer(name_server, TOPIC),
                self._departures.consumer(name_server, TOPIC),
                self._calls.consumer(name_server),
                self._small.consumer(name_server, TOPIC),
            ):
                await stage.enter_async_context(consumer)
            sending = tasks.create_task(self._replay.run(name_server))
            log, acknowledged = await self._acts(admin, tasks)
            await sending
            sent_s = self._watch.now_s()
            self._say(f"all {self._total:,} flights are sent; waiting for the last ones to arrive")
            await self._settle()
            in_topic = sum(each.end for each in (await admin.offsets.ends(TOPIC)).values())
            await pipeline.stop()
        evidence = Evidence(
            plans=self._plans,
            in_topic=in_topic,
            followers=self._followers,
            departures=self._departures,
            calls=self._calls,
            small=self._small,
            log=log,
            acknowledged=acknowledged,
            taken_back=self._replay.taken_back,
            letters=pipeline.table(LETTERS),
            raw=pipeline.table(FLIGHTS),
            windows=pipeline.table(DELAYS),
            broker_kills=self._broker_kills,
            spark_kills=pipeline.kills,
        )
        return Run(
            evidence=evidence,
            watch=self._watch,
            replay=self._replay,
            pipeline=pipeline,
            sent_s=sent_s,
            total_s=self._watch.now_s(),
        )

    # The acts

    async def _acts(self, admin: Admin, tasks: asyncio.TaskGroup) -> tuple[Any, list[int]]:
        replay = self._replay
        self._say(f"sending {self._total:,} flights to topic {TOPIC!r}; starting Spark meanwhile …")
        replay.open_to(0.3)
        await replay.reached(0.05)
        async with LogReader(self._servers.store, TOPIC, self._place) as reader:
            await self._pipeline.passed()
            self._say("the pipeline fills its tables: flights, hourly delays and dead letters")
            await self._calls.send(self._servers.name_server)
            self._say(f"{self._calls.count:,} boarding calls are sent, due later")
            await reader.ready()
            replay.open_to(0.5)
            await replay.reached(0.35)
            log, acknowledged = await self._kill_broker(reader)
        replay.open_to(0.6)
        await self._receive_guest(admin, tasks)
        replay.open_to(0.8)
        await replay.reached(0.65)
        await self._kill_pipeline()
        return log, acknowledged

    async def _kill_broker(self, reader: LogReader) -> tuple[Any, list[int]]:
        with self._watch.lasting("broker killed", is_blind=True):
            await self._servers.kill()
            acknowledged = list(self._replay.stored_in)
            self._broker_kills += 1
            self._say(f"the broker was killed with SIGKILL after {sum(acknowledged):,} flights")
            log = await reader.read()
            rows = sum(queue["rows"] for queue in log["queues"])
            worst = ", ".join(
                f"{row['carrier']} {row['delay'] or 0:.0f} min" for row in log["worst"]
            )
            self._say(
                f"while it is down, Spark reads {rows:,} flights from its log; latest: {worst}"
            )
            await self._servers.start()
        self._say(f"the broker is back, in process {self._servers.pid}")
        return log, acknowledged

    async def _kill_pipeline(self) -> None:
        # One that has caught up begins no batch: then it is given more to do.
        for share in (0.85, 0.9, 0.95, 1.0):
            if await self._pipeline.kill_in_batch(within_s=KILL_WITHIN_S):
                break
            self._replay.open_to(share)
        else:
            self._say("the pipeline began no batch to be killed in")
            return
        self._replay.open_to(1.0)
        with self._watch.lasting("pipeline killed"):
            await self._pipeline.passed()
        self._say("the pipeline is back, and went on from its checkpoints")

    async def _receive_guest(self, admin: Admin, tasks: asyncio.TaskGroup) -> None:
        """Have the guest join; go on when it is a member, or will not be."""
        small, replay = self._small, self._replay
        deadline = time.monotonic() + GUEST_S
        leaves_at: list[float] = []

        def has_seen_enough() -> bool:
            now = time.monotonic()
            if small.guests.found and not leaves_at:
                leaves_at.append(now + GUEST_STAYS_S)
            sent_all = replay.stored >= replay.total * 0.95
            return now > deadline or (bool(leaves_at) and now > leaves_at[0] and sent_all)

        server = self._servers.name_server
        guest = tasks.create_task(small.host(self._place, server, TOPIC, has_seen_enough))
        while not guest.done() and time.monotonic() < deadline:
            with suppress(RocketPipeError):
                members = await admin.groups.members(third_party.GROUP)
                if len(members) > 1:
                    self._say(f"{small.guest_name}, not ours, joins group {third_party.GROUP!r}")
                    return
            await asyncio.sleep(LOOK_AGAIN_S)
        self._say(f"no client of someone else joins: {small.trouble or 'it took too long'}")

    # The end

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            counts = {
                "sent": self._replay.stored,
                "followed": self._followers.tally.found,
                "departed": self._departures.accepted.found,
                "dead": self._dead_letters(),
                "in the table": self._pipeline.count(),
            }
            self._say("… " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))

    async def _settle(self) -> None:
        """Wait until all has arrived, or until nothing moves any more; the proof tells which."""
        seen: tuple[int, ...] = ()
        moved_at = time.monotonic()
        while not self._is_complete():
            now = self._progress()
            if now != seen:
                seen, moved_at = now, time.monotonic()
            elif time.monotonic() - moved_at > STILL_S:
                self._say(f"nothing has moved for {STILL_S} s: what is missing now is lost")
                return
            await asyncio.sleep(LOOK_AGAIN_S)

    def _progress(self) -> tuple[int, ...]:
        departures = self._departures
        return (
            self._followers.tally.found,
            departures.accepted.found,
            *(tally.found for tally in departures.rejected),
            self._calls.tally.found,
            self._small.tally.found,
            self._dead_letters(),
            self._pipeline.count(),
            self._pipeline.passes,
        )

    def _is_complete(self) -> bool:
        departures = self._departures
        return (
            self._followers.tally.found == self._total
            and departures.accepted.found == self._total - self._cancelled
            and departures.rejected[-1].found == self._cancelled
            and self._calls.tally.found == self._calls.count
            and self._small.tally.found == self._small_total
            and self._dead_letters() >= self._cancelled
            and self._pipeline.has_passed(self._total, self._dead_letters())
        )

    def _dead_letters(self) -> int:
        return self._watch.samples[-1].dead_letters if self._watch.samples else 0
