"""What becomes of popped messages in a push consumer's hands."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.client.consumer.test_popped import record, reply
from tests.waiting import until

from rocketpipe.client.consumer.handling.handlers import Handlers, handler
from rocketpipe.client.consumer.outcome import DEAD_LETTER, Retry
from rocketpipe.client.consumer.popped import PoppedMessage, popped
from rocketpipe.client.consumer.popping import flow as pop_flow
from rocketpipe.client.consumer.popping.flow import BACK_OFF_MS, PopFlow
from rocketpipe.client.consumer.popping.popper import Source
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.errors import ConnectionLost, ReceiptExpired
from rocketpipe.model.subscription import Subscription
from rocketpipe.testing.clock import ManualClock


class Desk:
    """A broker's counter: hands out what it is given, and notes what comes back."""

    group = "g"

    def __init__(self, *, ordered: bool = False) -> None:
        self.ordered = ordered
        self.clock = ManualClock(900)
        self.session = SimpleNamespace(clock=self.clock, chance=random.Random(1))
        self.offered: asyncio.Queue[list[PoppedMessage]] = asyncio.Queue()
        self.done: list[bytes] = []
        self.hidden: list[tuple[bytes, int]] = []
        self.returned: list[bytes] = []
        self.trouble: list[Exception] = []
        self.max_retries = 16

    async def sources(self, topic: str) -> list[Source]:
        return [Source(topic, "b")]

    async def pop(self, source: Source, wanted: Subscription, **_: Any) -> list[PoppedMessage]:
        return await self.offered.get()

    async def ack(self, messages: Iterable[PoppedMessage]) -> None:
        if self.trouble:
            raise self.trouble.pop()
        self.done += [each.body for each in messages]

    async def hide(self, message: PoppedMessage, invisible_ms: int) -> None:
        self.hidden.append((message.body, invisible_ms))

    async def is_spent(self, message: PoppedMessage) -> bool:
        return message.reconsume_times >= self.max_retries

    async def send_back(self, message: PoppedMessage, delay_level: int = 0) -> bool:
        assert delay_level == DEAD_LETTER
        self.returned.append(message.body)
        return True

    def offer(self, *offsets: int, until_ms: int | None = None) -> None:
        taken = ",".join(map(str, offsets))
        answer = reply(*(record(0, each) for each in offsets), starts="0 0 0", taken=f"0 0 {taken}")
        messages = popped(answer, "t", "b")
        for message in messages:
            message.hidden_until_ms = until_ms
        self.offered.put_nowait(messages)


@asynccontextmanager
async def flowing(
    desk: Desk, handle: Callable[[PoppedMessage], object], **tuning: Any
) -> AsyncIterator[PopFlow]:
    handlers = Handlers(2, "test")

    async def consume(message: PoppedMessage) -> object:
        return handle(message)

    handlers.add(handler("t", consume, tags=None, sql=None, batch=None))
    flow = PopFlow(
        cast("Any", desk),
        handlers,
        cast("Any", desk),
        tuning=PushTuning(**tuning),
        concurrency=2,
        subscription=lambda topic: Subscription(topic=topic),
    )
    async with AsyncExitStack() as stack:
        await flow.begin(stack)
        yield flow


@pytest.fixture(autouse=True)
def nobody_assigns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def assignments(*_: object) -> None:
        return None

    monkeypatch.setattr(pop_flow, "assignments", assignments)


async def test_what_is_done_is_acknowledged_and_what_failed_comes_again_later() -> None:
    desk = Desk()
    said: dict[bytes, object] = {b"0/1": False, b"0/2": Retry(delay_level=1)}
    async with flowing(desk, lambda message: said.get(message.body)) as flow:
        desk.offer(0, 1, 2)
        await until(lambda: len(desk.done) + len(desk.hidden) == 3)
        assert {each.queue_id for each in flow.queues} == {-1}
    assert desk.done == [b"0/0"]
    assert sorted(desk.hidden) == [(b"0/1", BACK_OFF_MS[4]), (b"0/2", 1000)]


async def test_what_is_given_up_goes_to_the_dead_letters_and_is_done() -> None:
    desk = Desk()
    desk.max_retries = 4  # each was tried as often before
    async with flowing(desk, lambda message: Retry()):
        desk.offer(0)
        await until(lambda: desk.done)
    assert desk.returned == desk.done == [b"0/0"]
    assert desk.hidden == []


async def test_an_acknowledgement_is_tried_again_unless_it_is_too_late() -> None:
    desk = Desk()
    desk.trouble = [ConnectionLost("b", "gone")]
    async with flowing(desk, lambda message: None, failed_pull_ms=100):
        desk.offer(0)
        await until(lambda: not desk.trouble)
        await desk.clock.advance(100)
        await until(lambda: desk.done == [b"0/0"])
        desk.trouble = [ReceiptExpired("handle", "too late")]
        desk.offer(1)
        await until(lambda: not desk.trouble)
        desk.offer(2)
        await until(lambda: desk.done == [b"0/0", b"0/2"])


async def test_what_was_held_for_too_long_is_not_handled_and_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    seen: list[bytes] = []
    async with flowing(desk, lambda message: seen.append(message.body)):
        await desk.clock.advance(600)
        desk.offer(0, until_ms=600)
        desk.offer(1, until_ms=601)
        await until(lambda: desk.done)
    assert seen == desk.done == [b"0/1"]
    assert "longer than they are hidden" in caplog.text
    assert "dropped=1" in caplog.text


@pytest.mark.parametrize("apart_ms", [-(10**9), 10**9])
async def test_the_brokers_time_of_day_does_not_matter(apart_ms: int) -> None:
    desk = Desk()
    desk.clock = desk.session.clock = ManualClock(10**10 + apart_ms)
    async with flowing(desk, lambda message: None):
        desk.offer(0, until_ms=1)
        await until(lambda: desk.done)


async def test_in_order_nothing_behind_what_was_held_for_too_long_is_handled() -> None:
    desk = Desk(ordered=True)
    desk.offer(0, 1, 2)
    (messages,) = [desk.offered.get_nowait()]
    messages[1].hidden_until_ms = 0
    async with flowing(desk, lambda message: None):
        desk.offered.put_nowait(messages)
        await until(lambda: desk.hidden)
    assert desk.done == [b"0/0"]
    assert [body for body, _ in desk.hidden] == [b"0/2"]


async def test_in_order_a_failure_has_the_rest_come_again_with_it() -> None:
    desk = Desk(ordered=True)
    seen: list[bytes] = []

    def handle(message: PoppedMessage) -> bool:
        seen.append(message.body)
        return message.body != b"0/1"

    async with flowing(desk, handle, suspend_queue_ms=70):
        desk.offer(0, 1, 2, 3)
        await until(lambda: len(desk.hidden) == 3)
    assert seen == [b"0/0", b"0/1"]
    assert desk.done == [b"0/0"]
    assert desk.hidden == [(b"0/1", 70), (b"0/2", 70), (b"0/3", 70)]


async def test_nothing_is_popped_while_it_is_suspended() -> None:
    desk = Desk()
    async with flowing(desk, lambda message: None) as flow:
        flow.suspend()
        await until(lambda: flow.queues)
        desk.offer(0)
        desk.offer(1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(desk.done) <= 1, "what was under way is consumed"
        flow.resume()
        flow.notify()
        await until(lambda: len(desk.done) == 2)
