"""A broker's lives: a process under load, killed, and started again on what it left behind."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from rocketpipe.errors import CallTimeout, ConnectionLost
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageReply
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.record.codec import view_records
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing.servers import serving

WORKERS: Final = 4
TIMEOUT_MS: Final = 30_000
FINISH_S: Final = 120
WAIT_MS: Final = 1_000

ReplyT = TypeVar("ReplyT")


class Broker:
    """One life of a broker, as those see it who send to it and read from it."""

    def __init__(self, caller: Caller, address: str) -> None:
        self._caller = caller
        self._address = address

    async def ask(self, request: Request[ReplyT]) -> ReplyT:
        return await self._caller.call(self._address, request, TIMEOUT_MS)

    async def send(
        self, topic: str, queue_id: int, *bodies: bytes, properties: str = ""
    ) -> SendMessageReply:
        """Send one message, or a batch of several."""
        batch = len(bodies) > 1
        body = encode_batch(Entry(0, each, b"") for each in bodies) if batch else bodies[0]
        reply = await self.ask(
            SendMessage(
                producer_group="p",
                topic=topic,
                default_topic="TBW102",
                default_topic_queue_nums=WORKERS,
                queue_id=queue_id,
                sys_flag=0,
                born_timestamp=1,
                flag=0,
                properties=properties,
                batch=batch,
                body=body,
            )
        )
        assert reply.code == ResponseCode.SUCCESS
        return reply

    async def pull(
        self, topic: str, queue_id: int, offset: int, *, wait: bool = False
    ) -> list[StoredMessage]:
        """Read some messages; with ``wait``, none are given only after a while."""
        reply = await self.ask(
            PullMessage(
                consumer_group="reader",
                topic=topic,
                queue_id=queue_id,
                queue_offset=QueueOffset(offset),
                max_msg_nums=32,
                sys_flag=PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait else 0),
                commit_offset=QueueOffset(0),
                suspend_timeout_millis=WAIT_MS,
                subscription="*",
                sub_version=0,
            )
        )
        return [view.message() for view in view_records(reply.messages)]

    async def read(self, topic: str, queue_id: int) -> list[StoredMessage]:
        """Every message of a queue, each at the offset that is its place in the list."""
        messages: list[StoredMessage] = []
        while some := await self.pull(topic, queue_id, len(messages)):
            messages += some
        assert [each.queue_offset for each in messages] == list(range(len(messages)))
        return messages


class Scenario(ABC):
    """What is done to a broker until it dies, and what must hold when it is back."""

    #: How much has come about in the present life: by this, and not by time, it is killed.
    progress = 0
    #: From how much to how much of it a life lasts.
    span: tuple[int, int] = (20, 200)

    async def prepare(self, broker: Broker) -> None:  # noqa: B027 - most need nothing
        """Do what the steps need, in each life anew."""

    @abstractmethod
    async def step(self, broker: Broker, worker: int) -> None:
        """One thing of many that go on at once."""

    @abstractmethod
    async def check(self, broker: Broker) -> None:
        """Find whatever was acknowledged in earlier lives."""

    async def finish(self, broker: Broker) -> None:
        """Bring to its end what the kills interrupted."""
        await self.check(broker)


async def live_and_die(
    scratch: Path, scenario: Scenario, kills: int, arguments: Sequence[str] = ()
) -> None:
    """Run a scenario through so many kills, and let it finish in the life after the last."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    try:
        for life in range(kills + 1):
            with serving(scratch, arguments) as servers:
                async with Caller() as caller:
                    broker = Broker(caller, servers.broker)
                    if life:
                        await scenario.check(broker)
                    if life == kills:
                        async with asyncio.timeout(FINISH_S):
                            await scenario.finish(broker)
                        return
                    await scenario.prepare(broker)
                    scenario.progress = 0
                    enough = chance.randint(*scenario.span)
                    async with asyncio.timeout(FINISH_S), asyncio.TaskGroup() as tasks:
                        for worker in range(WORKERS):
                            tasks.create_task(_work(scenario, broker, worker))
                        tasks.create_task(_kill(scenario, enough, servers.process.kill))
                assert servers.process.wait() == -9
    except BaseException as error:
        error.add_note(f"seed {seed}, life {life}")
        raise


async def _work(scenario: Scenario, broker: Broker, worker: int) -> None:
    try:
        while True:
            await scenario.step(broker, worker)
    except (ConnectionLost, CallTimeout):
        return  # it is dead; what was not answered may be there or not


async def _kill(scenario: Scenario, enough: int, kill: Callable[[], None]) -> None:
    while scenario.progress < enough:  # noqa: ASYNC110 - the workers are busy with other things
        await asyncio.sleep(0)
    kill()
