"""Streams whose readers take nothing: noticed in time, and bounded by what they make us hold.

grpcio cannot end a call whose reader has stopped: a status waits behind the message that is not
taken, until the deadline, the client or the connection ends it. So what such a call was to get is
given to others, and what all of them hold is counted: when it is too much, nobody is handed more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rocketpipe.errors import RocketPipeError
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.v2 import messaging_pb2 as pb


class ReaderTooSlow(RocketPipeError):
    """A stream's reader took so long that what it was to get went elsewhere."""


class ReaderGone(RocketPipeError):
    """A stream's reader went away before it had all."""


class SlowReaders:
    """All streams that wait for their readers for too long."""

    def __init__(self, config: ProxyConfig) -> None:
        self._config = config
        self.patience_s = config.slow_reader_ms / 1000
        #: What they hold in all.
        self.unread_bytes = 0

    def check_room(self) -> None:
        """Refuse to hand out more while readers leave too much.

        Raises:
            Refused: They do.
        """
        if self.unread_bytes >= self._config.max_unread_bytes:
            raise Refused(
                pb.TOO_MANY_REQUESTS, "clients leave too much unread: ask again a little later"
            )


class Answer:
    """One stream, as its handler writes it."""

    __slots__ = ("_context", "_held", "_on_slow", "_readers")

    def __init__(
        self, context: Any, readers: SlowReaders, on_slow: Callable[[], None] = lambda: None
    ) -> None:
        """Write to a call of grpc.aio; ``on_slow`` is told once that nothing is taken."""
        self._context = context
        self._readers = readers
        self._on_slow = on_slow
        self._held = 0

    async def write(self, told: Any) -> None:
        """Write one message, and wait until it is taken.

        Raises:
            ReaderTooSlow: It was taken too late, if at all.
            ReaderGone: It was not taken.
        """
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._readers.patience_s, self._late, told)
        gone: Exception | None = None
        try:
            await self._context.write(told)
        except Exception as error:  # whatever grpcio raises when a peer is gone
            gone = error
        finally:
            timer.cancel()
            held, self._held = self._held, 0
            self._readers.unread_bytes -= held
        if held:
            raise ReaderTooSlow("the reader of a stream was too slow")
        if gone is not None:
            raise ReaderGone(f"the reader of a stream is gone: {gone}")

    def _late(self, told: Any) -> None:
        self._held = max(told.ByteSize(), 1)
        self._readers.unread_bytes += self._held
        self._on_slow()
