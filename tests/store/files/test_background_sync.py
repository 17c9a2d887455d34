"""What is done beside the thread that appends and answers."""

from __future__ import annotations

import threading

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.store.errors import StoreClosed
from rocketpipe.store.files.background_sync import (
    PendingSync,
    Steps,
    Worker,
    WorkerThread,
    run_steps_blocking,
)


def counted(worker: Worker, done: list[str]) -> Steps[int]:
    for name in ("first", "second"):
        work = worker.do(lambda name=name: done.append(name))
        while not work.done:
            yield work.wait
    return len(done)


def test_steps_are_carried_out_one_after_the_other() -> None:
    done: list[str] = []
    worker = WorkerThread("test")
    assert run_steps_blocking(counted(worker, done)) == 2
    assert run_steps_blocking(counted(Worker(), done)) == 4
    assert done == ["first", "second"] * 2
    worker.stop()


def test_what_a_thread_is_given_is_done_in_order_and_elsewhere() -> None:
    worker, done = WorkerThread("test"), []
    for number in range(100):
        last = worker.do(lambda number=number: done.append((number, threading.get_ident())))
    last.wait()
    assert [number for number, _ in done] == list(range(100))
    assert threading.get_ident() not in {thread for _, thread in done}
    worker.stop()


def test_what_goes_wrong_is_told_and_does_not_end_the_thread() -> None:
    worker = WorkerThread("test")
    bad = worker.do(lambda: {}["nothing"])
    good = worker.do(lambda: None)
    good.wait()
    assert bad.done
    assert isinstance(bad.error, KeyError)
    assert good.error is None
    worker.stop()


def test_a_thread_that_is_stopped_finishes_what_it_was_given() -> None:
    worker, done, go = WorkerThread("test"), [], threading.Event()
    worker.do(lambda: go.wait(PATIENCE_S))
    worker.do(lambda: done.append("given before"))
    go.set()
    worker.stop()
    assert done == ["given before"]
    assert worker.do(lambda: done.append("given behind")).done
    assert done == ["given before", "given behind"]


def test_a_thread_that_drops_its_work_finishes_only_what_is_under_way() -> None:
    worker, done = WorkerThread("test"), []
    begun, go = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        go.wait(PATIENCE_S)
        done.append("first")

    worker.do(first)
    assert begun.wait(PATIENCE_S)
    second = worker.do(lambda: done.append("second"))
    # The first goes on once the second is over: dropped, for it cannot be done before.
    watching = threading.Thread(target=lambda: (second.wait(), go.set()))
    watching.start()
    worker.drop()
    watching.join()
    assert done == ["first"]
    assert second.done
    assert isinstance(second.error, StoreClosed)


def test_a_portion_is_noted_or_undone() -> None:
    told: list[str] = []

    def refuse() -> None:
        raise OSError

    def noting(name: str, wait: object = None) -> PendingSync:
        return PendingSync(
            refuse if wait else lambda: told.append(f"{name} waited"),
            lambda: told.append(f"{name} noted"),
            lambda: told.append(f"{name} undone"),
        )

    PendingSync.of([noting("a"), noting("b")]).now()
    assert told == ["a waited", "b waited", "a noted", "b noted"]
    told.clear()
    with pytest.raises(OSError):
        PendingSync.of([noting("a"), noting("b", refuse)]).now()
    assert told == ["a waited", "a undone", "b undone"]
