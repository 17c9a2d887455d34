"""Rounds of syncs that are done beside the store."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import StoreFailed, StoreFull
from rocketpipe.store.files.background_sync import run_steps_blocking
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.state.checkpoint import read_checkpoint
from rocketpipe.store.state.health import StoreState
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.late_worker import LateWorker
from rocketpipe.testing.simulation.small_store import ROOT, StepClock, everything, open_store, put


class Beside:
    """A store whose syncs are done when a test says so."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.clock = StepClock()
        self.worker = LateWorker()
        self.store = self.opened()

    def opened(self) -> MessageStore:
        store = open_store(self.disk, flush=FlushMode.ASYNC, clock=self.clock)
        self.worker = store.rounds.worker = LateWorker()
        return store

    def send(self, count: int, queue_id: int = 0) -> None:
        for _ in range(count):
            self.store.append([[put(queue_id=queue_id)]])

    def round_due(self) -> None:
        self.clock.leap(5000)
        self.store.dispatch()

    def noted(self) -> int:
        own = read_checkpoint(self.disk, ROOT / "checkpoint").own
        assert own is not None
        return own.derived

    def lose_power(self) -> MessageStore:
        self.disk.crash(keep="nothing")
        self.store = self.opened()
        self.store.dispatch()
        return self.store


@pytest.fixture
def beside() -> Beside:
    return Beside()


def syncs(disk: SimDisk, since: int) -> list[tuple[str, Path]]:
    return [step for step in disk.trace[since:] if step[0].startswith("sync")]


def test_whoever_dispatches_waits_for_no_sync(beside: Beside) -> None:
    beside.send(10)
    before = len(beside.disk.trace)
    beside.round_due()
    for _ in range(5):
        beside.send(1)
        beside.round_due()
    assert syncs(beside.disk, before) == []
    assert len(beside.worker) == 1  # one portion at a time
    assert beside.noted() == 0


def test_a_round_is_noted_when_its_last_portion_is_durable(beside: Beside) -> None:
    beside.send(10)
    beside.round_due()
    end = beside.store.positions.dispatched
    assert beside.worker.work()
    beside.send(3)
    beside.store.dispatch()
    assert beside.noted() == 0
    assert beside.worker.work()
    beside.store.dispatch()
    assert beside.noted() == beside.store.derived.synced_to == end


def test_the_log_is_durable_before_what_follows_from_it(beside: Beside) -> None:
    beside.send(10)
    beside.round_due()
    before = len(beside.disk.trace)
    assert beside.store.positions.durable == 0
    beside.worker.work()
    assert "commitlog" in str(syncs(beside.disk, before)[0][1])
    assert beside.store.positions.durable == beside.store.positions.written


def test_what_was_written_after_a_portion_was_begun_is_in_the_next_round(beside: Beside) -> None:
    beside.send(10)
    beside.round_due()
    beside.send(7)
    beside.send(5, queue_id=1)  # a queue that is not in the round
    beside.store.dispatch()
    beside.store.derived.queues.flush_pending()
    while beside.worker.work():
        beside.store.dispatch()
    beside.store.flush()
    count = len(everything(beside.store))
    assert count == 22
    assert len(everything(beside.lose_power())) == count


def test_a_round_that_was_not_finished_is_as_if_it_had_not_begun(beside: Beside) -> None:
    beside.send(10)
    beside.round_due()
    beside.worker.work()
    beside.store.dispatch()
    assert len(everything(beside.lose_power())) == 10


def test_a_sync_that_fails_beside_the_store_fails_the_store(beside: Beside) -> None:
    beside.send(10)
    beside.round_due()
    beside.disk.fail(only={"sync"}, path="consumequeue")
    beside.worker.work()
    with pytest.raises(StoreFailed):
        beside.store.dispatch()
    assert beside.store.state is StoreState.FAILED
    beside.store.dispatch()  # and nothing is synced again
    assert not beside.worker.work()


def test_a_log_that_cannot_be_synced_stops_the_round(beside: Beside) -> None:
    beside.send(10)
    beside.round_due()
    before = len(beside.disk.trace)
    beside.disk.fail(only={"sync"}, path="commitlog")
    beside.worker.work()
    synced = {path.parent.name for _, path in syncs(beside.disk, before)}
    assert synced == {"commitlog", "store", ""}  # and word was left of it
    beside.store.dispatch()
    assert beside.store.state is StoreState.FAILED
    assert beside.noted() == 0


def test_without_room_for_a_round_nothing_is_taken_until_there_is(beside: Beside) -> None:
    beside.send(10)
    beside.round_due()
    beside.disk.fail(only={"write"}, path="queues.json", errno=errno.ENOSPC, times=1)
    beside.worker.work()
    beside.store.dispatch()
    beside.worker.work()
    beside.store.dispatch()
    with pytest.raises(StoreFull):
        beside.send(1)
    while beside.worker.work():
        beside.store.dispatch()
    beside.send(1)
    assert beside.noted() > 0


def test_a_whole_round_can_be_waited_for_while_others_go_on(beside: Beside) -> None:
    beside.send(10)
    beside.round_due()
    beside.send(3)
    beside.store.dispatch()
    end = beside.store.positions.dispatched
    for wait in beside.store.rounds.syncing():
        beside.store.dispatch()  # as every send does
        wait()
        beside.store.dispatch()
    assert beside.store.derived.synced_to >= end


def test_whoever_waits_for_a_round_is_told_that_it_failed(beside: Beside) -> None:
    beside.send(10)
    beside.store.dispatch()
    beside.disk.fail(only={"sync"}, path="index")
    with pytest.raises(StoreFailed):
        run_steps_blocking(beside.store.rounds.syncing())


def test_whoever_waits_for_a_round_without_room_may_try_again(beside: Beside) -> None:
    beside.send(10)
    beside.store.dispatch()
    beside.disk.fail(only={"write"}, path="queues.json", errno=errno.ENOSPC, times=1)
    with pytest.raises(DiskError):
        run_steps_blocking(beside.store.rounds.syncing())
    run_steps_blocking(beside.store.rounds.syncing())
    assert beside.store.derived.synced_to == beside.store.positions.dispatched


def test_closing_finishes_the_round_that_is_under_way(beside: Beside) -> None:
    beside.send(10)
    beside.round_due()
    beside.store.close()
    assert not beside.worker.work()
    beside.disk.crash(keep="nothing")
    assert len(everything(beside.opened())) == 10


def test_a_store_that_is_let_go_writes_nothing_more(beside: Beside) -> None:
    beside.send(10)
    beside.round_due()
    before = len(beside.disk.trace)
    beside.store.abandon()
    assert not [step for step in beside.disk.trace[before:] if step[0] in ("write", "sync")]
