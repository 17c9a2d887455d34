from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.waiting import until

from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.rpc.call import Call, ReaderTooSlow
from rocketpipe.proxy.streams import TelemetryStream
from rocketpipe.proxy.v2 import messaging_pb2 as pb


class Context:
    address = "127.0.0.1:1"

    def __init__(self, *, is_slow: bool = False) -> None:
        self.reads = asyncio.Event()
        self.taken: list[Any] = []
        self._is_slow = is_slow

    async def write(self, told: Any) -> None:
        if self._is_slow:
            raise ReaderTooSlow("it takes nothing")
        await self.reads.wait()
        self.taken.append(told)


def command(nonce: str) -> pb.TelemetryCommand:
    return pb.TelemetryCommand(
        print_thread_stack_trace_command=pb.PrintThreadStackTraceCommand(nonce=nonce)
    )


def stream_on(context: Context, ended: list[int], **said: int) -> TelemetryStream:
    config = ProxyConfig(**said)
    return TelemetryStream(cast("Call", context), config, lambda: ended.append(1))


async def test_commands_leave_in_their_order() -> None:
    context, ended = Context(), list[int]()
    stream = stream_on(context, ended)
    context.reads.set()
    told = [command(str(n)) for n in range(5)]
    for each in told:
        stream.put(each)
    await until(lambda: len(context.taken) == 5)
    stream.put(command("later"))
    await until(lambda: len(context.taken) == 6)
    assert context.taken == [*told, command("later")]
    assert ended == []


async def test_a_client_that_leaves_too_much_unread_loses_its_stream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context, ended = Context(), list[int]()
    stream = stream_on(context, ended, max_unsent_commands=2)
    for n in range(5):
        stream.put(command(str(n)))
        await asyncio.sleep(0)
    assert stream.is_over
    assert ended == [1]
    assert "does not read" in caplog.text
    context.reads.set()


async def test_a_client_that_takes_too_long_loses_its_stream() -> None:
    context, ended = Context(is_slow=True), list[int]()
    stream = stream_on(context, ended)
    stream.put(command("1"))
    await until(lambda: stream.is_over)
    assert ended == [1]
