"""A line behind a descriptor: readable while there is something, and only then."""

from __future__ import annotations

import select
import threading

import pytest

from rocketpipe.integrations.kombu.arrivals import Arrivals


def readable(arrivals: Arrivals[int]) -> bool:
    return bool(select.select([arrivals], [], [], 0)[0])


def test_it_is_readable_while_there_is_something() -> None:
    arrivals: Arrivals[int] = Arrivals()
    assert not readable(arrivals)
    assert arrivals.take() is None
    assert not arrivals.wait(0)
    for number in range(3):
        arrivals.add(number)
    assert len(arrivals) == 3
    for number in range(3):
        assert readable(arrivals)
        assert arrivals.wait(0)
        assert arrivals.take() == number
    assert not readable(arrivals)
    arrivals.close()


def test_who_waits_is_woken_by_another_thread() -> None:
    arrivals: Arrivals[int] = Arrivals()
    adds = threading.Thread(target=arrivals.add, args=(7,))
    adds.start()
    assert arrivals.wait(None)
    assert arrivals.take() == 7
    adds.join()
    arrivals.close()


def test_an_error_is_raised_for_who_takes_it() -> None:
    arrivals: Arrivals[int] = Arrivals()
    arrivals.add(OSError("gone"))
    arrivals.add(1)
    with pytest.raises(OSError, match="gone"):
        arrivals.take()
    assert arrivals.take() == 1
    arrivals.close()


def test_what_nobody_took_is_given_at_the_end() -> None:
    arrivals: Arrivals[int] = Arrivals()
    arrivals.add(1)
    arrivals.add(OSError())
    arrivals.add(2)
    assert arrivals.close() == [1, 2]
    arrivals.add(3)
    assert arrivals.close() == []


def test_what_nobody_wants_any_more_is_taken_out_of_the_line() -> None:
    arrivals: Arrivals[int] = Arrivals()
    assert arrivals.withdraw(lambda _: True) == []
    for number in range(4):
        arrivals.add(number)
    assert arrivals.withdraw(lambda number: number % 2 == 1) == [1, 3]
    assert arrivals.take() == 0
    assert readable(arrivals)
    assert arrivals.withdraw(lambda _: True) == [2]
    assert not readable(arrivals)
    assert arrivals.take() is None
    arrivals.add(5)
    assert readable(arrivals)
    arrivals.close()
    assert not arrivals.add(6)
