"""A broker in this process, and a socket of our own to it: commands out, commands in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Self

from tests.guarded import signed

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.model.subscription import MessageModel, Subscription
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.remoting.caller import split_address
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout

ANSWER_S = 20


class Driver:
    """One connection; answers are matched to questions, and shown as they came."""

    def __init__(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer
        self._wire = Connection()
        self._opaques = count(1)
        self._answers: dict[int, asyncio.Future[Command]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def to(cls, address: str) -> Self:
        return cls(address, *await asyncio.open_connection(*split_address(address)))

    def start(self, request: Request[Any], *, code: int | None = None) -> asyncio.Future[Command]:
        """Ask; whoever awaits the future has the answer."""
        opaque = next(self._opaques)
        command = to_command(request, opaque)
        if code is not None:
            command = Command(code=code, opaque=opaque, fields=command.fields)
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._answers[opaque] = answer
        self._writer.write(encode_frame(signed(command)))
        return answer

    async def ask(self, request: Request[Any], *, code: int | None = None) -> Command:
        """Ask, and wait for the answer."""
        async with asyncio.timeout(ANSWER_S):
            return await self.start(request, code=code)

    async def send(
        self, *tags: str, topic: str = "t", queue_id: int = 0, **more: object
    ) -> Command:
        """Send messages that differ in their tags; the answer to the last."""
        for tag in tags:
            properties = {"TAGS": tag, "UNIQ_KEY": f"{next(self._opaques):032X}", **more}
            answer = await self.ask(
                SendMessage(
                    producer_group="p",
                    topic=topic,
                    default_topic="TBW102",
                    default_topic_queue_nums=4,
                    queue_id=queue_id,
                    sys_flag=0,
                    born_timestamp=1,
                    flag=0,
                    properties="".join(
                        f"{name}\x01{text}\x02" for name, text in properties.items()
                    ),
                    body=f"body of {tag}".encode(),
                )
            )
            assert answer.code == 0, answer.remark
        return answer

    async def join(
        self,
        *subscriptions: Subscription,
        group: str = "g",
        model: MessageModel = MessageModel.CLUSTERING,
    ) -> None:
        """Become a member of a group."""
        consumer = ConsumerData(
            group_name=group, message_model=model, subscriptions=tuple(subscriptions)
        )
        data = HeartbeatData(client_id="driver", consumers=(consumer,))
        answer = await self.ask(Heartbeat(data=data))
        assert answer.code == 0, answer.remark

    async def close(self) -> None:
        self._reading.cancel()
        self._writer.close()
        await asyncio.wait([self._reading])
        await self._writer.wait_closed()

    async def _read(self) -> None:
        while data := await self._reader.read(1 << 16):
            for command in self._wire.receive(data):
                if command.is_response:
                    answer = self._answers.pop(command.opaque)
                    if not answer.done():
                        answer.set_result(command)


@asynccontextmanager
async def driven_broker(
    data: Path,
    *,
    clock: Clock | None = None,
    prepare: Callable[[Tables], None] | None = None,
    **settings: Any,
) -> AsyncIterator[Driver]:
    """Run both servers; ``prepare`` fills the tables that the broker finds when it starts."""
    if prepare is not None:
        directory = StoreLayout(data).config
        directory.mkdir(parents=True)
        tables = Tables(Disk(), directory, clock or SystemClock(), default_topic_queues=8)
        prepare(tables)
        tables.save()
    async with name_server(NamesrvConfig(port=0), clock=clock) as address:
        config = BrokerConfig(
            data=data,
            name_servers=(address,),
            port=0,
            store=StoreConfig.embedded(data),
            **settings,
        )
        async with broker(config, clock=clock) as listening:
            driver = await Driver.to(listening)
            try:
                yield driver
            finally:
                await driver.close()
