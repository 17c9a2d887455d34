from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.waiting import until

from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.slow_readers import Answer, ReaderGone, ReaderTooSlow, SlowReaders
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.v2 import messaging_pb2 as pb

TOLD = pb.ReceiveMessageResponse(message=pb.Message(body=b"x" * 1000))


class Context:
    """A call whose reader takes what it gets when it is let."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.taken: list[Any] = []
        self.breaks = False

    async def write(self, told: Any) -> None:
        await self.reads.wait()
        if self.breaks:
            raise RuntimeError("the peer is gone")
        self.taken.append(told)


@pytest.fixture
def readers() -> SlowReaders:
    return SlowReaders(ProxyConfig(slow_reader_ms=1, max_unread_bytes=1000))


async def test_who_reads_in_time_holds_nothing(readers: SlowReaders) -> None:
    context = Context()
    context.reads.set()
    await Answer(context, readers).write(TOLD)
    assert context.taken == [TOLD]
    assert readers.unread_bytes == 0


async def test_who_does_not_is_told_of_once_and_counted(readers: SlowReaders) -> None:
    context, told = Context(), []
    writing = asyncio.create_task(Answer(context, readers, lambda: told.append(1)).write(TOLD))
    await until(lambda: told)
    assert readers.unread_bytes == TOLD.ByteSize()
    with pytest.raises(Refused) as refused:
        readers.check_room()
    assert refused.value.code == pb.TOO_MANY_REQUESTS
    context.reads.set()
    with pytest.raises(ReaderTooSlow):
        await writing
    assert told == [1]
    assert readers.unread_bytes == 0
    readers.check_room()


async def test_a_peer_that_is_gone_is_no_surprise() -> None:
    readers = SlowReaders(ProxyConfig())
    context = Context()
    context.breaks = True
    context.reads.set()
    with pytest.raises(ReaderGone):
        await Answer(context, readers).write(TOLD)


async def test_what_is_given_up_holds_nothing(readers: SlowReaders) -> None:
    context, told = Context(), []
    writing = asyncio.create_task(Answer(context, readers, lambda: told.append(1)).write(TOLD))
    await until(lambda: told)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert readers.unread_bytes == 0
