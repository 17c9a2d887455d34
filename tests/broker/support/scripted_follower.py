"""A follower that says what a test tells it to, over a real socket, in either dialect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

from tests.waiting import until

from rocketpipe.broker.replication.frames import Dialect, FollowerSide, LeaderHello, Transfer
from rocketpipe.remoting.caller import split_address


class ScriptedFollower:
    """One connection to a leader's HA port; keeps all that came over it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        dialect: Dialect,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.side = FollowerSide(dialect)
        self.hello: LeaderHello | None = None
        #: Every frame and every piece of one, and the log's bytes in them.
        self.frames: list[Transfer] = []
        self.log = b""
        self.start = -1
        self.closed = False
        #: Whether each read is answered by a report of all that came.
        self.reports = False
        #: Whether what comes is looked at.
        self.listens = True
        self._reading = asyncio.ensure_future(self._read())

    @property
    def end(self) -> int:
        """Where the log ends that was taken in."""
        return self.start + len(self.log)

    async def _read(self) -> None:
        with suppress(OSError):
            while data := await self._reader.read(1 << 20):
                for event in self.side.receive(data) if self.listens else ():
                    if isinstance(event, LeaderHello):
                        self.hello = event
                    else:
                        self._take(event)
                if self.reports and self.start >= 0:
                    self.report(self.end)
        self.closed = True

    def _take(self, frame: Transfer) -> None:
        self.frames.append(Transfer(frame.offset, bytes(frame.data), *_epoch(frame)))
        if self.start < 0:
            self.start = frame.offset
        assert frame.offset == self.end, "a gap, or something twice"
        self.log += frame.data

    def stop_reading(self) -> None:
        """Leave in the socket whatever comes."""
        self._reading.cancel()
        self._writer.transport.pause_reading()

    def say(self, data: bytes) -> None:
        self._writer.write(data)

    def report(self, end: int) -> None:
        self.say(self.side.report(end))

    async def is_closed(self) -> None:
        """Wait until the leader has closed the connection."""
        await until(lambda: self.closed)

    def close(self) -> None:
        self._reading.cancel()
        self._writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _epoch(frame: Transfer) -> tuple[int, int, int]:
    return frame.epoch, frame.epoch_start, frame.confirmed


async def connected(address: str, dialect: Dialect) -> ScriptedFollower:
    """Connect, and say nothing."""
    return ScriptedFollower(*await asyncio.open_connection(*split_address(address)), dialect)


@asynccontextmanager
async def following(
    address: str, number: int | None = None, end: int = 0, *, learner: bool = False
) -> AsyncIterator[ScriptedFollower]:
    """Follow from ``end`` on: with a number in the epochs dialect, else plain."""
    dialect = Dialect.PLAIN if number is None else Dialect.EPOCHS
    async with await connected(address, dialect) as follower:
        if number is not None:
            follower.say(follower.side.handshake(number, learner=learner))
            await until(lambda: follower.hello is not None or follower.closed)
        follower.report(end)
        yield follower
