"""Doing something again and again."""

from __future__ import annotations

import threading

from rocketpipe.jobs.schedule import repeat


class Turned:
    """A clock that only waiting and working move."""

    def __init__(self, took: list[float]) -> None:
        self.now, self.took = 1_000.0, iter(took)
        self.began: list[float] = []
        self.stop = threading.Event()

    def work(self) -> None:
        self.began.append(self.now - 1_000.0)
        self.now += next(self.took)

    def wait(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        if len(self.began) == 4:
            self.stop.set()


def test_moments_do_not_drift_and_runs_do_not_overlap() -> None:
    clock = Turned([1.0, 9.9, 25.0, 10.0])
    done = repeat(clock.work, 10.0, clock.stop, monotonic=lambda: clock.now, wait=clock.wait)
    assert done == 4
    assert clock.began == [0.0, 10.0, 20.0, 50.0]


def test_it_ends_when_it_is_told_to() -> None:
    stop = threading.Event()
    assert repeat(stop.set, 3_600.0, stop) == 1
