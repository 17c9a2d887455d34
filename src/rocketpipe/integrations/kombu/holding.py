"""Messages that were received and are not done with: hidden for as long as somebody works on them.

A broker gives a message to another worker when it has not heard of it for a while. Whoever holds
one therefore says so again and again; who is killed does not, and the message goes on elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from typing import Final

from rocketpipe import PoppedMessage, RocketPipeError, SimpleConsumer
from rocketpipe.errors import ReceiptExpired

log = logging.getLogger(__name__)

#: How long after a failure it is tried again.
AGAIN_S: Final = 0.5
#: How long it may take to give messages back: a worker that stops waits for it.
GIVE_BACK_S: Final = 30.0
#: How often it is tried to give a message back: a renewal's turn comes again anyway.
TRIES: Final = 5
#: How many brokers are asked about at a time.
AT_ONCE: Final = 32


class Held:
    """One message that was received here."""

    __slots__ = ("asked", "is_done", "message", "said_s")

    def __init__(self, message: PoppedMessage) -> None:
        self.message = message
        #: When the broker was told last that it is worked on.
        self.said_s = time.monotonic()
        #: Whether it is acknowledged, given back, or lost: nothing more is said of it.
        self.is_done = False
        #: Taken while the broker is asked: its receipt is another one afterwards.
        self.asked = asyncio.Lock()


class Holding:
    """Everything that one process holds of a broker; all of it on the loop."""

    def __init__(self, consumer: SimpleConsumer, visibility_timeout: float) -> None:
        self._consumer = consumer
        self.hidden_s = visibility_timeout
        self._held: set[Held] = set()
        self._acks: list[Held] = []
        self._has_acks = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def hidden_ms(self) -> int:
        """How long a message is hidden at a time."""
        return int(self.hidden_s * 1000)

    def hold(self, message: PoppedMessage) -> Held:
        """Begin to hold a message."""
        held = Held(message)
        self._held.add(held)
        return held

    def ack(self, held: Held) -> None:
        """Be done with a message; the broker is told in a moment, of many at a time."""
        if held.is_done:
            return
        held.is_done = True
        self._acks.append(held)
        self._is_idle.clear()
        self._has_acks.set()

    def let_go(self, held: Held) -> None:
        """Hold it no longer: it comes again by itself, when its time is over."""
        held.is_done = True
        self._held.discard(held)

    async def give_back(self, several: Collection[Held]) -> None:
        """Have messages come again at once, to whoever asks next."""
        left = [held for held in several if not held.is_done]
        for held in left:
            held.is_done = True
        try:
            async with asyncio.timeout(GIVE_BACK_S):
                await self._each(left, 0)
        except TimeoutError:
            log.warning("not given back in time, so that they come again later of=%d", len(left))
        finally:
            self._held.difference_update(left)

    async def settle(self, timeout_s: float) -> None:
        """Wait until brokers have heard of everything that is done."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()
        except TimeoutError:
            log.warning("acknowledgements not told in time messages=%d", len(self._acks))

    async def run(self) -> None:
        """Tell brokers what is done and what is worked on, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_acks())
            tasks.create_task(self._renew())

    async def _tell_acks(self) -> None:
        while True:
            await self._has_acks.wait()
            self._has_acks.clear()
            told, self._acks = self._acks, []
            for held in told:
                async with held.asked:  # a renewal that is under way gives it another receipt
                    pass
            try:
                await self._consumer.ack([held.message for held in told])
            except ReceiptExpired as error:
                log.warning("held for too long, so that it comes again: %s", error)
            except RocketPipeError as error:
                log.warning("acknowledgements not told messages=%d reason=%s", len(told), error)
                self._acks = told + self._acks
                self._has_acks.set()
                await asyncio.sleep(AGAIN_S)
                continue
            self._held.difference_update(told)
            if not self._acks:
                self._is_idle.set()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(max(self.hidden_s / 6, 0.1))
            least_s = time.monotonic() - self.hidden_s / 3
            await self._each([held for held in self._held if held.said_s < least_s], None)

    async def _each(self, several: Collection[Held], invisible_ms: int | None) -> None:
        """Change when messages come again; None: they go on to be worked on."""
        room = asyncio.Semaphore(AT_ONCE)
        hidden_ms = self.hidden_ms if invisible_ms is None else invisible_ms

        async def change(held: Held) -> None:
            async with room, held.asked:
                renews = invisible_ms is None
                if renews and held.is_done and held not in self._acks:
                    return  # meanwhile
                for left in reversed(range(TRIES if invisible_ms is not None else 1)):
                    try:
                        now_s = time.monotonic()
                        await self._consumer.change_invisible(held.message, hidden_ms)
                        held.said_s = now_s
                        return
                    except ReceiptExpired as error:
                        self.let_go(held)
                        log.warning("held for too long, so that it comes again: %s", error)
                        return
                    except RocketPipeError as error:
                        if not left or not error.retryable:
                            log.warning("a broker does not hear what is done: %s", error)
                            return
                        await asyncio.sleep(AGAIN_S)

        if several:
            await asyncio.gather(*(change(held) for held in several))
