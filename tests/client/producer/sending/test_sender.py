"""From messages on their way out to results."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.client.producer.support.broker_parts import World, world

from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.retry import Retries
from rocketpipe.client.producer.selectors import Pick
from rocketpipe.client.producer.sending.batching import Batching
from rocketpipe.client.producer.sending.delivery import Delivery
from rocketpipe.client.producer.sending.in_flight import InFlight
from rocketpipe.client.producer.sending.outgoing import Checks, Outgoing
from rocketpipe.client.producer.sending.publish_routes import PublishRoutes
from rocketpipe.client.producer.sending.queue_choice import QueueChoice
from rocketpipe.client.producer.sending.sender import Sender
from rocketpipe.client.producer.sending.trace import Trace
from rocketpipe.errors import MessageRefused, RequestRejected
from rocketpipe.model.message import Message
from rocketpipe.model.trace import Published, TracedKind, decode
from rocketpipe.record.batch import decode_batch
from rocketpipe.record.compression import inflate


@asynccontextmanager
async def sender(
    here: World,
    *,
    batching: Batching | None = None,
    trace: Trace | None = None,
    max_bytes: int = 1 << 20,
) -> AsyncIterator[Sender]:
    async with here.session() as session:
        flying = InFlight(here.clock)
        choice = QueueChoice(None, here.clock, random.Random(1))
        delivery = Delivery(session, PublishRoutes(session, "g"), choice, flying)
        checks = Checks(max_bytes=max_bytes)
        async with Sender(
            session, delivery, checks, Retries(), batching=batching, trace=trace
        ) as sending:
            yield sending
            await sending.drain()
        await flying.close()


def out(body: bytes = b"x", **parts: object) -> Outgoing:
    message = Message("t", body, **parts)  # type: ignore[arg-type]
    return Outgoing(message, "0A" * 16, 7, 1 << 20)


async def send(
    sending: Sender, message: Outgoing, pick: Pick | None = None, *, unanswered_only: bool = False
) -> SendResult:
    left_ms = await sending.enter(message.size, 1000)
    return await sending.send(message, left_ms, pick, unanswered_only=unanswered_only)


async def test_a_result_says_all_that_the_broker_said() -> None:
    async with world("a") as here, sender(here) as sending:
        result = await send(sending, out())
        assert (result.message_id, result.offset_id) == ("0A" * 16, "0000000000000000")
        assert (result.queue.broker_name, result.queue_offset) == ("a", 0)
        assert (result.region, result.transaction_id, result.durable) == ("Oslo", "T", True)


@pytest.mark.parametrize("code", [10, 11, 12])
async def test_what_is_not_surely_safe_says_so(code: int) -> None:
    async with world("a") as here, sender(here) as sending:
        here["a"].next = [code]
        assert (await send(sending, out())).durable is None


async def test_a_message_that_did_not_wait_cannot_know() -> None:
    async with world("a") as here, sender(here) as sending:
        assert (await send(sending, out(wait_stored=False))).durable is None


async def test_long_bodies_arrive_compressed_and_once_only_for_all_attempts() -> None:
    async with world("a") as here, sender(here) as sending:
        here["a"].next = [14]
        await send(sending, out(bytes(9000)))
        (taken,) = here["a"].taken
        assert len(taken.body) < 100
        assert inflate(taken.body, taken.sys_flag) == bytes(9000)


async def test_refusals_are_final_where_only_silence_is_tried_again() -> None:
    async with world("a", "b") as here, sender(here) as sending:
        for name in "ab":
            here[name].next = [2]
        with pytest.raises(RequestRejected):
            await send(sending, out(), unanswered_only=True)
        assert here["a"].asked + here["b"].asked == 1


async def test_batches_have_a_result_for_each_message() -> None:
    async with world("a") as here, sender(here) as sending:
        parts = [out(body) for body in (b"1", b"2", b"3")]
        results = await sending.send_batch(parts, 1000, None)
        assert [result.queue_offset for result in results] == [0, 1, 2]
        assert [result.offset_id[-1] for result in results] == ["0", "1", "2"]
        assert {result.durable for result in results} == {True}


async def test_a_batch_that_is_too_long_says_what_to_do() -> None:
    async with world("a") as here, sender(here, max_bytes=200) as sending:
        with pytest.raises(MessageRefused, match="200 are the most; make several"):
            await sending.send_batch([out(bytes(100))] * 2, 1000, None)


async def test_piles_are_batches_and_a_lone_message_is_none() -> None:
    async with world("a") as here, sender(here, batching=Batching()) as sending:
        await send(sending, out())
        assert not here["a"].taken[0].batch
        bodies = [bytes([number]) for number in range(1, 6)]
        await asyncio.gather(*(send(sending, out(body)) for body in bodies))
        (taken,) = here["a"].taken[1:]
        assert [entry.body for entry in decode_batch(taken.body)] == bodies


async def test_what_may_not_wait_goes_by_itself_and_queues_are_kept_apart() -> None:
    async with world("a") as here, sender(here, batching=Batching()) as sending:
        await asyncio.gather(
            *(send(sending, out(delay_level=1)) for _ in range(2)),
            *(send(sending, out(), lambda held: held[1]) for _ in range(2)),
            *(send(sending, out(), lambda held: held[0]) for _ in range(2)),
        )
        taken = sorted((request.batch, request.queue_id) for request in here["a"].taken[-4:])
        assert [batch for batch, _ in taken] == [False, False, True, True]
        assert [queue_id for batch, queue_id in taken if batch] == [0, 1]


async def test_every_message_is_told_to_the_trace_topic() -> None:
    async with world("a") as here:
        here.known.routes["traces"] = here.route("a")
        async with sender(here, trace=Trace("g", "traces")) as sending:
            first = await send(sending, out(tags="x", keys=["k1", "k2"]))
            await send(sending, out(delay_level=2))
            parts = [out(b"1"), out(b"2")]
            here["a"].next = [10]
            await sending.send_batch(parts, 1000, None)
        told = here["a"].taken[-1]
        assert told.topic == "traces"
        records = decode(told.body.decode())
        assert len(records) == 4
        record = records[0]
        assert isinstance(record, Published)
        assert (record.group, record.topic, record.tags, record.keys) == ("g", "t", "x", "k1 k2")
        assert (record.message_id, record.offset_id) == (first.message_id, first.offset_id)
        assert (record.store_host, record.region, record.success) == (
            here["a"].address,
            "Oslo",
            True,
        )
        kinds = [each.kind for each in records if isinstance(each, Published)]
        assert kinds == [TracedKind.NORMAL, TracedKind.DELAYED, *[TracedKind.NORMAL] * 2]
        assert [each.success for each in records if isinstance(each, Published)][2:] == [False] * 2
