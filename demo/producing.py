"""Sends the flights: those of one aircraft to one queue, in order, and each of them once.

Each queue has one sender, which has a batch under way at a time. So the place of a flight among
those of its queue is its offset there, and after a failure the queue's end says which flights are
stored: the sender goes on behind them, and neither leaves one out nor sends one again.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Iterable, Sequence
from typing import Final

from demo.data import Flight
from rocketpipe import Admin, Message, MessageQueue, Producer, Session
from rocketpipe.client.producer.retry import Retries
from rocketpipe.errors import RocketPipeError

GROUP: Final = "flight-recorders"
#: A batch is a thousandth of the flights, within these.
SMALLEST_BATCH, LARGEST_BATCH = 10, 200
SEND_TIMEOUT_MS: Final = 30_000  # a demo may run on a machine that is busy with other things
LOOK_AGAIN_S: Final = 0.2
PATIENCE_S: Final = 120


def queue_of(aircraft: str, queues: int) -> int:
    """The queue that an aircraft's flights go to."""
    return zlib.crc32(aircraft.encode()) % queues


def plans(flights: Iterable[Flight], queues: int) -> list[list[Flight]]:
    """What each queue is to hold, in order."""
    planned: list[list[Flight]] = [[] for _ in range(queues)]
    for flight in flights:
        planned[queue_of(flight.aircraft, queues)].append(flight)
    return planned


class Replay:
    """The flights on their way into the topic, at a pace, and up to a gate that is moved on."""

    def __init__(self, topic: str, planned: Sequence[Sequence[Flight]], per_second: float) -> None:
        self.topic = topic
        self.total = sum(map(len, planned))
        #: Known to be stored: answered, or found in the queue afterwards.
        self.stored = 0
        #: How often a sender lost the broker, and how many flights it then found stored.
        self.interruptions = 0
        self.found_stored = 0
        #: How many of each queue's flights are known to be stored, and how many were once known to
        #: be and then were not there.
        self.stored_in = [0] * len(planned)
        self.taken_back = 0
        self._plans = planned
        self._per_second = per_second
        self._batch = min(max(self.total // 1000, SMALLEST_BATCH), LARGEST_BATCH)
        self._gate = 0
        self._moved = asyncio.Event()
        self._next_at = 0.0

    def open_to(self, share: float) -> None:
        """Let this share of the flights go, and no more for now."""
        self._gate = max(self._gate, round(self.total * share))
        self._moved.set()

    async def reached(self, share: float) -> None:
        """Wait until so many are stored."""
        while self.stored < self.total * share:  # noqa: ASYNC110 - one of many who look at it
            await asyncio.sleep(LOOK_AGAIN_S)

    async def run(self, name_server: str) -> None:
        """Send them all.

        Raises:
            RocketPipeError: If the broker refuses them, or stays away.
        """
        session = Session(name_server, instance="flight-recorder")
        producer = Producer(session, group=GROUP, retries=Retries(attempts=1))
        async with session, producer, Admin(session) as admin:
            ends = await admin.offsets.ends(self.topic)
            assert len(ends) == len(self._plans), "a plan for each queue"
            async with asyncio.TaskGroup() as tasks:
                for queue in ends:
                    plan = self._plans[queue.queue_id]
                    tasks.create_task(self._send(producer, admin, queue, plan))

    async def _send(
        self, producer: Producer, admin: Admin, queue: MessageQueue, plan: Sequence[Flight]
    ) -> None:
        done = 0
        while done < len(plan):
            await self._turn()
            batch = [self._message(flight) for flight in plan[done : done + self._batch]]
            try:
                await producer.send_batch(batch, queue=queue, timeout_ms=SEND_TIMEOUT_MS)
            except RocketPipeError as error:
                self.interruptions += 1
                stored = await self._end_of(admin, queue, error)
                self.found_stored += max(0, stored - done)
                self.taken_back += max(0, done - stored)
            else:
                stored = done + len(batch)
            self.stored += stored - done
            self.stored_in[queue.queue_id] = stored
            done = stored

    def _message(self, flight: Flight) -> Message:
        return Message(self.topic, flight.body, tags=flight.carrier, keys=[flight.aircraft])

    async def _turn(self) -> None:
        """Wait for the gate, and for the pace."""
        while self.stored >= self._gate:
            self._moved.clear()
            await self._moved.wait()
        now = time.monotonic()
        turn_at = max(self._next_at, now)
        self._next_at = turn_at + self._batch / self._per_second
        if turn_at > now:
            await asyncio.sleep(turn_at - now)

    async def _end_of(self, admin: Admin, queue: MessageQueue, failed: RocketPipeError) -> int:
        """Where the queue ends, once its broker says so again."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return (await admin.offsets.ends(self.topic))[queue].end
            except RocketPipeError:
                if time.monotonic() > deadline:
                    raise failed from None
                await asyncio.sleep(LOOK_AGAIN_S)
