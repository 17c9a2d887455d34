from __future__ import annotations

import asyncio
import functools
import sys
import threading
from typing import Any

import pytest
from tests.client.consumer.support.sample_messages import again, handlers, message, messages
from tests.waiting import PATIENCE_S

from rocketpipe.client.consumer.handling.handlers import Handlers, handler, runs, subscription_to
from rocketpipe.client.consumer.outcome import Retry
from rocketpipe.errors import FilterError, InvalidName
from rocketpipe.model.subscription import SQL92


async def outcome_of(target: Any, *, batch: int | None = None, count: int = 1) -> Any:
    made = handlers(target, batch=batch)
    try:
        chosen = made.of("orders")
        assert chosen is not None
        return await made.call(chosen, messages(*range(count)))
    finally:
        made.close()


async def test_functions_objects_and_classes_handle_messages_waiting_or_blocking() -> None:
    seen: list[bytes] = []

    async def waiting(one: Any) -> None:
        seen.append(one.body)

    def blocking(one: Any) -> None:
        seen.append(one.body)

    class WithMethod:
        async def handle(self, one: Any) -> None:
            seen.append(one.body)

    class Callable:
        async def __call__(self, one: Any) -> None:
            seen.append(one.body)

    targets = [
        waiting,
        blocking,
        WithMethod,
        WithMethod(),
        Callable,
        functools.partial(waiting),
        lambda one: waiting(one),
    ]
    for target in targets:
        assert (await outcome_of(target)).done == 1
    assert seen == [b"body 0"] * len(targets)


async def test_what_blocks_runs_in_no_more_threads_than_allowed_and_not_on_the_loop() -> None:
    together = threading.Barrier(2, timeout=PATIENCE_S)
    names = set()

    def block(one: Any) -> None:
        names.add(threading.current_thread().name)
        together.wait()

    made = handlers(block, threads=2)
    chosen = made.of("orders")
    assert chosen is not None
    # Two at a time pass the barrier; with a third thread one would be left over.
    outcomes = await asyncio.gather(*(made.call(chosen, messages(n)) for n in range(4)))
    made.close()
    assert [one.done for one in outcomes] == [1, 1, 1, 1]
    assert names == {"test_0", "test_1"}


async def test_what_is_raised_or_returned_becomes_the_outcome() -> None:
    async def fails(one: Any) -> None:
        raise KeyError("id")

    def asks(one: Any) -> Retry:
        return Retry(delay_level=4)

    async def raises(one: Any) -> None:
        raise Retry(delay_level=5)

    assert isinstance((await outcome_of(fails)).error, KeyError)
    assert (await outcome_of(asks)).delay_level == 4
    assert (await outcome_of(raises)).delay_level == 5


async def test_nothing_that_a_handler_raises_takes_its_worker_along() -> None:
    def exhausted(one: Any) -> None:
        next(iter(()))

    async def gave_up(one: Any) -> None:
        raise asyncio.CancelledError

    assert (await outcome_of(exhausted)).done == 0
    assert isinstance((await outcome_of(gave_up)).error, asyncio.CancelledError)


async def test_a_worker_that_is_cancelled_itself_ends() -> None:
    async def waits(one: Any) -> None:
        await asyncio.Event().wait()

    calling = asyncio.create_task(outcome_of(waits))
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_a_batch_is_a_list_even_of_one() -> None:
    given: list[Any] = []
    await outcome_of(given.append, batch=8, count=3)
    await outcome_of(given.append, batch=1)
    assert [len(one) for one in given] == [3, 1]


def test_messages_are_cut_by_topic_and_by_what_a_handler_takes() -> None:
    made = Handlers(1, "test")
    made.add(handler("orders", print, tags=None, sql=None, batch=2))
    made.add(handler("bills", print, tags=None, sql=None, batch=None))
    mixed = [
        *messages(1, 2, 3),
        again(4, "bills"),
        again(5, "bills"),
        again(6, "unknown"),
        again(7, "unknown"),
    ]
    cut = [[one.queue_offset for one in run] for run in runs(mixed, made)]
    assert cut == [[1, 2], [3], [4], [5], [6], [7]]
    assert list(runs([], made)) == []


def test_what_cannot_be_a_handler_is_refused_by_name() -> None:
    def given(**changes: Any) -> Any:
        plain: dict[str, Any] = {"tags": None, "sql": None, "batch": None}
        target = changes.pop("target", print)
        return handler(changes.pop("topic", "orders"), target, **(plain | changes))

    with pytest.raises(InvalidName, match="no good"):
        given(topic="no good")
    with pytest.raises(FilterError):
        given(tags="||")
    with pytest.raises(FilterError):
        given(sql="a >")
    with pytest.raises(ValueError, match="not by both"):
        given(tags="a", sql="a > 1")
    for batch in (0, 1025):
        with pytest.raises(ValueError, match="batch"):
            given(batch=batch)
    with pytest.raises(TypeError, match="no handler"):
        given(target="text")

    class Needy:
        def __init__(self, more: int) -> None: ...

    with pytest.raises(TypeError, match="Needy"):
        given(target=Needy)


def test_a_topic_has_one_handler() -> None:
    made = handlers(print)
    with pytest.raises(ValueError, match="orders"):
        made.add(handler("orders", print, tags=None, sql=None, batch=None))
    assert len(made) == 1
    assert made.of("bills") is None


def test_brokers_are_told_tags_and_their_hashes_or_the_sql() -> None:
    tagged = subscription_to("orders", tags="a || b", version=7)
    assert (tagged.tags, tagged.version) == (frozenset({"a", "b"}), 7)
    assert tagged.tag_codes == frozenset({97, 98})
    everything = subscription_to("orders")
    assert (everything.expression, everything.tags) == ("*", frozenset())
    chosen = subscription_to("orders", sql="price > 10")
    assert (chosen.expression, chosen.expression_type) == ("price > 10", SQL92)


async def test_an_unused_consumer_has_no_threads() -> None:
    before = threading.active_count()

    async def waits(one: Any) -> None: ...

    await outcome_of(waits)
    assert threading.active_count() <= before
    assert message(1).topic == "orders"


async def _yields(message: object) -> Any:
    yield message


def _takes_two(message: object, more: object) -> None: ...


def _takes_none() -> None: ...


class _TakesTwo:
    def handle(self, message: object, more: object) -> None: ...


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (_yields, "has a `yield`, so a call of it does nothing"),
        (lambda message: (yield message), "has a `yield`"),
        (_takes_none, "is called with one message: too many positional"),
        (_takes_two, "missing a required argument: 'more'"),
        (_TakesTwo, "missing a required argument: 'more'"),
    ],
)
def test_what_would_fail_for_every_message_is_refused_at_once(target: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        handler("t", target, tags=None, sql=None, batch=None)


@pytest.mark.parametrize("target", [print, functools.partial(_takes_two, more=1), lambda *_: None])
def test_whatever_takes_one_message_is_a_handler(target: Any) -> None:
    assert handler("t", target, tags=None, sql=None, batch=None).topic == "t"


async def _exits(message: object) -> None:
    sys.exit(3)


def _exits_in_a_thread(message: object) -> None:
    sys.exit(3)


@pytest.mark.parametrize("target", [_exits, _exits_in_a_thread])
async def test_a_handler_that_exits_has_failed_and_is_told_what_ends_consuming(
    target: Any,
) -> None:
    handlers = Handlers(1, "test")
    chosen = handler("t", target, tags=None, sql=None, batch=None)
    outcome = await handlers.call(chosen, messages(1))
    handlers.close()
    assert outcome.done == 0
    assert "consumer.stop()" in outcome.reason
