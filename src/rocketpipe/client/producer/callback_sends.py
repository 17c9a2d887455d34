"""Sends whose results are told to a callback."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.selectors import Pick
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.client.producer.sending.sender import Sender

log = logging.getLogger(__name__)

#: Is called on the producer's loop, with the result or with what went wrong.
SendCallback: TypeAlias = Callable[[SendResult | Exception], object]


class CallbackSends:
    """Those of one producer that are under way."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, out: Outgoing, left_ms: int, pick: Pick | None, callback: SendCallback) -> None:
        """Send a message that has its room already, and call back when that is over."""
        task = asyncio.create_task(self._send(out, left_ms, pick, callback), name="send")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Wait until every callback was called; each send ends by its deadline."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _send(
        self, out: Outgoing, left_ms: int, pick: Pick | None, callback: SendCallback
    ) -> None:
        told: SendResult | Exception
        try:
            told = await self._sender.send(out, left_ms, pick, unanswered_only=True)
        except Exception as error:  # of a selector perhaps: whatever it is, the callback hears it
            told = error
        try:
            callback(told)
        except Exception:
            log.exception("a callback failed topic=%s", out.topic)
