"""Three copies of a broker, and the one that leads is killed while flights are sent to it.

rocketpipe cluster up --mode elected        ZooKeeper, a NameServer, three brokers
flights are sent by several at once          each acknowledged by all that are in sync
rocketpipe cluster kill LEADER               kill -9; it stays dead
another leads, and more flights are sent
the topic is read from its beginning         does it have whatever was acknowledged?

All of it is `rocketpipe cluster`, as people type it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Final

from demo.data import Flight
from rocketpipe import Admin, Producer, PullConsumer, TopicExists
from rocketpipe.errors import RocketPipeError
from rocketpipe.testing import ServersFailed

TOPIC: Final = "departures"
QUEUES: Final = 8
SENDERS: Final = 4
#: So many are acknowledged before the leader is killed, and as many again by the next one.
EACH_HALF: Final = 1_500
#: A send waits for the next leader; an election takes less than this, also on a busy machine.
SEND_MS: Final = 30_000
START_S: Final = 60
STEP_S: Final = 60
STOP_S: Final = 30
LOOK_AGAIN_S: Final = 0.1
LOG_NAME: Final = "cluster.log"


@dataclass(slots=True)
class Takeover:
    """What came of it; times are seconds since sending began."""

    #: The number of each send that was acknowledged, by when; in order of time.
    acknowledged: list[tuple[float, int]] = field(default_factory=list)
    failed: int = 0
    #: How often each is in the topic.
    read: Counter[int] = field(default_factory=Counter)
    killed: str = ""
    killed_at_s: float = 0.0
    leads: str = ""
    #: Why there was none, if there was none.
    trouble: str = ""

    @property
    def happened(self) -> bool:
        """Whether one was killed and another leads."""
        return bool(self.leads) and self.leads != self.killed

    @property
    def lost(self) -> int:
        """How many were acknowledged and are not there."""
        return sum(number not in self.read for _, number in self.acknowledged)

    @property
    def twice(self) -> int:
        """How many of those are there more than once."""
        return sum(self.read[number] > 1 for _, number in self.acknowledged)

    @property
    def pause(self) -> tuple[float, float]:
        """When the longest time without an acknowledgement, from the kill on, began and ended."""
        before = [at for at, _ in self.acknowledged if at <= self.killed_at_s][-1:]
        after = [at for at, _ in self.acknowledged if at > self.killed_at_s]
        none = (self.killed_at_s, self.killed_at_s)
        return max(pairwise(before + after), key=lambda pair: pair[1] - pair[0], default=none)

    @property
    def pause_s(self) -> float:
        """How long that was."""
        began_s, ended_s = self.pause
        return ended_s - began_s


class Cluster:
    """``rocketpipe cluster up`` in a directory, as a child, and its verbs."""

    def __init__(self, place: Path) -> None:
        self._data = place / "cluster"
        self._log = place / LOG_NAME
        self._child: subprocess.Popen[bytes] | None = None
        self.name_server = ""

    async def start(self) -> None:
        """Start it, and wait until one of the brokers leads.

        Raises:
            ServersFailed: If none does; the reason is the last line that it said.
        """
        self._child = child = self._spawn()
        deadline = time.monotonic() + START_S
        while child.poll() is None and time.monotonic() < deadline:
            for line in self._log.read_text().splitlines():
                if line.startswith("ready namesrv="):
                    self.name_server = line.partition("=")[2]
                    return
            await asyncio.sleep(LOOK_AGAIN_S)
        said = self._log.read_text().strip().splitlines()
        self.stop()
        raise ServersFailed(said[-1] if said else "it said nothing")

    async def leader(self) -> str | None:
        """The broker that leads, if one does."""
        rows: list[dict[str, Any]] = json.loads(await self.tell("status", "-o", "json"))
        return next((row["name"] for row in rows if row["role"] == "leader" and row["pid"]), None)

    async def tell(self, *words: str) -> str:
        """Give it a command, and what that prints.

        Raises:
            ServersFailed: If it does not work.
        """
        done = await asyncio.to_thread(
            subprocess.run,
            _command(*words, "--data", str(self._data)),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ServersFailed(done.stderr.strip())
        return done.stdout

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = _command("up", "--mode", "elected", "--replicas", "3", "--data", str(self._data))
        with self._log.open("w") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us alone: we end it when we are done
            )

    def stop(self) -> None:
        """End all of it, in order."""
        child = self._child
        if child is None or child.poll() is not None:
            return
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()  # its children end when it is gone
            child.wait()


async def take_over(flights: Sequence[Flight], place: Path, say: Callable[[str], None]) -> Takeover:
    """Play it; where there can be no such cluster, the reason is told and nothing else."""
    found = Takeover()
    cluster = Cluster(place)
    try:
        await cluster.start()
        say(f"three copies of a broker run: NameServer {cluster.name_server}, one is elected")
        await _play(cluster, flights, found, say)
    except ServersFailed as error:
        found.trouble = str(error)
        say(f"no leader is killed: {found.trouble}")
    finally:
        cluster.stop()
    return found


async def _play(
    cluster: Cluster, flights: Sequence[Flight], found: Takeover, say: Callable[[str], None]
) -> None:
    await _make_topic(cluster.name_server)
    enough = asyncio.Event()
    began = time.monotonic()
    sending = asyncio.create_task(_send(cluster.name_server, flights, found, began, enough))
    try:
        await _sent(found, EACH_HALF, sending)
        found.killed = await cluster.leader() or ""
        await cluster.tell("kill", found.killed)
        # A command takes a while to start: it is dead when the answer is there, not before.
        found.killed_at_s = time.monotonic() - began
        before = len(found.acknowledged)
        say(f"{found.killed}, which led, was killed with SIGKILL after {before:,} flights")

        async def another_leads() -> bool:
            found.leads = await cluster.leader() or ""
            return found.happened

        await _until(another_leads)
        await _sent(found, before + EACH_HALF, sending)
        enough.set()
        await sending
    finally:
        sending.cancel()
    await _read(cluster.name_server, found)
    say(
        f"{found.leads} leads; nothing was acknowledged for {found.pause_s:.1f} s; "
        f"acknowledged {len(found.acknowledged):,}, lost {found.lost:,}"
    )


async def _make_topic(name_server: str) -> None:
    """Make it as soon as enough copies are in sync: they may still be joining."""
    deadline = time.monotonic() + STEP_S
    async with Admin(name_server) as admin:
        while True:
            try:
                await admin.topics.create(TOPIC, queues=QUEUES)
            except TopicExists:
                return  # by what was not answered in time
            except RocketPipeError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(LOOK_AGAIN_S)
            else:
                return


async def _send(
    name_server: str,
    flights: Sequence[Flight],
    found: Takeover,
    began: float,
    enough: asyncio.Event,
) -> None:
    """Send flights, several at a time and each under a number, until it is enough."""
    numbers = count()

    async def send_some(producer: Producer) -> None:
        while not enough.is_set():
            number = next(numbers)
            body = flights[number % len(flights)].body
            try:
                await producer.send(TOPIC, body, keys=[str(number)], timeout_ms=SEND_MS)
            except RocketPipeError:
                found.failed += 1  # it is not known: nothing is promised of it
            else:
                found.acknowledged.append((time.monotonic() - began, number))

    async with Producer(name_server) as producer, asyncio.TaskGroup() as senders:
        for _ in range(SENDERS):
            senders.create_task(send_some(producer))


async def _sent(found: Takeover, wanted: int, sending: asyncio.Task[None]) -> None:
    async def has_sent() -> bool:
        return len(found.acknowledged) >= wanted or sending.done()

    await _until(has_sent)


async def _read(name_server: str, found: Takeover) -> None:
    """Read the topic from its beginning to where it ends now."""
    async with Admin(name_server) as admin:
        total = sum(each.end for each in (await admin.offsets.ends(TOPIC)).values())
    async with PullConsumer(name_server, group="audit") as consumer:
        await consumer.assign(await consumer.queues_of(TOPIC))
        await consumer.seek_to_begin()
        deadline = time.monotonic() + STEP_S
        while found.read.total() < total and time.monotonic() < deadline:
            found.read.update(int(message.keys[0]) for message in await consumer.poll())


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something, for so long as it may take; what is missing then is told by the proof."""
    deadline = time.monotonic() + STEP_S
    while time.monotonic() < deadline:
        if await holds():
            return
        await asyncio.sleep(LOOK_AGAIN_S)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "rocketpipe.cli.main", "cluster", *words]
