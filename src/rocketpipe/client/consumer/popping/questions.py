"""Pops that are under way for one consumer, and what becomes of answers that nobody waits for.

A broker may be about to answer when its asker leaves: what it gives then is given back at once. One
that does not answer keeps nobody from the others, if there are others: it is waited for once, for
a moment, and then asked without waiting until it answers again. What it gives late is kept for
whoever receives next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.client.consumer.popping.popper import Popper, Source
from rocketpipe.clock import Clock, within
from rocketpipe.errors import RocketPipeError, SessionClosed
from rocketpipe.model.subscription import Subscription

log = logging.getLogger(__name__)

#: How long the end waits for answers. Our brokers answer who leaves; RocketMQ's go on waiting.
LEAVE_S: Final = 0.5
#: How long a broker is waited for that has nothing to wait for, where there are others to ask.
HASTE_MS: Final = 1000

Asking = asyncio.Task[list[PoppedMessage]]


class Questions:
    """What one consumer has asked and was not answered yet; on its loop."""

    def __init__(self, popper: Popper, clock: Clock) -> None:
        self._popper, self._clock = popper, clock
        self._asked: set[Asking] = set()
        self._returns: set[asyncio.Task[None]] = set()
        #: Those that were not waited for, by broker; and brokers that are not waited for now.
        self._outrun: dict[Asking, str] = {}
        self._silent: set[str] = set()
        self._late: list[PoppedMessage] = []
        #: Set when something came late.
        self.has_late = asyncio.Event()
        self._is_closed = False

    def open(self) -> None:
        """Begin; also again, after ``settle``."""
        self._is_closed = False

    async def ask(
        self,
        source: Source,
        wanted: Subscription,
        *,
        count: int,
        invisible_ms: int,
        wait_ms: int,
        has_others: bool,
    ) -> list[PoppedMessage] | None:
        """Pop; None if a broker that has ``has_others`` beside it does not answer soon.

        Who is cancelled was given nothing: what comes is given back.

        Raises:
            SessionClosed: If the consumer is closed meanwhile.
            RocketPipeError: As ``Popper.pop`` does.
        """
        broker = source.broker_name
        if has_others and self.is_awaited(broker):
            return None
        asking = asyncio.create_task(
            self._popper.pop(
                source, wanted, count=count, invisible_ms=invisible_ms, wait_ms=wait_ms
            )
        )
        self._asked.add(asking)
        asking.add_done_callback(self._asked.discard)
        try:
            if has_others and not await self._is_soon(asking, broker):
                self._outrun[asking] = broker
                self._silent.add(broker)
                asking.add_done_callback(self._came_late)
                return None
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            if asking.cancelled() and self._is_closed:  # with the consumer, whoever waits for it
                raise SessionClosed("the consumer") from None
            self.give_back([], asking)
            raise

    def is_awaited(self, broker: str) -> bool:
        """Whether a broker owes an answer that nobody waits for."""
        return broker in self._outrun.values()

    def answered(self, broker: str) -> None:
        """Wait for a broker again: it has answered something."""
        self._silent.discard(broker)

    def taken_late(self, topics: Collection[str], count: int) -> list[PoppedMessage]:
        """What came late of some topics, and is hidden from others yet."""
        now_ms = self._clock.monotonic_ms()
        self._late = [each for each in self._late if (each.hidden_until_ms or 0) > now_ms]
        taken = [each for each in self._late if each.topic in topics][:count]
        self._late = [each for each in self._late if each not in taken]
        if not self._late:
            self.has_late.clear()
        return taken

    async def first_late(self) -> None:
        """Wait until one of those that were not waited for answers.

        Raises:
            RocketPipeError: If none of them does.
        """
        left: set[Asking] = set(self._outrun)
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            failures = [None if task.cancelled() else task.exception() for task in done]
            if None in failures or self._is_closed:
                return
            if not left and failures[0] is not None:
                raise failures[0]

    def give_back(self, found: list[PoppedMessage], asking: Asking | None = None) -> None:
        """Have what nobody waits for any more come again at once, also what is yet to be given."""
        returning = asyncio.create_task(self._given_back(found, asking))
        self._returns.add(returning)
        returning.add_done_callback(self._returns.discard)

    async def settle(self) -> None:
        """Wait for the answers to what was asked, and give back what they bring; then end them."""
        self._is_closed = True
        if self._late:
            self.give_back(self._late)
            self._late = []
        try:
            async with asyncio.timeout(LEAVE_S):
                while left := self._asked | self._returns:
                    await asyncio.wait(left)
        except TimeoutError:
            log.debug("left before it was answered group=%s", self._popper.group)
        ending = self._asked | self._returns
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _is_soon(self, asking: Asking, broker: str) -> bool:
        if broker not in self._silent:
            await within(self._clock, HASTE_MS, _ended(asking))
        return asking.done()

    def _came_late(self, asking: Asking) -> None:
        broker = self._outrun.pop(asking)
        if asking.cancelled():
            return
        if (error := asking.exception()) is not None:
            log.info("broker does not answer, and is passed over broker=%s %s", broker, error)
            return
        self._silent.discard(broker)
        found = asking.result()
        if found and self._is_closed:
            self.give_back(found)
        elif found:
            self._late += found
            self.has_late.set()

    async def _given_back(self, found: list[PoppedMessage], asking: Asking | None) -> None:
        try:
            messages = found if asking is None else found + await asking
        except RocketPipeError as error:
            log.debug("left alone before it failed group=%s %s", self._popper.group, error)
            messages = found
        for message in messages:
            try:
                await self._popper.hide(message, 0)
            except RocketPipeError as error:
                log.info("not given back, it comes again later reason=%s", error)


async def _ended(asking: Asking) -> None:
    await asyncio.wait({asking})
