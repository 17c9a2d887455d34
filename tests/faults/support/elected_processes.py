"""An elected group of real processes under load: what was acknowledged, shown and refused."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

from tests.broker.support.asking import message
from tests.cli.cluster.support.running import cluster_up, require_zookeeper
from tests.waiting import PATIENCE_S, until

from rocketpipe import Producer
from rocketpipe.background import running
from rocketpipe.cli.cluster import control
from rocketpipe.cli.main import main
from rocketpipe.client.consumer.pull import pull_request
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.pulling import PullMessageReply
from rocketpipe.protocol.requests.sending import SendMessageReply
from rocketpipe.record.codec import view_records
from rocketpipe.remoting.caller import Caller

TOPIC: Final = "orders"
QUEUES: Final = 4
_PAUSE_S: Final = 0.02
_LOOK_S: Final = 0.1

#: What `cluster status` says of brokers, by name.
Rows = dict[str, dict[str, Any]]
#: Messages by queue and offset.
Places = dict[tuple[int, int], bytes]


class Processes:
    """The brokers of a cluster, and what is done to them."""

    def __init__(self, directory: Path, name_server: str) -> None:
        self.directory = directory
        self.name_server = name_server

    async def say(self, verb: str, name: str | None = None, **more: Any) -> dict[str, Any]:
        return await asyncio.to_thread(control.ask, self.directory, verb, name=name, **more)

    async def brokers(self) -> Rows:
        rows = (await self.say("status"))["rows"]
        return {row["name"]: row for row in rows if row["kind"] == "broker"}

    async def leader(self, *, other_than: str = "") -> str:
        """Wait until one leads, and give its name."""

        def leads(rows: Rows) -> str | None:
            leading = [name for name, row in rows.items() if row["role"] == "leader"]
            return next((name for name in leading if name != other_than), None)

        return await self._when(leads)

    async def all_in_sync(self) -> str:
        """Wait until every replica is in sync, and give who leads."""

        def whole(rows: Rows) -> str | None:
            if not all(row["in_sync"] for row in rows.values()):
                return None
            return next((name for name, row in rows.items() if row["role"] == "leader"), None)

        return await self._when(whole)

    async def logs_agree(self) -> None:
        """Wait until all logs end at one place."""
        await self._when(
            lambda rows: "yes" if len({r["log_end"] for r in rows.values()}) == 1 else None
        )

    async def log_grows(self, name: str, end: int) -> None:
        """Wait until a broker has stored more than that."""
        await self._when(lambda rows: name if (rows[name]["log_end"] or 0) > end else None)

    async def _when(self, found: Callable[[Rows], str | None]) -> str:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                name = found(await self.brokers())
                if name is not None:
                    return name
                await asyncio.sleep(_LOOK_S)

    async def restart(self, name: str) -> None:
        """Have a broker stop in order; it is started again, and this waits for that."""
        row = (await self.brokers())[name]
        os.kill(row["pid"], signal.SIGTERM)
        await self._when(lambda rows: name if rows[name]["starts"] > row["starts"] else None)

    async def restart_all(self, load: Load) -> None:
        """Restart one broker after the other; whoever leads resigns before."""
        for name in await self.brokers():
            if name == await self.leader():
                command = ["broker", "resign", "broker-a", "-n", self.name_server]
                assert await asyncio.to_thread(main, command) == 0
                await load.goes_on()
            await self.restart(name)
            await load.goes_on()
            await self.all_in_sync()

    def quarantine(self, name: str) -> list[Path]:
        """What was cut off a broker's log."""
        return sorted((self.directory / name / "quarantine").glob("*"))


@asynccontextmanager
async def elected_processes(
    directory: Path, *, session: str = "1s", zookeepers: int = 1
) -> AsyncIterator[Processes]:
    """Three brokers, all in sync, for the length of the block."""
    require_zookeeper()
    flags = ("--mode", "elected", "--session", session, "--zookeepers", str(zookeepers))
    with cluster_up(directory, *flags) as up:
        ready = await asyncio.to_thread(up.until, "ready")
        group = Processes(directory, ready["namesrv"])
        await group.all_in_sync()
        yield group


class Load:
    """Producers that send one message after the other, and what they were told."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._numbers = count()
        self.acked: Places = {}
        self.errors: list[RocketPipeError] = []

    @asynccontextmanager
    async def under_way(self, workers: int = 4) -> AsyncIterator[None]:
        """Send for the length of the block; what is under way at its end is answered then."""
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(workers):
                tasks.create_task(self._send(stopping))
            try:
                yield
            finally:
                stopping.set()

    async def goes_on(self, least: int = 20) -> None:
        """Wait until so many more are acknowledged."""
        wanted = len(self.acked) + least
        await until(lambda: len(self.acked) >= wanted)

    async def send(self) -> bool:
        """Send one; whether it was acknowledged."""
        body = b"%d" % next(self._numbers)
        try:
            sent = await self._producer.send(TOPIC, body)
        except RocketPipeError as error:
            self.errors.append(error)
            return False
        place = sent.queue.queue_id, sent.queue_offset
        assert place not in self.acked, "two messages in one place"
        self.acked[place] = body
        return True

    async def _send(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            await self.send()
            await asyncio.sleep(_PAUSE_S)


class Stubborn:
    """Sends to one broker, whoever leads."""

    def __init__(self) -> None:
        self._caller = Caller()
        self.sent: list[bytes] = []

    async def __aenter__(self) -> Self:
        await self._caller.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._caller.__aexit__(None, None, None)

    def send(self, address: str, body: bytes) -> asyncio.Future[list[bytes]]:
        """Send some at once; gives those that were acknowledged, once all are answered."""
        bodies = [body + b" %d" % number for number in range(10)]
        self.sent += bodies
        return asyncio.ensure_future(self._acknowledged(address, bodies))

    async def _acknowledged(self, address: str, bodies: list[bytes]) -> list[bytes]:
        sends = (
            self._caller.call(address, message(TOPIC, body, number % QUEUES), PATIENCE_S * 1000)
            for number, body in enumerate(bodies)
        )
        answers = await asyncio.gather(*sends, return_exceptions=True)
        for each in answers:
            if isinstance(each, BaseException) and not isinstance(each, RequestRejected):
                raise each
        return [
            body
            for body, answer in zip(bodies, answers, strict=True)
            if isinstance(answer, SendMessageReply)
        ]


class Reader:
    """Reads all queues, at one broker and then another; never goes back."""

    def __init__(self) -> None:
        self.seen: Places = {}
        self.next = dict.fromkeys(range(QUEUES), 0)

    async def read(self, caller: Caller, address: str) -> int:
        """Take what a broker shows by now; gives how much that was."""
        some = 0
        for queue_id, at in self.next.items():
            reply = await pulled(caller, address, queue_id, at)
            assert reply.next_begin_offset >= at, "sent back to where it was before"
            for record in view_records(reply.messages):
                assert record.queue_offset == self.next[queue_id]
                self.seen[queue_id, record.queue_offset] = record.body
                self.next[queue_id] += 1
                some += 1
        return some

    @asynccontextmanager
    async def at_followers(self, group: Processes) -> AsyncIterator[None]:
        """Read at whoever follows, for the length of the block."""
        async with Caller() as caller, running(self._follow(caller, group), "reader"):
            yield

    async def _follow(self, caller: Caller, group: Processes) -> None:
        while True:
            for row in (await group.brokers()).values():
                if row["role"] == "follower":
                    with suppress(RocketPipeError):  # it is gone, or about to lead
                        for _ in range(20):
                            await self.read(caller, row["address"])
                            await asyncio.sleep(_PAUSE_S)


async def pulled(caller: Caller, address: str, queue_id: int, at: int) -> PullMessageReply:
    queue = MessageQueue(topic=TOPIC, broker_name="broker-a", queue_id=queue_id)
    return await caller.call(address, pull_request("reader", queue, QueueOffset(at), "*", 0))


async def everything(address: str) -> Places:
    """All that a broker shows."""
    reader = Reader()
    async with Caller() as caller:
        while await reader.read(caller, address):
            pass
    return reader.seen


async def check(group: Processes, *promised: Places) -> None:
    """Whatever was acknowledged or shown is at its place, with every replica."""
    leader = await group.all_in_sync()
    check_kept(await everything((await group.brokers())[leader]["address"]), *promised)
    await group.logs_agree()


def check_kept(found: Places, *promised: Places) -> None:
    for places in promised:
        assert {place: found.get(place) for place in places} == places
