"""Many messages into one send, on their own: for producers that send much at once.

Messages that may go together pile up: those to one topic, or to one queue of it, that agree in
whether they wait until they are stored. A pile goes

    when it has reached its bytes or its count
    at the end of this turn of the loop, if no pile went before it that is still under way
    when the pile before it was answered, or after ``linger_ms``, whichever comes first

So a lone message is not held back, and the more is sent at once the larger piles grow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from rocketpipe.client.producer.outgoing import ENTRY_BYTES, Outgoing
from rocketpipe.client.producer.result import SendResult
from rocketpipe.clock import Clock
from rocketpipe.model.route import MessageQueue

MAX_BATCH_BYTES: Final = 2 * 1024 * 1024
MAX_BATCH_COUNT: Final = 65_536
MAX_LINGER_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Batching:
    """When piled up messages go: ``Producer(…, batching=Batching(max_count=500))``.

    Raises:
        ValueError: If a number is outside its limits.
    """

    max_bytes: int = 32 * 1024
    max_count: int = 128
    #: The longest that a message waits for others.
    linger_ms: int = 10

    def __post_init__(self) -> None:
        for name, least, most in (
            ("max_bytes", 1, MAX_BATCH_BYTES),
            ("max_count", 1, MAX_BATCH_COUNT),
            ("linger_ms", 0, MAX_LINGER_MS),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} {value}: from {least} to {most}")


class PileKey(NamedTuple):
    """What messages of one pile agree in."""

    topic: str
    #: None where any queue will do.
    queue: MessageQueue | None
    wait_stored: bool


#: Sends a pile, of one or more, within so many milliseconds; gives a result for each, in order.
SendPile: TypeAlias = Callable[[PileKey, Sequence[Outgoing], int], Awaitable[Sequence[SendResult]]]


@dataclass(slots=True)
class _Pile:
    #: Asked for once: that takes a system call.
    loop: asyncio.AbstractEventLoop
    parts: list[Outgoing] = field(default_factory=list)
    results: list[asyncio.Future[SendResult]] = field(default_factory=list)
    size: int = 0
    #: The first of its messages that runs out of time.
    deadline_ms: int = 0
    timer: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Stack:
    """What there is of one key: piles under way, and the one that grows."""

    under_way: int = 0
    pile: _Pile | None = None


class Batcher:
    """Piles messages up and sends the piles. How much it holds is bounded by who adds to it."""

    def __init__(self, batching: Batching, clock: Clock, send: SendPile) -> None:
        self._batching = batching
        self._clock = clock
        self._send = send
        self._stacks: dict[PileKey, _Stack] = {}
        self._sending: set[asyncio.Task[None]] = set()

    def add(self, key: PileKey, out: Outgoing, timeout_ms: int) -> asyncio.Future[SendResult]:
        """Put a message on its pile; gives where its result will be."""
        stack = self._stacks.get(key)
        if stack is None:
            stack = self._stacks[key] = _Stack()
        limits = self._batching
        size = out.size + ENTRY_BYTES
        if stack.pile is not None and stack.pile.size + size > limits.max_bytes:
            self._go(key, stack)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        pile = stack.pile
        if pile is None:
            loop = asyncio.get_running_loop()
            pile = stack.pile = _Pile(loop=loop, deadline_ms=deadline_ms)
            if stack.under_way:
                pile.timer = asyncio.create_task(self._linger(key, pile), name="batch linger")
            else:
                loop.call_soon(self._go_if, key, pile)
        result: asyncio.Future[SendResult] = pile.loop.create_future()
        pile.parts.append(out)
        pile.results.append(result)
        pile.size += size
        if deadline_ms < pile.deadline_ms:
            pile.deadline_ms = deadline_ms
        if pile.size >= limits.max_bytes or len(pile.parts) >= limits.max_count:
            self._go(key, stack)
        return result

    async def close(self) -> None:
        """Send all that has piled up, and wait for what is under way; each has its deadline."""
        for key, stack in list(self._stacks.items()):
            if stack.pile is not None:
                self._go(key, stack)
        while self._sending:
            await asyncio.wait(set(self._sending))

    async def _linger(self, key: PileKey, pile: _Pile) -> None:
        await self._clock.sleep(self._batching.linger_ms)
        pile.timer = None
        self._go_if(key, pile)

    def _go_if(self, key: PileKey, pile: _Pile) -> None:
        stack = self._stacks.get(key)
        if stack is not None and stack.pile is pile:  # it may have gone before, being full
            self._go(key, stack)

    def _go(self, key: PileKey, stack: _Stack) -> None:
        pile, stack.pile = stack.pile, None
        assert pile is not None, "a pile that is not there cannot go"
        if pile.timer is not None:
            pile.timer.cancel()
        stack.under_way += 1
        task = asyncio.create_task(self._send_pile(key, stack, pile), name="batch")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_pile(self, key: PileKey, stack: _Stack, pile: _Pile) -> None:
        left_ms = max(0, pile.deadline_ms - self._clock.monotonic_ms())
        try:
            results = await self._send(key, pile.parts, left_ms)
        except asyncio.CancelledError:
            for waiting in pile.results:
                waiting.cancel()
            raise
        except Exception as error:
            for waiting in pile.results:
                if not waiting.done():
                    waiting.set_exception(error)
        else:
            assert len(results) == len(pile.results), "a result for each message"
            for waiting, result in zip(pile.results, results, strict=True):
                if not waiting.done():
                    waiting.set_result(result)
        finally:
            stack.under_way -= 1
            if not stack.under_way:
                if stack.pile is not None:
                    self._go(key, stack)
                else:
                    del self._stacks[key]
