"""Turns messages that are on their way out into results: one by one, or many at a time.

This is where bodies are compressed, batches are made of messages that may go together, and traces
are told. Whoever has a message sent takes room for it by ``enter``; ``send`` gives the room back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Self

from rocketpipe.background import running
from rocketpipe.client.producer.result import SUCCESS, SendResult, Sent, Stored, result_of_sent
from rocketpipe.client.producer.retry import Retries
from rocketpipe.client.producer.selectors import Pick
from rocketpipe.client.producer.sending.batching import Batcher, Batching
from rocketpipe.client.producer.sending.delivery import Delivery, FirstAttempt
from rocketpipe.client.producer.sending.outgoing import Checks, Outgoing
from rocketpipe.client.producer.sending.pending_batches import (
    BatchKey,
    Key,
    Part,
    PendingBatch,
    key_of,
    written,
)
from rocketpipe.client.producer.sending.trace import SendingTrace, Trace
from rocketpipe.client.session import Session
from rocketpipe.errors import MessageRefused, RocketPipeError
from rocketpipe.model.message import Message
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.command import Command

TRACE_TIMEOUT_MS: Final = 5000
#: A unique key and what ends it; those of IPv6 are longer, which matters to no limit.
_KEY_CHARS: Final = 33


class Sender:
    """Sends for one producer."""

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
        self._in_flight = delivery.in_flight
        self._checks = checks
        self._retries = retries
        self._retries_unanswered = retries.unanswered_only
        self._batcher: Batcher | None = None
        if batching is not None:
            self._batcher = Batcher(
                batching, session.clock, self._send_pending, max_bytes=checks.max_bytes
            )
        self._trace: SendingTrace | None = None
        if trace is not None:
            self._trace = SendingTrace(trace, session.clock, self._send_trace, delivery.address)
        #: Whether plain messages may be given to ``batch``.
        self.batches = self._batcher is not None and self._trace is None
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._running = AsyncExitStack()
        if self._trace is not None:
            tracer = self._trace.tracer
            self._running.push_async_callback(tracer.flush)
            await self._running.enter_async_context(running(tracer.run(), "message trace"))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    async def drain(self) -> None:
        """Send what has pending up, and wait for it."""
        if self._batcher is not None:
            await self._batcher.close()

    # Room

    async def enter(self, size: int, left_ms: int) -> int:
        """Take room for a send of so many bytes; gives the time that is left then.

        Raises:
            ProducerFull: If there is none in time.
        """
        if self._in_flight.try_enter(size):
            return left_ms
        return await self._in_flight.enter(size, left_ms)

    # One message

    def batch(
        self, topic: object, body: bytes, parts: Mapping[str, Any], left_ms: int
    ) -> asyncio.Future[SendResult] | None:
        """Put a message on a batch as it is; None if it is not plain, or there is no room now."""
        batcher = self._batcher
        assert batcher is not None, "a producer that sends each by itself"
        text = self._checks.plain.find(topic, body, parts)
        if text is None:
            return None
        assert isinstance(topic, str), "what is plain is given in parts"
        size = len(body) + len(text) + _KEY_CHARS
        if not self._in_flight.try_enter(size):
            return None
        return batcher.add(topic, (body, text), size, left_ms)

    async def send(
        self, out: Outgoing, left_ms: int, pick: Pick | None, *, unanswered_only: bool = False
    ) -> SendResult:
        """Send one message, by itself or on a batch; what it raises is what ``Delivery`` does.

        With ``unanswered_only`` a broker's refusal is final, whichever it is.
        """
        if self._batcher is not None and (out.plain or self._checks.may_wait(out.message)):
            return await self._send_together(self._batcher, out, left_ms, pick)
        try:
            retries = self._retries_unanswered if unanswered_only else self._retries
            asked = None
            if pick is None and out.plain and self._trace is None:
                asked = self._delivery.begin(out, retries.time_for(1, left_ms))
            if asked is None:
                return await self._send_one(out, left_ms, retries, pick)
            told: Sent | Command | RocketPipeError
            try:
                told = await asked.answer
            except RocketPipeError as error:
                told = error
            finally:
                self._delivery.over(asked)
            if type(told) is Sent and told.code == SUCCESS:
                return result_of_sent(told, asked.queue, out.message_id)
            begun = FirstAttempt(asked.queue, asked.began_ms, told)
            return result_of(out, await self._delivery.deliver(out, left_ms, retries, None, begun))
        finally:
            self._in_flight.leave(out.size)

    async def _send_one(
        self, out: Outgoing, left_ms: int, retries: Retries, pick: Pick | None
    ) -> SendResult:
        trace = self._trace
        if self._checks.compresses(out.body):
            await self._checks.compress(out)
        began_ms = trace.now_ms() if trace is not None else 0
        stored = await self._delivery.deliver(out, left_ms, retries, pick)
        result = result_of(out, stored)
        if trace is not None:
            trace.tell([out], [result], stored, began_ms)
        return result

    # Many

    async def send_batch(
        self, parts: Sequence[Outgoing], left_ms: int, pick: Pick | None
    ) -> list[SendResult]:
        """Send messages as one batch, with room that it takes itself; a result for each.

        Raises:
            MessageRefused: If together they are too long.
            ProducerFull: If there is no room in time; beside what ``Delivery`` raises.
        """
        limit = self._checks.max_bytes
        now_ms = self._clock.now_ms()
        whole = Outgoing.batch_of(parts, self._session.keys.next(now_ms), now_ms)
        if whole.size > limit:
            reason = f"a batch of {whole.size} bytes, {limit} are the most"
            raise MessageRefused(whole.topic, reason, "make several batches of it")
        left_ms = await self.enter(whole.size, left_ms)
        try:
            ids = [part.message_id for part in parts]
            return await self._send_whole(whole, parts, ids, left_ms, pick)
        finally:
            self._in_flight.leave(whole.size)

    async def _send_together(
        self, batcher: Batcher, out: Outgoing, left_ms: int, pick: Pick | None
    ) -> SendResult:
        queue = None
        if pick is not None:
            try:
                queue = self._delivery.choose(await self._delivery.line(out.topic, left_ms), pick)
            except BaseException:
                self._in_flight.leave(out.size)
                raise
        # From here on the batch has the room, whether or not anybody waits for the message.
        return await batcher.add(key_of(out, queue), out, out.size, left_ms)

    async def _send_pending(
        self, key: Key, batch: PendingBatch, left_ms: int
    ) -> Sequence[SendResult]:
        parts = batch.parts
        try:
            topic, queue, wait_stored = key if isinstance(key, BatchKey) else (key, None, True)
            pick: Pick | None = None if queue is None else lambda _: queue
            now_ms = self._clock.now_ms()
            keys = self._session.keys.take(len(parts), now_ms)
            if len(parts) == 1:
                out = _by_itself(topic, parts[0], keys[0], now_ms)
                return [await self._send_one(out, left_ms, self._retries, pick)]
            body, ids = written(parts, keys)
            batch_id = self._session.keys.next(now_ms)
            whole = Outgoing.of_entries(topic, body, batch_id, now_ms, wait_stored=wait_stored)
            return await self._send_whole(whole, parts, ids, left_ms, pick)
        finally:
            self._in_flight.leave(batch.held_bytes, len(parts))

    async def _send_whole(
        self,
        whole: Outgoing,
        parts: Sequence[Part],
        ids: Sequence[str],
        left_ms: int,
        pick: Pick | None,
    ) -> list[SendResult]:
        trace = self._trace
        began_ms = trace.now_ms() if trace is not None else 0
        stored = await self._delivery.deliver(whole, left_ms, self._retries, pick)
        offset_ids: Sequence[str] = stored.offset_ids.split(",")
        if len(offset_ids) != len(ids):  # stored as one record, which has one place
            offset_ids = [stored.offset_ids] * len(ids)
        durable = True if stored.sure and whole.wait_stored else None
        _, _, queue, first, region, transaction_id, _, _ = stored
        results = [
            SendResult(
                message_id,
                queue,
                QueueOffset(first + at),
                durable,
                offset_ids[at],
                region,
                transaction_id,
            )
            for at, message_id in enumerate(ids)
        ]
        if trace is not None:
            traced = [part for part in parts if isinstance(part, Outgoing)]
            assert len(traced) == len(parts), "who tells of messages makes them"
            trace.tell(traced, results, stored, began_ms)
        return results

    async def _send_trace(self, message: Message) -> None:
        now_ms = self._clock.now_ms()
        message_id = self._session.keys.next(now_ms)
        out = Outgoing(message, message_id, now_ms, self._checks.max_bytes)
        await self._delivery.deliver(out, TRACE_TIMEOUT_MS, self._retries)


def _by_itself(topic: str, part: Part, message_id: str, now_ms: int) -> Outgoing:
    """The only message of a batch, as any other that is sent by itself."""
    if isinstance(part, Outgoing):
        return part
    body, text = part
    return Outgoing.of_plain(topic, body, {}, text, message_id, now_ms)


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
