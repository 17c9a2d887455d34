"""The leader's end of HA connections, on a real socket, that says what a test has it say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.waiting import until

from rocketpipe.broker.replication.epochs import EpochEntry
from rocketpipe.broker.replication.frames import Handshake, LeaderSide, Report


class LeaderEnd:
    """One follower's connection, as its leader sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.side = LeaderSide()
        self.handshake: Handshake | None = None
        self.reports: list[int] = []
        self.lost = False

    async def read(self) -> None:
        """Take note of what the follower says, until it goes."""
        try:
            while data := await self._reader.read(65536):
                for event in self.side.receive(data):
                    if isinstance(event, Report):
                        self.reports.append(event.end)
                    else:
                        self.handshake = event
        except ConnectionError:
            pass
        self.lost = True

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def hello(self, log_end: int, epoch: int, *entries: tuple[int, int]) -> None:
        told = [EpochEntry(*entry) for entry in entries]
        self.send(self.side.hello(log_end, epoch, told))

    def transfer(
        self, offset: int, data: bytes, epoch: int = 1, start: int = 0, confirmed: int = 0
    ) -> None:
        self.send(self.side.transfer_head(offset, len(data), epoch, start, confirmed) + data)

    def beat(self, offset: int, epoch: int = 1, start: int = 0, confirmed: int = 0) -> None:
        self.transfer(offset, b"", epoch, start, confirmed)

    async def ship(self, log: bytes, offset: int, step: int, **head: int) -> None:
        """Send a log from an offset on, in frames that are cut wherever that is."""
        for at in range(offset, len(log), step):
            self.transfer(at, log[at : at + step], **head)
            await self._writer.drain()

    async def reported(self, end: int) -> None:
        await until(lambda: end in self.reports)

    async def greeted(self) -> None:
        """Wait for the follower's first word."""
        await until(lambda: self.handshake is not None or self.reports)

    def close(self) -> None:
        self._writer.close()


class ScriptedLeader:
    """A port that followers connect to."""

    def __init__(self) -> None:
        self.address = ""
        self.ends: list[LeaderEnd] = []

    async def connection(self, number: int) -> LeaderEnd:
        """The connection that was made as the so manieth, once its follower has spoken."""
        await until(lambda: len(self.ends) > number)
        await self.ends[number].greeted()
        return self.ends[number]

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end = LeaderEnd(reader, writer)
        self.ends.append(end)
        try:
            await end.read()
        finally:
            writer.close()


@asynccontextmanager
async def scripted_leader(port: int = 0) -> AsyncIterator[ScriptedLeader]:
    leader = ScriptedLeader()
    server = await asyncio.start_server(leader.accept, "127.0.0.1", port)
    leader.address = "{}:{}".format(*server.sockets[0].getsockname())
    try:
        yield leader
    finally:
        server.close()
        for end in leader.ends:
            end.close()
        await until(lambda: all(end.lost for end in leader.ends))
