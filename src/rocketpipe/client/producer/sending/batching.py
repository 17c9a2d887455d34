"""Many messages into one send, on their own: for producers that send much at once.

Messages that may go together wait for each other: those to one topic, or to one queue of it, that
agree in whether they wait until they are stored. A batch goes

    when it has reached its bytes or its count
    at the end of this turn of the loop, if no batch went before it that is still under way
    when the batch before it was answered, or after ``linger_ms``, whichever comes first

So a lone message is not held back, and the more is sent at once the larger batches grow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.sending.outgoing import ENTRY_BYTES
from rocketpipe.client.producer.sending.pending_batches import Key, Part, PendingBatch
from rocketpipe.clock import Clock

MAX_BATCH_BYTES: Final = 2 * 1024 * 1024
MAX_BATCH_COUNT: Final = 65_536
MAX_LINGER_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Batching:
    """When pending up messages go: ``Producer(…, batching=Batching(max_count=500))``.

    Raises:
        ValueError: If a number is outside its limits.
    """

    #: A batch goes when it has so many bytes.
    max_bytes: int = 32 * 1024
    #: Or so many messages.
    max_count: int = 64
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


#: Sends a batch, of one or more, within so many milliseconds; gives a result for each, in order.
SendBatch: TypeAlias = Callable[[Key, PendingBatch, int], Awaitable[Sequence[SendResult]]]


@dataclass(slots=True)
class _Stack:
    """What there is of one key: batches under way, and the one that grows."""

    under_way: int = 0
    batch: PendingBatch | None = None


class Batcher:
    """Collects messages into batches, and sends these. Who adds to it bounds how much it holds."""

    def __init__(
        self, batching: Batching, clock: Clock, send: SendBatch, *, max_bytes: int = MAX_BATCH_BYTES
    ) -> None:
        """``max_bytes`` is the longest body that any send may have."""
        self._max_bytes = min(batching.max_bytes, max_bytes)
        self._max_count = batching.max_count
        self._linger_ms = batching.linger_ms
        self._clock = clock
        self._send = send
        self._stacks: dict[Key, _Stack] = {}
        self._sending: set[asyncio.Task[None]] = set()

    def add(self, key: Key, part: Part, size: int, timeout_ms: int) -> asyncio.Future[SendResult]:
        """Put a message of ``size`` bytes on its batch; gives where its result will be."""
        stack = self._stacks.get(key)
        if stack is None:
            stack = self._stacks[key] = _Stack()
        size += ENTRY_BYTES
        batch = stack.batch
        if batch is not None and batch.size + size > self._max_bytes:
            self._go(key, stack)
            batch = None
        if batch is None:
            batch = stack.batch = self._begin(key, stack, timeout_ms)
        elif timeout_ms < batch.timeout_ms:  # who comes later, with as much time, has more left
            batch.deadline_ms = min(batch.deadline_ms, self._clock.monotonic_ms() + timeout_ms)
        result: asyncio.Future[SendResult] = batch.loop.create_future()
        parts = batch.parts
        parts.append(part)
        batch.waiting.append(result)
        batch.size += size
        if len(parts) >= self._max_count or batch.size >= self._max_bytes:
            self._go(key, stack)
        return result

    async def close(self) -> None:
        """Send all that has pending up, and wait for what is under way; each has its deadline."""
        for key, stack in list(self._stacks.items()):
            if stack.batch is not None:
                self._go(key, stack)
        while self._sending:
            await asyncio.wait(set(self._sending))

    def _begin(self, key: Key, stack: _Stack, timeout_ms: int) -> PendingBatch:
        batch = PendingBatch(timeout_ms, self._clock.monotonic_ms())
        if stack.under_way:
            batch.timer = asyncio.create_task(self._linger(key, batch), name="batch linger")
        else:
            batch.loop.call_soon(self._go_if, key, batch)
        return batch

    async def _linger(self, key: Key, batch: PendingBatch) -> None:
        await self._clock.sleep(self._linger_ms)
        batch.timer = None
        self._go_if(key, batch)

    def _go_if(self, key: Key, batch: PendingBatch) -> None:
        stack = self._stacks.get(key)
        if stack is not None and stack.batch is batch:  # it may have gone before, being full
            self._go(key, stack)

    def _go(self, key: Key, stack: _Stack) -> None:
        batch, stack.batch = stack.batch, None
        assert batch is not None, "a batch that is not there cannot go"
        if batch.timer is not None:
            batch.timer.cancel()
        stack.under_way += 1
        task = asyncio.create_task(self._send_pending(key, stack, batch), name="batch")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_pending(self, key: Key, stack: _Stack, batch: PendingBatch) -> None:
        left_ms = max(0, batch.deadline_ms - self._clock.monotonic_ms())
        try:
            results = await self._send(key, batch, left_ms)
        except asyncio.CancelledError:
            batch.cancel()
            raise
        except Exception as error:
            batch.fail(error)
        else:
            batch.settle(results)
        finally:
            stack.under_way -= 1
            if not stack.under_way:
                if stack.batch is not None:
                    self._go(key, stack)
                else:
                    del self._stacks[key]
