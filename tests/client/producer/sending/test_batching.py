"""Piles: when they go, and with what."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.sending.batching import Batcher, Batching
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.client.producer.sending.pending_batches import BatchKey, Key, PendingBatch
from rocketpipe.errors import ConnectionLost
from rocketpipe.model.message import Message
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.testing import ManualClock

QUEUE = MessageQueue(topic="t", broker_name="a", queue_id=0)
KEY = "t"


class Brokers:
    """Takes batches; each waits until it is let go, or fails."""

    def __init__(self, *, at_once: bool = False) -> None:
        self.batches: list[tuple[Key, list[bytes], int]] = []
        self.waiting: list[asyncio.Future[None]] = []
        self._at_once = at_once

    async def send(self, key: Key, batch: PendingBatch, left_ms: int) -> Sequence[SendResult]:
        parts = [part for part in batch.parts if isinstance(part, Outgoing)]
        self.batches.append((key, [part.body for part in parts], left_ms))
        if not self._at_once:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(turn)
            await turn
        return [
            SendResult(part.message_id, QUEUE, QueueOffset(at), True)
            for at, part in enumerate(parts)
        ]

    @property
    def sizes(self) -> list[int]:
        return [len(bodies) for _, bodies, _ in self.batches]


def out(number: int, body: bytes = b"x") -> Outgoing:
    return Outgoing(Message("t", body), f"{number:032X}", 0, 1000)


def add(
    batcher: Batcher, part: Outgoing, timeout_ms: int = 1000, key: Key = KEY
) -> asyncio.Future[SendResult]:
    return batcher.add(key, part, part.size, timeout_ms)


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_is_sent_in_one_turn_of_the_loop_goes_together() -> None:
    brokers = Brokers(at_once=True)
    batcher = Batcher(Batching(), ManualClock(), brokers.send)
    results = await asyncio.gather(*(add(batcher, out(n)) for n in range(5)))
    assert brokers.sizes == [5]
    assert [result.queue_offset for result in results] == [0, 1, 2, 3, 4]
    assert [result.message_id for result in results] == [f"{n:032X}" for n in range(5)]
    assert batcher._stacks == {}


async def test_a_full_pile_goes_at_once_by_count_and_by_bytes() -> None:
    brokers = Brokers(at_once=True)
    batcher = Batcher(Batching(max_count=2), ManualClock(), brokers.send)
    await asyncio.gather(*(add(batcher, out(n)) for n in range(5)))
    assert brokers.sizes == [2, 2, 1]
    brokers = Brokers(at_once=True)
    size = out(0).size + 22
    batcher = Batcher(Batching(max_bytes=3 * size), ManualClock(), brokers.send)
    await asyncio.gather(*(add(batcher, out(n)) for n in range(7)))
    assert brokers.sizes == [3, 3, 1]
    brokers = Brokers(at_once=True)
    batcher = Batcher(Batching(max_bytes=size), ManualClock(), brokers.send)
    await asyncio.gather(add(batcher, out(0)), add(batcher, out(1, bytes(500))))
    assert brokers.sizes == [1, 1]  # one that is longer than all goes alone
    brokers = Brokers(at_once=True)
    batcher = Batcher(Batching(), ManualClock(), brokers.send, max_bytes=2 * size)
    await asyncio.gather(*(add(batcher, out(n)) for n in range(5)))
    assert brokers.sizes == [2, 2, 1]  # no send may be longer


async def test_the_next_pile_goes_when_the_one_before_it_was_answered() -> None:
    brokers = Brokers()
    batcher = Batcher(Batching(linger_ms=10), ManualClock(), brokers.send)
    first = add(batcher, out(0))
    await turn()
    rest = [add(batcher, out(n)) for n in (1, 2)]
    await turn()
    assert brokers.sizes == [1]
    brokers.waiting[0].set_result(None)
    await first
    await turn()
    assert brokers.sizes == [1, 2]
    brokers.waiting[1].set_result(None)
    await asyncio.gather(*rest)


async def test_nobody_waits_longer_than_the_linger() -> None:
    clock, brokers = ManualClock(), Brokers()
    batcher = Batcher(Batching(linger_ms=10), clock, brokers.send)
    add(batcher, out(0))
    await turn()
    add(batcher, out(1))
    await turn()
    await clock.advance(9)
    add(batcher, out(2))
    assert brokers.sizes == [1]
    await clock.advance(1)
    assert brokers.sizes == [1, 2]
    for waiting in brokers.waiting:
        waiting.set_result(None)
    await batcher.close()


async def test_a_pile_has_the_time_of_the_first_that_runs_out() -> None:
    brokers = Brokers(at_once=True)
    batcher = Batcher(Batching(), ManualClock(), brokers.send)
    await asyncio.gather(*(add(batcher, out(0), ms) for ms in (3000, 500, 1000)))
    assert [left_ms for _, _, left_ms in brokers.batches] == [500]


async def test_messages_that_differ_in_topic_queue_or_waiting_go_apart() -> None:
    brokers = Brokers(at_once=True)
    batcher = Batcher(Batching(), ManualClock(), brokers.send)
    keys = [KEY, BatchKey("u", None, True), BatchKey("t", QUEUE, True), BatchKey("t", None, False)]
    await asyncio.gather(*(add(batcher, out(n), key=key) for n in range(8) for key in keys))
    assert sorted(brokers.sizes) == [8, 8, 8, 8]


async def test_a_failure_is_everybodys_and_the_next_pile_goes_on() -> None:
    brokers = Brokers()
    batcher = Batcher(Batching(), ManualClock(), brokers.send)
    failing = [add(batcher, out(n)) for n in (0, 1)]
    await turn()
    fine = add(batcher, out(2))
    brokers.waiting[0].set_exception(ConnectionLost("a:1", "gone"))
    for each in failing:
        with pytest.raises(ConnectionLost):
            await each
    await turn()
    brokers.waiting[1].set_result(None)
    assert (await fine).durable


async def test_one_who_stops_waiting_does_not_disturb_the_others() -> None:
    brokers = Brokers()
    batcher = Batcher(Batching(), ManualClock(), brokers.send)
    leaving, staying = (add(batcher, out(n)) for n in (0, 1))
    await turn()
    leaving.cancel()
    brokers.waiting[0].set_result(None)
    assert (await staying).queue_offset == 1


async def test_closing_sends_what_has_piled_up() -> None:
    brokers = Brokers()
    batcher = Batcher(Batching(), ManualClock(), brokers.send)
    first = add(batcher, out(0))
    await turn()
    second = add(batcher, out(1))
    closing = asyncio.create_task(batcher.close())
    await turn()
    assert brokers.sizes == [1, 1]
    assert not closing.done()
    for waiting in brokers.waiting:
        waiting.set_result(None)
    await closing
    assert first.done()
    assert second.done()


@pytest.mark.parametrize(
    "settings",
    [{"max_bytes": 0}, {"max_bytes": 3 << 20}, {"max_count": 0}, {"linger_ms": 30_001}],
)
def test_numbers_outside_their_limits_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"from \d to"):
        Batching(**settings)
