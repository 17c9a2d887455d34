"""A handler that waits for nothing is done in one stretch; one that waits is gone on with."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.consumer.support.sample_messages import messages
from tests.waiting import until

from rocketpipe.client.consumer.handling.stepping import Begun, done_at_once
from rocketpipe.client.consumer.outcome import DEAD_LETTER, Outcome, Retry

GOES_ON: Any = SimpleNamespace(is_ending=False)


async def test_all_that_wait_for_nothing_are_done_before_anybody_else_runs() -> None:
    seen: list[int] = []
    asyncio.get_running_loop().call_soon(seen.append, -1)

    async def handle(one: Any) -> Any:
        seen.append(one.queue_offset)
        return None if one.queue_offset % 2 else "anything"

    assert done_at_once(handle, messages(*range(8)), 3, GOES_ON) == (8, None)
    assert seen == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("said", [False, DEAD_LETTER, Retry("later", delay_level=3)])
async def test_what_is_not_done_ends_the_stretch(said: object) -> None:
    async def handle(one: Any) -> object:
        return said if one.queue_offset == 2 else None

    at, met = done_at_once(handle, messages(0, 1, 2, 3), 0, GOES_ON)
    assert at == 2
    assert isinstance(met, Outcome)
    assert met.done == 0
    assert met.delay_level == Outcome.of(said, 1).delay_level


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(3), Retry("again"), asyncio.CancelledError()]
)
async def test_what_it_raises_is_an_outcome(error: BaseException) -> None:
    async def handle(one: Any) -> None:
        raise error

    at, met = done_at_once(handle, messages(0, 1), 0, GOES_ON)
    assert at == 0
    assert isinstance(met, Outcome)
    assert met.error is (None if isinstance(error, Retry) else error)


async def test_a_queue_that_ends_gives_nothing_more() -> None:
    queue: Any = SimpleNamespace(is_ending=False)

    async def handle(one: Any) -> None:
        queue.is_ending = one.queue_offset == 1

    assert done_at_once(handle, messages(0, 1, 2), 0, queue) == (2, None)


async def begun(handle: Any) -> Begun:
    at, met = done_at_once(handle, messages(0), 0, GOES_ON)
    assert at == 0
    assert isinstance(met, Begun)
    return met


async def test_one_that_waits_goes_on_in_the_same_task_and_context() -> None:
    place: contextvars.ContextVar[str] = contextvars.ContextVar("place")
    gate = asyncio.Event()
    tasks = [asyncio.current_task()]

    async def handle(one: Any) -> str:
        place.set("first step")
        tasks.append(asyncio.current_task())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await gate.wait()
        await asyncio.sleep(0)
        tasks.append(asyncio.current_task())
        return place.get()

    assert await (await begun(handle)).end() == "first step"
    assert len(set(tasks)) == 1


async def test_what_it_waits_for_may_fail_and_it_may_raise() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def handle(one: Any) -> None:
        try:
            await gate
        except ValueError:
            raise KeyError("in its place") from None

    met = await begun(handle)
    gate.set_exception(ValueError("gate"))
    with pytest.raises(KeyError, match="in its place"):
        await met.end()


async def test_who_waits_for_it_is_cancelled_and_it_with_them() -> None:
    ended: list[str] = []

    async def handle(one: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    async def work() -> None:
        await (await begun(handle)).end()

    working = asyncio.create_task(work())
    await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert ended == ["cleaned up"]


async def test_one_that_is_given_up_is_closed() -> None:
    ended: list[str] = []

    async def handle(one: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("closed")

    met = await begun(handle)
    waiting = met.end()
    waiting.send(None)
    waiting.close()
    assert ended == ["closed"]


async def test_any_awaitable_will_do() -> None:
    class Awaitable:
        def __await__(self) -> Generator[Any, None, str]:
            yield from asyncio.sleep(0).__await__()
            return "done"

    assert await (await begun(lambda _: Awaitable())).end() == "done"


async def test_what_is_known_of_a_waiting_call_is_let_go_with_it() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    gone = False

    class Mark:
        def __del__(self) -> None:
            nonlocal gone
            gone = True

    async def handle(one: Any, mark: Any = None) -> None:
        mark = Mark()
        await gate
        assert mark

    met: Begun | None = await begun(handle)
    gate.set_result(None)
    assert met is not None
    await met.end()
    met = None
    await until(lambda: gone)
