"""Messages that others work on: hidden for as long as that takes, acknowledged when it is done.

    messages = HeldMessages(consumer, clock, invisible_ms=30_000)
    async with messages.kept("a worker's tasks"):
        held = messages.hold(message)
        ...
        messages.ack(held)                  it is done; its broker is told in a moment
        await messages.give_back([held])    or it comes again at once

A broker gives a message to another worker when it has not heard of it for a while. Whoever holds
one therefore says so again and again; who is killed does not, and the message goes on elsewhere.
Each broker is told for itself, of many messages at a time: one that is away keeps no other waiting.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import defaultdict
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from rocketpipe import NoBroker, PoppedMessage, RocketPipeError, SimpleConsumer
from rocketpipe.background import running
from rocketpipe.clock import Clock
from rocketpipe.errors import NoRoute, ReceiptExpired

log = logging.getLogger(__name__)

#: How long after a failure it is tried again.
AGAIN_MS: Final = 500
#: For so long a broker that is away is told that a message is done; then it comes again.
ACK_PATIENCE_MS: Final = 600_000
#: How long the end waits for brokers to hear what is done.
SETTLE_S: Final = 5.0
#: How long it may take to give messages back: a worker that stops waits for it.
GIVE_BACK_S: Final = 30.0
#: How often it is tried to give a message back: a renewal's turn comes again anyway.
TRIES: Final = 5
#: How many messages brokers are asked about at a time.
AT_ONCE: Final = 32


def is_passing(error: RocketPipeError) -> bool:
    """Whether the same may succeed once brokers and NameServers are back."""
    return error.retryable or error.stale_route or isinstance(error, NoRoute | NoBroker)


class Held:
    """One message that was received here."""

    __slots__ = ("acked_ms", "asked", "is_done", "message", "over", "since_ms")

    def __init__(self, message: PoppedMessage, since_ms: int) -> None:
        self.message = message
        self.since_ms = since_ms
        #: Whether it is acknowledged, given back, or lost: nothing more is said of it.
        self.is_done = False
        #: When it was acknowledged here; it is held until its broker has heard of that.
        self.acked_ms: int | None = None
        #: Taken while the broker is asked: its receipt is another one afterwards.
        self.asked = asyncio.Lock()
        #: Set when it is held no longer.
        self.over = asyncio.Event()

    @property
    def broker(self) -> str:
        """Who has it."""
        return self.message.queue.broker_name


class Ticket:
    """What acknowledges one message, by being awaited as a call.

    One that nobody has any more, and that was not used, ends the hiding: whoever worked on the
    message has failed without a word, and it comes again when its time is over.
    """

    __slots__ = ("__weakref__", "_held", "_messages")

    def __init__(self, messages: HeldMessages, held: Held) -> None:
        self._messages, self._held = messages, held
        weakref.finalize(self, messages.drop, held).atexit = False

    async def __call__(self) -> None:
        """Acknowledge it, and wait until the broker has heard of it, or it comes again."""
        self._messages.ack(self._held)
        await self._held.over.wait()

    async def give_back(self) -> None:
        """Have it come again at once, to whoever asks next."""
        await self._messages.give_back([self._held])


class HeldMessages:
    """All that one consumer received and is not done with; on its loop."""

    def __init__(
        self,
        consumer: SimpleConsumer,
        clock: Clock,
        *,
        invisible_ms: int,
        longest_ms: int | None = None,
    ) -> None:
        """``invisible_ms`` is how long they are hidden at a time, ``longest_ms`` in all."""
        self._consumer, self._clock = consumer, clock
        self.invisible_ms, self._longest_ms = invisible_ms, longest_ms
        self._held: set[Held] = set()
        self._acks: dict[str, list[Held]] = {}
        #: Brokers that are being told of what is done, and of what is worked on.
        self._told: set[str] = set()
        self._renewed: set[str] = set()
        self._has_acks = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, message: PoppedMessage) -> Held:
        """Begin to hold a message."""
        held = Held(message, self._clock.monotonic_ms())
        self._held.add(held)
        return held

    def ticket(self, message: PoppedMessage) -> Ticket:
        """Hold a message for as long as somebody has what is given here."""
        return Ticket(self, self.hold(message))

    def ack(self, held: Held) -> None:
        """Be done with a message; the broker is told in a moment, of many at a time."""
        if held.is_done:
            return
        held.is_done, held.acked_ms = True, self._clock.monotonic_ms()
        self._acks.setdefault(held.broker, []).append(held)
        self._is_idle.clear()
        self._has_acks.set()

    def let_go(self, held: Held) -> None:
        """Hold it no longer: it comes again by itself, when its time is over."""
        held.is_done = True
        self._forget([held])

    def drop(self, held: Held) -> None:
        """Let go of a message that nobody is done with."""
        if not held.is_done:
            self.let_go(held)

    def forget(self, topic: str) -> None:
        """Hold nothing more of a topic that was deleted."""
        for held in [each for each in self._held if each.message.topic == topic]:
            self.let_go(held)

    async def give_back(self, several: Collection[Held] | None = None) -> None:
        """Have messages come again at once, to whoever asks next: some, or all that are held."""
        left = [held for held in (self._held if several is None else several) if not held.is_done]
        for held in left:
            held.is_done = True
        try:
            async with asyncio.timeout(GIVE_BACK_S):
                await self._each(left, 0)
        except TimeoutError:
            log.warning("not given back in time, so that they come again later of=%d", len(left))
        finally:
            self._forget(left)

    async def settle(self, timeout_s: float) -> None:
        """Wait until brokers have heard of everything that is done."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()
        except TimeoutError:
            log.warning("acknowledgements not told in time brokers=%s", ", ".join(self._told))

    @asynccontextmanager
    async def kept(self, name: str) -> AsyncIterator[None]:
        """A block in which messages are held; at its end those that nobody is done with go back."""
        try:
            async with running(self.run(), name):
                try:
                    yield
                finally:
                    await self.settle(SETTLE_S)
        finally:
            await self.give_back()

    async def run(self) -> None:
        """Tell brokers what is done and what is worked on, until cancelled."""
        self._told, self._renewed = set(), set()
        self._has_acks.set()  # of a run that failed
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_acks(tasks))
            tasks.create_task(self._renew(tasks))

    def _forget(self, several: Collection[Held]) -> None:
        for held in several:
            self._held.discard(held)
            held.over.set()

    # What is done

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
            self._forget(set(told).difference(again))
            if not again:
                warned = False
                continue
            if not warned:
                log.warning("acknowledgements wait for %s of=%d: %s", broker, len(again), reason)
                warned = True
            self._acks[broker] = again + self._acks.get(broker, [])
            await self._clock.sleep(AGAIN_MS)
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
        least_ms = self._clock.monotonic_ms() - ACK_PATIENCE_MS
        again: list[Held] = []
        for held in together:
            if is_passing(failure) and held.acked_ms is not None and held.acked_ms > least_ms:
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

    # What is worked on

    async def _renew(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await self._clock.sleep(max(1, self.invisible_ms // 6))
            now_ms = self._clock.monotonic_ms()
            due: defaultdict[str, list[Held]] = defaultdict(list)
            for held in list(self._held):
                if self._is_too_old(held, now_ms):
                    self.let_go(held)
                elif self._is_due(held, now_ms):
                    due[held.broker].append(held)
            for broker in due.keys() - self._renewed:
                self._renewed.add(broker)
                tasks.create_task(self._renew_at(broker, due[broker]))

    def _is_due(self, held: Held, now_ms: int) -> bool:
        until_ms = held.message.hidden_until_ms
        return until_ms is None or until_ms - now_ms < 2 * self.invisible_ms // 3

    def _is_too_old(self, held: Held, now_ms: int) -> bool:
        if held.is_done or self._longest_ms is None or now_ms - held.since_ms < self._longest_ms:
            return False
        message = held.message
        log.warning(
            "held for too long, it comes again topic=%s message=%s longest_ms=%d",
            message.topic,
            message.message_id,
            self._longest_ms,
        )
        return True

    async def _renew_at(self, broker: str, several: list[Held]) -> None:
        await self._each(several, None)
        self._renewed.discard(broker)

    async def _each(self, several: Collection[Held], invisible_ms: int | None) -> None:
        """Change when messages come again; None: they go on to be worked on."""
        room = asyncio.Semaphore(AT_ONCE)
        renews = invisible_ms is None
        hidden_ms = self.invisible_ms if invisible_ms is None else invisible_ms

        async def change(held: Held) -> None:
            if renews and held.asked.locked():
                return  # its broker is asked about it already
            async with room, held.asked:
                if renews and (held not in self._held or (held.is_done and held.acked_ms is None)):
                    return  # meanwhile
                for left in reversed(range(1 if renews else TRIES)):
                    try:
                        await self._consumer.change_invisible(held.message, hidden_ms)
                        return
                    except ReceiptExpired as error:
                        self.let_go(held)
                        log.warning("held for too long, so that it comes again: %s", error)
                        return
                    except RocketPipeError as error:
                        if not left or not error.retryable:
                            log.warning("a broker does not hear what is done: %s", error)
                            return
                        await self._clock.sleep(AGAIN_MS)

        if several:
            await asyncio.gather(*(change(held) for held in several))
