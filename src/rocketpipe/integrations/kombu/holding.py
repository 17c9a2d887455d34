"""Messages that were received and are not done with: hidden for as long as somebody works on them.

A broker gives a message to another worker when it has not heard of it for a while. Whoever holds
one therefore says so again and again; who is killed does not, and the message goes on elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Final

from rocketpipe import PoppedMessage, RocketPipeError, SimpleConsumer
from rocketpipe.errors import ReceiptExpired
from rocketpipe.integrations.held import is_passing

log = logging.getLogger(__name__)

#: How long after a failure it is tried again.
AGAIN_S: Final = 0.5
#: For so long a broker that is away is told that a message is done; then it comes again.
ACK_PATIENCE_S: Final = 600.0
#: How long it may take to give messages back: a worker that stops waits for it.
GIVE_BACK_S: Final = 30.0
#: How often it is tried to give a message back: a renewal's turn comes again anyway.
TRIES: Final = 5
#: How many brokers are asked about at a time.
AT_ONCE: Final = 32


class Held:
    """One message that was received here."""

    __slots__ = ("acked_s", "asked", "is_done", "message", "said_s")

    def __init__(self, message: PoppedMessage) -> None:
        self.message = message
        #: When the broker was told last that it is worked on.
        self.said_s = time.monotonic()
        #: Whether it is acknowledged, given back, or lost: nothing more is said of it.
        self.is_done = False
        #: When it was acknowledged here; it is held until its broker has heard of that.
        self.acked_s: float | None = None
        #: Taken while the broker is asked: its receipt is another one afterwards.
        self.asked = asyncio.Lock()

    @property
    def broker(self) -> str:
        """Who has it."""
        return self.message.queue.broker_name


class Holding:
    """Everything that one process holds of a broker; all of it on the loop."""

    def __init__(self, consumer: SimpleConsumer, visibility_timeout: float) -> None:
        self._consumer = consumer
        self.hidden_s = visibility_timeout
        self._held: set[Held] = set()
        #: What brokers are to be told, each for itself: one that is away keeps no other waiting.
        self._acks: dict[str, list[Held]] = {}
        self._told: set[str] = set()
        self._renewed: set[str] = set()
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
        held.is_done, held.acked_s = True, time.monotonic()
        self._acks.setdefault(held.broker, []).append(held)
        self._is_idle.clear()
        self._has_acks.set()

    def let_go(self, held: Held) -> None:
        """Hold it no longer: it comes again by itself, when its time is over."""
        held.is_done = True
        self._held.discard(held)

    def forget(self, topic: str) -> None:
        """Hold nothing more of a topic that was deleted."""
        for held in [each for each in self._held if each.message.topic == topic]:
            self.let_go(held)

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
            log.warning("acknowledgements not told in time brokers=%s", ", ".join(self._told))

    async def run(self) -> None:
        """Tell brokers what is done and what is worked on, until cancelled."""
        self._told, self._renewed = set(), set()
        self._has_acks.set()  # of a run that failed
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_acks(tasks))
            tasks.create_task(self._renew(tasks))

    async def _tell_acks(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await self._has_acks.wait()
            self._has_acks.clear()
            for broker in self._acks.keys() - self._told:
                self._told.add(broker)
                tasks.create_task(self._tell(broker))

    async def _tell(self, broker: str) -> None:
        """Tell a broker what is done until it has heard of everything."""
        warned = False
        while told := [held for held in self._acks.pop(broker, ()) if held in self._held]:
            again, reason = await self._acknowledged(told)
            self._held.difference_update(set(told).difference(again))
            if not again:
                warned = False
                continue
            if not warned:
                log.warning("acknowledgements wait for %s of=%d: %s", broker, len(again), reason)
                warned = True
            self._acks[broker] = again + self._acks.get(broker, [])
            await asyncio.sleep(AGAIN_S)
        self._told.discard(broker)
        if not self._told:
            self._is_idle.set()

    async def _acknowledged(
        self, together: list[Held]
    ) -> tuple[list[Held], RocketPipeError | None]:
        """Tell a broker of several messages; gives those that it is to be told of again, and why.

        One that it refuses keeps no other: then it is told of each.
        """
        async with AsyncExitStack() as stack:
            for held in together:  # a renewal that is under way gives it another receipt
                await stack.enter_async_context(held.asked)
            try:
                await self._consumer.ack([held.message for held in together])
            except RocketPipeError as error:
                failure = error
            else:
                return [], None
        if not is_passing(failure) and len(together) > 1:
            each = [await self._acknowledged([held]) for held in together]
            return [held for again, _ in each for held in again], failure
        least_s = time.monotonic() - ACK_PATIENCE_S
        again: list[Held] = []
        for held in together:
            if is_passing(failure) and (held.acked_s or 0) > least_s:
                again.append(held)
            else:
                message = held.message
                log.warning(
                    "done, and comes again all the same topic=%s message=%s reason=%s",
                    message.topic,
                    message.message_id,
                    failure,
                )
        return again, failure

    async def _renew(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await asyncio.sleep(max(self.hidden_s / 6, 0.1))
            least_s = time.monotonic() - self.hidden_s / 3
            due: defaultdict[str, list[Held]] = defaultdict(list)
            for held in self._held:
                if held.said_s < least_s:
                    due[held.broker].append(held)
            for broker in due.keys() - self._renewed:
                self._renewed.add(broker)
                tasks.create_task(self._renew_at(broker, due[broker]))

    async def _renew_at(self, broker: str, several: list[Held]) -> None:
        await self._each(several, None)
        self._renewed.discard(broker)

    async def _each(self, several: Collection[Held], invisible_ms: int | None) -> None:
        """Change when messages come again; None: they go on to be worked on."""
        room = asyncio.Semaphore(AT_ONCE)
        hidden_ms = self.hidden_ms if invisible_ms is None else invisible_ms

        async def change(held: Held) -> None:
            renews = invisible_ms is None
            if renews and held.asked.locked():
                return  # its broker is asked about it already
            async with room, held.asked:
                if renews and (held not in self._held or (held.is_done and held.acked_s is None)):
                    return  # meanwhile
                for left in reversed(range(1 if renews else TRIES)):
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
