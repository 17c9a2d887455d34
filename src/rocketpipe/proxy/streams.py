"""The server's side of one telemetry stream: what is told a client, one at a time, in time.

Nothing runs for a stream that has nothing to say: ten thousand of them are idle most of the time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.rpc.call import Call, ReaderGone, ReaderTooSlow
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

_slow = LogBudget()


class TelemetryStream:
    """Writes commands to one client, in their order."""

    __slots__ = ("_call", "_config", "_end", "_unsent", "_writing", "is_over")

    def __init__(self, call: Call, config: ProxyConfig, end: Callable[[], object]) -> None:
        """Write to a call; ``end`` ends it."""
        self._call = call
        self._config = config
        self._end = end
        self._unsent: deque[pb.TelemetryCommand] = deque()
        self._writing: asyncio.Task[None] | None = None
        self.is_over = False

    @property
    def is_slow(self) -> bool:
        """Whether the client does not take what it is told."""
        return len(self._unsent) >= self._config.max_unsent_commands

    def put(self, command: pb.TelemetryCommand) -> None:
        """Have a command written; a client that leaves too many unread loses its stream."""
        if self.is_over:
            return
        if self.is_slow:
            self._drop("does not read")
            return
        self._unsent.append(command)
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())

    def close(self) -> None:
        """End the stream; what was not written is lost."""
        if not self.is_over:
            self.is_over = True
            self._unsent.clear()
            self._end()

    async def _write(self) -> None:
        try:
            while self._unsent:
                await self._call.write(self._unsent.popleft())
        except ReaderTooSlow:
            self._drop("takes too long")
        except ReaderGone as error:
            log.debug("telemetry stream ended reason=%s", error)
            self.close()
        finally:
            self._writing = None

    def _drop(self, reason: str) -> None:
        if _slow.allows():
            log.warning(
                "telemetry stream dropped peer=%s reason=%s%s",
                self._call.address,
                reason,
                _slow.suppressed(),
            )
        self.close()
