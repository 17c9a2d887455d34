"""Parcels on their way: bounded, patient, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rocketpipe.client.session import Session
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConnectionLost, NoRoute, RequestRejected, RocketPipeError
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.options.write import WriteOptions
from rocketpipe.pipeline.writing.sender import SendUnit, TaskSender

QUEUE = MessageQueue(topic="orders", broker_name="a", queue_id=0)
OTHER = MessageQueue(topic="orders", broker_name="a", queue_id=1)


class Hurried(SystemClock):
    """The machine's clock, a hundred times as fast."""

    def monotonic_ms(self) -> int:
        return 100 * super().monotonic_ms()

    async def sleep(self, duration_ms: int) -> None:
        await super().sleep(duration_ms // 100)


class Notebook:
    """A way that notes what it brings, and fails as it is told."""

    def __init__(self, *failures: RocketPipeError) -> None:
        self.failures = list(failures)
        self.brought: list[tuple[bytes, MessageQueue | None]] = []
        self.under_way = 0
        self.most_under_way = 0
        self.is_closed = False

    async def queues(self, topic: str, timeout_ms: int) -> Sequence[MessageQueue]:
        if self.failures:
            raise self.failures.pop(0)
        return (QUEUE, OTHER)

    async def send(self, parcel: SendUnit, queue: MessageQueue | None, timeout_ms: int) -> None:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            if self.failures:
                raise self.failures.pop(0)
            self.brought.append((bytes(parcel.body), queue))
        finally:
            self.under_way -= 1

    async def close(self) -> None:
        self.is_closed = True


def outlet(way: Notebook, *, max_in_flight_bytes: int = 1 << 20) -> TaskSender:
    options = WriteOptions(
        "127.0.0.1:1", max_in_flight_bytes=max_in_flight_bytes, timeout_ms=3_600_000
    )
    return TaskSender(options, Session("127.0.0.1:1", clock=Hurried()), way)


def parcel(body: bytes) -> SendUnit:
    return SendUnit("orders", body, 1, "id", 0)


def test_everything_is_brought_when_it_is_finished() -> None:
    way = Notebook()
    with outlet(way) as sending:
        assert sending.queues("orders") == (QUEUE, OTHER)
        for number in range(200):
            sending.send(parcel(b"%d" % number))
        sending.finish()
        assert sorted(int(body) for body, _ in way.brought) == list(range(200))
    assert way.is_closed


def test_what_is_on_its_way_is_bounded() -> None:
    way = Notebook()
    with outlet(way, max_in_flight_bytes=30) as sending:
        for _ in range(50):
            sending.send(parcel(b"ten bytes."))
        sending.finish()
    assert len(way.brought) == 50
    assert way.most_under_way <= 3


def test_a_queue_gets_its_parcels_in_order_though_one_is_tried_again() -> None:
    way = Notebook(ConnectionLost("a:1", "gone"), ConnectionLost("a:1", "gone"))
    with outlet(way) as sending:
        for number in range(20):
            sending.send(parcel(b"%d" % number), (QUEUE, OTHER)[number % 2])
        sending.finish()
    for at, queue in enumerate((QUEUE, OTHER)):
        bodies = [int(body) for body, sent_to in way.brought if sent_to == queue]
        assert bodies == list(range(at, 20, 2))


def test_a_refusal_that_does_not_pass_ends_the_task() -> None:
    way = Notebook(RequestRejected(13, "too long"))
    with outlet(way) as sending:
        sending.send(parcel(b"x"), QUEUE)
        with pytest.raises(RequestRejected, match="too long"):
            sending.finish()
        with pytest.raises(RequestRejected, match="too long"):
            sending.send(parcel(b"z"))
    assert way.brought == []


def test_routes_are_asked_for_again() -> None:
    way = Notebook(NoRoute("orders", "here"), ConnectionLost("a:1", "gone"))
    with outlet(way) as sending:
        assert len(sending.queues("orders")) == 2
