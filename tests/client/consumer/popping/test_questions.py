"""A broker that does not answer is waited for once; what it gives late is not lost."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.waiting import until

from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.client.consumer.popping.popper import Popper, Source
from rocketpipe.client.consumer.popping.questions import HASTE_MS, Questions
from rocketpipe.errors import CallTimeout, SessionClosed
from rocketpipe.model.subscription import Subscription
from rocketpipe.testing.clock import ManualClock

A, B = Source("t", "a"), Source("t", "b")
WANTED = Subscription(topic="t")


class Given:
    """A message, as far as it matters here."""

    def __init__(self, topic: str = "t", hidden_until_ms: int = 10**12) -> None:
        self.topic, self.hidden_until_ms = topic, hidden_until_ms


class Brokers:
    """Answers pops when a test says so."""

    group = "g"

    def __init__(self) -> None:
        self.asked: dict[str, list[asyncio.Future[list[Given]]]] = {"a": [], "b": []}
        self.shown: list[object] = []

    async def pop(self, source: Source, wanted: Subscription, **_: int) -> list[Given]:
        answer: asyncio.Future[list[Given]] = asyncio.get_running_loop().create_future()
        self.asked[source.broker_name].append(answer)
        return await answer

    async def hide(self, message: object, invisible_ms: int) -> None:
        assert invisible_ms == 0
        self.shown.append(message)


class Here:
    def __init__(self) -> None:
        self.clock, self.brokers = ManualClock(), Brokers()
        self.questions = Questions(cast("Popper", self.brokers), self.clock)

    def ask(self, source: Source, *, has_others: bool = True) -> asyncio.Task[Any]:
        asking = self.questions.ask(
            source, WANTED, count=8, invisible_ms=1000, wait_ms=0, has_others=has_others
        )
        return asyncio.ensure_future(asking)

    async def asked(self, broker: str, count: int = 1) -> list[asyncio.Future[list[Given]]]:
        await until(lambda: len(self.brokers.asked[broker]) == count)
        return self.brokers.asked[broker]

    async def outrun(self) -> None:
        """Have the second broker asked, and passed over."""
        asking = self.ask(B)
        await self.asked("b")
        await self.clock.advance(HASTE_MS)
        assert await asking is None

    def late(self, topic: str = "t") -> list[PoppedMessage]:
        return self.questions.taken_late({topic}, 8)


@pytest.fixture
async def here() -> Here:
    return Here()


async def test_a_broker_that_does_not_answer_is_waited_for_once(here: Here) -> None:
    await here.outrun()
    assert await here.ask(B) is None  # and nothing is asked while it owes an answer
    assert len(here.brokers.asked["b"]) == 1
    here.brokers.asked["b"][0].set_exception(CallTimeout("b", "PopMessage", 10_000))
    await until(lambda: not here.questions.is_awaited("b"))
    assert await here.ask(B) is None  # asked again, and not waited for
    assert len(await here.asked("b", 2)) == 2


async def test_what_comes_late_is_for_who_receives_next(here: Here) -> None:
    await here.outrun()
    message, spent = Given(), Given(hidden_until_ms=here.clock.monotonic_ms())
    here.brokers.asked["b"][0].set_result([message, spent])
    await here.questions.has_late.wait()
    assert here.late("other") == []
    assert here.late() == [message]
    assert here.late() == []
    assert not here.questions.has_late.is_set()
    asking = here.ask(B)  # it answers again: it is waited for
    (await here.asked("b", 2))[1].set_result([])
    assert await asking == []


async def test_the_only_broker_is_waited_for(here: Here) -> None:
    asking = here.ask(A, has_others=False)
    (answer,) = await here.asked("a")
    await here.clock.advance(10 * HASTE_MS)
    assert not asking.done()
    message = Given()
    answer.set_result([message])
    assert await asking == [message]


async def test_if_nobody_answers_the_first_that_does_is_waited_for(here: Here) -> None:
    await here.outrun()
    waiting = asyncio.ensure_future(here.questions.first_late())
    here.brokers.asked["b"][0].set_exception(CallTimeout("b", "PopMessage", 10_000))
    with pytest.raises(CallTimeout):
        await waiting
    assert await here.ask(B) is None
    waiting = asyncio.ensure_future(here.questions.first_late())
    (await here.asked("b", 2))[1].set_result([Given()])
    await waiting
    assert len(here.late()) == 1


async def test_who_is_cancelled_has_given_back_what_comes(here: Here) -> None:
    asking = here.ask(A)
    (answer,) = await here.asked("a")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    message = Given()
    answer.set_result([message])
    await until(lambda: here.brokers.shown == [message])


async def test_the_end_gives_back_what_came_late_and_ends_the_rest(here: Here) -> None:
    await here.outrun()
    message = Given()
    here.brokers.asked["b"][0].set_result([message])
    await here.questions.has_late.wait()
    asking = here.ask(A, has_others=False)
    await here.asked("a")
    await here.questions.settle()
    assert here.brokers.shown == [message]
    with pytest.raises(SessionClosed):
        await asking
