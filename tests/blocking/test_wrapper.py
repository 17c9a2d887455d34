"""Blocking faces: made of the asynchronous thing, open only inside their ``with``."""

from __future__ import annotations

import asyncio
import inspect
import threading
from types import TracebackType
from typing import Any, Self

import pytest

from rocketpipe.blocking import Producer
from rocketpipe.blocking.background import Life, shared
from rocketpipe.blocking.wrapper import Client, blocking, passed_on
from rocketpipe.errors import SessionClosed


class Counter:
    """Something asynchronous that knows on which thread it is used."""

    def __init__(self, *, opens: bool = True) -> None:
        self.count = 0
        self.threads: set[str] = set()
        self.left_with: type[BaseException] | None = None
        self._opens = opens

    async def __aenter__(self) -> Self:
        if not self._opens:
            raise OSError("it does not open")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.left_with = kind

    async def add(self, number: int, *, times: int = 1) -> int:
        """Count on."""
        await asyncio.sleep(0)
        self.threads.add(threading.current_thread().name)
        self.count += number * times
        return self.count

    def reset(self, to: int = 0) -> None:
        """Begin anew."""
        self.threads.add(threading.current_thread().name)
        self.count = to

    async def stuck(self, face: BlockingCounter) -> None:
        face.reset(7)


class BlockingCounter(Client[Counter]):
    def __init__(self, inner: Counter) -> None:
        super().__init__(inner, Life("the counter"))

    add = blocking(Counter.add)
    reset = passed_on(Counter.reset)
    stuck = blocking(Counter.stuck)


def test_calls_run_on_the_loop_and_give_their_results() -> None:
    inner = Counter()
    with BlockingCounter(inner) as counter:
        assert counter.add(2, times=3) == 6
        counter.reset(1)
        assert counter.add(1) == 2
    assert inner.threads == {"rocketpipe"}
    assert inner.left_with is None


def test_signature_and_docstring_are_those_of_the_asynchronous_method() -> None:
    assert inspect.signature(BlockingCounter.add) == inspect.signature(Counter.add)
    assert BlockingCounter.add.__doc__ == "Count on."
    assert not inspect.iscoroutinefunction(BlockingCounter.add)


def test_outside_of_its_with_a_client_says_that_it_is_not_open() -> None:
    counter = BlockingCounter(Counter())
    with pytest.raises(SessionClosed, match="the counter is not open: use it inside its 'with'"):
        counter.add(1)
    with counter:
        counter.add(1)
    with pytest.raises(SessionClosed, match="the counter"):
        counter.add(1)


def test_what_only_tells_works_before_and_after_too() -> None:
    inner = Counter()
    counter = BlockingCounter(inner)
    counter.reset(5)
    assert inner.count == 5
    assert inner.threads == {threading.current_thread().name}


def test_what_only_tells_works_on_the_loop_itself() -> None:
    inner = Counter()
    with BlockingCounter(inner) as counter:
        counter.stuck(counter)
    assert inner.count == 7


def test_a_client_hears_why_its_with_was_left() -> None:
    inner = Counter()
    with pytest.raises(KeyError), BlockingCounter(inner):
        raise KeyError("x")
    assert inner.left_with is KeyError


def test_a_client_that_does_not_open_holds_no_thread() -> None:
    counter = BlockingCounter(Counter(opens=False))
    with pytest.raises(OSError, match="it does not open"), counter:
        raise AssertionError("it did open")
    life = Life("another")
    loop = shared.begin(life)
    shared.end(life)
    assert loop.is_over


def test_wrong_arguments_are_refused_before_anything_runs() -> None:
    with BlockingCounter(Counter()) as counter, pytest.raises(TypeError, match="nonsense"):
        counter.add(1, nonsense=2)  # type: ignore[call-arg]


def test_it_may_be_opened_and_closed_by_hand() -> None:
    face = BlockingCounter(Counter())
    face.close()
    for _ in range(2):
        assert not face.is_open
        assert face.open() is face
        assert face.is_open
        face.close()
        face.close()
    with face:
        face.close()
    with pytest.raises(SessionClosed, match="the counter"):
        face.add(1)


async def test_a_block_of_the_other_face_is_told_which_one_it_is() -> None:
    client: Any = Producer("127.0.0.1:1")
    with pytest.raises(TypeError, match="a blocking Producer: say `with`"):
        async with client:
            pass
