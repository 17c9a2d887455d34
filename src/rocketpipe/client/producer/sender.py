"""Turns messages that are on their way out into results: one by one, or many at a time.

This is where bodies are compressed, piles are made of messages that may go together, and traces
are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from rocketpipe.background import running
from rocketpipe.client.producer.batching import Batcher, Batching, PileKey
from rocketpipe.client.producer.delivery import Begun, Delivery
from rocketpipe.client.producer.outgoing import Checks, Outgoing, is_delayed
from rocketpipe.client.producer.result import SendResult, Sent, Stored, stored_of
from rocketpipe.client.producer.retry import Retries
from rocketpipe.client.producer.selectors import Pick, pick_of
from rocketpipe.client.session import Session
from rocketpipe.client.tracing import Tracer
from rocketpipe.errors import MessageRefused, RocketPipeError
from rocketpipe.model.message import Message
from rocketpipe.model.names import TRACE_TOPIC
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.properties import KEY_SEPARATOR
from rocketpipe.model.trace import Published, TracedKind
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command

TRACE_TIMEOUT_MS: Final = 5000
_SUCCESS: Final = int(ResponseCode.SUCCESS)


@dataclass(frozen=True, slots=True)
class Trace:
    """Whose sends are told, and to which topic."""

    group: str
    topic: str = TRACE_TOPIC


class Sender:
    """Sends for one producer, which has made room for what it sends."""

    def __init__(
        self,
        session: Session,
        delivery: Delivery,
        checks: Checks,
        retries: Retries,
        *,
        batching: Batching | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._session = session
        self._clock = session.clock
        self._delivery = delivery
        self._checks = checks
        self._retries = retries
        self._retries_unanswered = retries.unanswered_only
        self._batcher = Batcher(batching, session.clock, self._send_pile) if batching else None
        self._trace = trace
        self._tracer: Tracer | None = None
        if trace is not None:
            self._tracer = Tracer(self._send_trace, session.clock, topic=trace.topic)
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._running = AsyncExitStack()
        if self._tracer is not None:
            self._running.push_async_callback(self._tracer.flush)
            await self._running.enter_async_context(running(self._tracer.run(), "message trace"))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._running.aclose()

    async def drain(self) -> None:
        """Send what has piled up, and wait for it."""
        if self._batcher is not None:
            await self._batcher.close()

    async def send(
        self, out: Outgoing, left_ms: int, pick: Pick | None, *, unanswered_only: bool = False
    ) -> SendResult:
        """Send one message, by itself or on a pile; what it raises is what ``Delivery`` does.

        With ``unanswered_only`` a broker's refusal is final, whichever it is.
        """
        if self._batcher is not None and (out.plain or self._checks.may_wait(out.message)):
            queue = None
            if pick is not None:
                queue = pick((await self._delivery.line(out.topic, left_ms)).queues)
            key = PileKey(out.topic, queue, out.wait_stored)
            return await self._batcher.add(key, out, left_ms)
        retries = self._retries_unanswered if unanswered_only else self._retries
        if pick is not None or not out.plain or self._tracer is not None:
            return await self._send_one(out, left_ms, retries, pick)
        delivery = self._delivery
        asked = delivery.begin(out, retries.time_for(1, left_ms))
        if asked is None:
            return await self._send_one(out, left_ms, retries, pick)
        told: Sent | Command | RocketPipeError
        try:
            told = await asked.answer
        except RocketPipeError as error:
            told = error
        finally:
            delivery.over(asked)
        if type(told) is Sent and told.code == _SUCCESS:
            stored = stored_of(told, asked.queue)
        else:
            begun = Begun(asked.queue, asked.began_ms, told)
            stored = await delivery.deliver(out, left_ms, retries, None, begun)
        return result_of(out, stored)

    def batch_of(self, parts: Sequence[Outgoing]) -> Outgoing:
        """Many messages as one send.

        Raises:
            MessageRefused: If together they are too long.
        """
        limit = self._checks.max_bytes
        now_ms = self._clock.now_ms()
        whole = Outgoing.batch_of(parts, self._session.keys.next(now_ms), now_ms)
        if whole.size > limit:
            reason = f"a batch of {whole.size} bytes, {limit} are the most"
            raise MessageRefused(whole.topic, reason, "make several batches of it")
        return whole

    async def send_batch(
        self, whole: Outgoing, parts: Sequence[Outgoing], left_ms: int, pick: Pick | None
    ) -> list[SendResult]:
        """Send a batch; gives a result for each of its parts."""
        began_ms = self._clock.monotonic_ms()
        stored = await self._delivery.deliver(whole, left_ms, self._retries, pick)
        offset_ids: Sequence[str] = stored.offset_ids.split(",")
        if len(offset_ids) != len(parts):  # stored as one record, which has one place
            offset_ids = [stored.offset_ids] * len(parts)
        durable = True if stored.sure and whole.wait_stored else None
        _, _, queue, first, region, transaction_id, _, _ = stored
        results = [
            SendResult(
                part.message_id,
                queue,
                QueueOffset(first + at),
                durable,
                offset_ids[at],
                region,
                transaction_id,
            )
            for at, part in enumerate(parts)
        ]
        if self._tracer is not None:
            self._tell(parts, results, stored, self._clock.monotonic_ms() - began_ms)
        return results

    async def _send_one(
        self, out: Outgoing, left_ms: int, retries: Retries, pick: Pick | None
    ) -> SendResult:
        if self._checks.compresses(out.body):
            await self._checks.compress(out)
        began_ms = self._clock.monotonic_ms() if self._tracer is not None else 0
        stored = await self._delivery.deliver(out, left_ms, retries, pick)
        result = result_of(out, stored)
        if self._tracer is not None:
            self._tell([out], [result], stored, self._clock.monotonic_ms() - began_ms)
        return result

    async def _send_pile(
        self, key: PileKey, parts: Sequence[Outgoing], left_ms: int
    ) -> Sequence[SendResult]:
        pick = pick_of(parts[0].message, key.queue, None, None)
        if len(parts) == 1:
            return [await self._send_one(parts[0], left_ms, self._retries, pick)]
        return await self.send_batch(self.batch_of(parts), parts, left_ms, pick)

    # Traces

    def _tell(
        self,
        parts: Sequence[Outgoing],
        results: Sequence[SendResult],
        stored: Stored,
        cost_ms: int,
    ) -> None:
        if self._tracer is None or self._trace is None or not stored.traced:
            return
        for out, result in zip(parts, results, strict=True):
            message = out.message
            self._tracer.add(
                Published(
                    time_ms=out.born_ms,
                    region=result.region,
                    group=self._trace.group,
                    topic=out.topic,
                    message_id=result.message_id,
                    tags=message.tags,
                    keys=KEY_SEPARATOR.join(message.keys) or None,
                    store_host=self._delivery.address(result.queue),
                    body_bytes=len(out.body),
                    cost_ms=cost_ms // len(parts),
                    kind=TracedKind.DELAYED if is_delayed(message) else TracedKind.NORMAL,
                    offset_id=result.offset_id,
                    success=stored.sure,
                )
            )

    async def _send_trace(self, message: Message) -> None:
        now_ms = self._clock.now_ms()
        message_id = self._session.keys.next(now_ms)
        out = Outgoing(message, message_id, now_ms, self._checks.max_bytes)
        await self._delivery.deliver(out, TRACE_TIMEOUT_MS, self._retries)


def result_of(out: Outgoing, stored: Stored) -> SendResult:
    """What the sender of one message is told."""
    sure, offset_ids, queue, queue_offset, region, transaction_id, _, recall_handle = stored
    durable = True if sure and out.wait_stored else None
    return SendResult(
        out.message_id,
        queue,
        QueueOffset(queue_offset),
        durable,
        offset_ids,
        region,
        transaction_id,
        recall_handle,
    )
