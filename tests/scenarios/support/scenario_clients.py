"""Who plays in a scenario: producers, members of groups, and what is recorded of them.

Members live in this process, or in one of their own if they are to be killed. Each has a journal;
together they are the history that the checker reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from tests.scenarios.support.history_member import Part
from tests.scenarios.support.hurried_clock import HurriedClock

from rocketpipe import Admin, ConsumeFromWhere, Producer, PushConsumer, RocketPipeError, Session
from rocketpipe.client.consumer.group.assignment import AVERAGE
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.testing.histories.history import Event, Journal, Phase, Recorder, What, read_history

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
ROOT = Path(__file__).parents[3]
#: A wait that takes longer is a failure; none is expected to come near.
PATIENCE_S = 120
#: Sends may take as long as a broker needs to come back; it is a hurried clock's time.
SEND_TIMEOUT_MS = 30_000

Fails = Callable[[str, int], bool]


class Cast:
    """The players of one scenario; ``async with`` sends home whoever is left."""

    def __init__(self, directory: Path, name_servers: str) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.name_servers = name_servers
        self.clock = HurriedClock()
        self._stack = AsyncExitStack()
        self._journals: list[Path] = []
        self._numbers = itertools.count()
        #: What members of this process have handled, by group; others' is in their journals.
        self.handled: defaultdict[str, set[str]] = defaultdict(set)
        self.stored: set[str] = set()
        self.stored_at: defaultdict[str, int] = defaultdict(int)
        self.members: dict[str, PushConsumer] = {}
        self._records: dict[str, tuple[Recorder, str]] = {}
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self.nemesis = self.recorder("nemesis")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self._children.values():
            child.kill()
            await child.communicate()
        await self._stack.aclose()

    def recorder(self, name: str) -> Recorder:
        """Somebody new writes a journal."""
        path = self._directory / f"{name}.jsonl"
        self._journals.append(path)
        return Recorder(self._stack.enter_context(Journal(path)), name)

    def history(self) -> list[Event]:
        """All that was recorded so far, by everybody."""
        return read_history(*(path for path in self._journals if path.exists()))

    async def create_topic(self, topic: str, queues: int) -> None:
        async with Admin(self.name_servers) as admin:
            await admin.topics.create(topic, queues=queues)

    # Producers

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[Producer]:
        producer = Producer(self.name_servers, clock=self.clock, timeout_ms=SEND_TIMEOUT_MS)
        async with producer:
            yield producer

    async def send(
        self, record: Recorder, producer: Producer, topic: str, key: str = "", suffix: str = ""
    ) -> None:
        """Send one message; one that fails is recorded as such, and not sent again."""
        message_id = f"{record.who}-{next(self._numbers)}{suffix}"
        body = f"{message_id} of {topic}".encode()
        with contextlib.suppress(RocketPipeError):
            with record.sending(message_id, topic, body, key=key) as sending:
                order_by = {"order_by": key} if key else {}
                result = await producer.send(topic, body, keys=[message_id], **order_by)
                sending.stored(result)
            self.stored.add(message_id)
            self.stored_at[result.queue.broker_name] += 1

    @asynccontextmanager
    async def sending(
        self, producer: Producer, topic: str, *, senders: int = 4, keyed: bool = False
    ) -> AsyncIterator[None]:
        """Keep sending while the block lasts: each sender one message at a time."""
        over = asyncio.Event()

        async def keep(name: str) -> None:
            record = self.recorder(name)
            while not over.is_set():
                await self.send(record, producer, topic, key=name if keyed else "")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), 0.01)  # some hundred a second are enough

        async with asyncio.TaskGroup() as tasks:
            for number in range(senders):
                tasks.create_task(keep(f"{topic}-sender-{number}"))
            try:
                yield
            finally:
                over.set()

    async def more_stored(self, count: int) -> None:
        """Wait for so many more sends that succeed."""
        wanted = len(self.stored) + count
        await self.until(lambda: len(self.stored) >= wanted)

    # Members

    async def join(
        self,
        name: str,
        group: str,
        topic: str,
        *,
        fails: Fails = lambda message_id, times: False,
        ordered: bool = False,
        broadcast: bool = False,
        max_retries: int | None = None,
        work_s: float = 0.0,
    ) -> PushConsumer:
        """A member in this process."""
        record = self.recorder(name)
        consumer = PushConsumer(
            Session(self.name_servers, clock=self.clock, instance=name),
            group=group,
            ordered=ordered,
            broadcast=broadcast,
            start=FIRST,
            strategy=record.sharing(group, AVERAGE),
            concurrency=4,
            tuning=PushTuning(max_attempts=None if max_retries is None else max_retries + 1),
            offsets_root=self._directory / "offsets",
        )

        @consumer.on(topic)
        async def handle(message: Any) -> None:
            with record.handling(group, message):
                await asyncio.sleep(work_s)
                if fails(message.keys[0], message.reconsume_times):
                    raise ValueError("this one always fails")
            self.handled[name if broadcast else group].add(message.keys[0])

        await self._stack.enter_async_context(consumer)
        record.joined(group, topic, ordered=ordered, broadcast=broadcast, max_retries=max_retries)
        self.members[name] = consumer
        self._records[name] = record, group
        return consumer

    async def leave(self, name: str) -> None:
        """It closes in good order."""
        record, group = self._records[name]
        with record.leaving(group):
            await self.members.pop(name).close()

    async def join_from_outside(
        self, name: str, group: str, topic: str, *, ordered: bool = False
    ) -> None:
        """A member in a process of its own, which can be killed."""
        journal = self._directory / f"{name}.jsonl"
        self._journals.append(journal)
        part = Part(
            name_servers=self.name_servers,
            journal=str(journal),
            name=name,
            group=group,
            topic=topic,
            ordered=ordered,
        )
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.scenarios.support.history_member", msgspec.json.encode(part).decode()),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._children[name] = child
        assert child.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            assert await child.stdout.readline() == b"joined\n"

    async def kill(self, name: str) -> None:
        """kill -9: nothing is finished, saved or said."""
        child = self._children.pop(name)
        child.kill()
        await child.communicate()
        self.nemesis.killed(name)

    async def dismiss(self, name: str) -> None:
        """A member of a process of its own closes in good order."""
        child = self._children.pop(name)
        async with asyncio.timeout(PATIENCE_S):
            await child.communicate(b"")
        assert child.returncode == 0

    # Waiting

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():  # noqa: ASYNC110 - a condition of others, who know no event
                await asyncio.sleep(0.01)

    async def until_route(self, topic: str) -> None:
        """Wait until NameServers know where a topic is."""
        async with Session(self.name_servers) as session, asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    await session.routes.get(topic)
                except RocketPipeError:
                    await asyncio.sleep(0.05)
                else:
                    return

    async def handled_by(self, name: str, count: int) -> None:
        """Wait until a member of another process has handled so many messages."""
        async with asyncio.timeout(PATIENCE_S):
            while sum(map(_is_done, self._journal_of(name))) < count:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)

    async def drained(self, group: str, *, but: Callable[[str], bool] = lambda _: False) -> None:
        """Wait until a group has handled everything that was stored."""
        wanted = {message_id for message_id in self.stored if not but(message_id)}
        async with asyncio.timeout(PATIENCE_S):
            while not wanted <= self.handled[group]:
                if self._journals_of_others():
                    self.handled[group] |= {
                        event.id
                        for event in read_history(*self._journals_of_others())
                        if event.group == group and _is_done(event)
                    }
                await asyncio.sleep(0.1)

    def _journals_of_others(self) -> list[Path]:
        own = {f"{name}.jsonl" for name in self._records}
        return [path for path in self._journals if path.name not in own and path.exists()]

    def _journal_of(self, name: str) -> list[Event]:
        return read_history(self._directory / f"{name}.jsonl")


def _is_done(event: Event) -> bool:
    return event.what is What.HANDLE and event.phase is Phase.OK
