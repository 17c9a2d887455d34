"""The oldest part of the log, taken away in steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.files.background_sync import run_steps_blocking
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.late_worker import LateWorker
from rocketpipe.testing.simulation.small_store import everything, open_store, put


def segment_bases(store: MessageStore) -> list[LogOffset]:
    return [LogOffset(segment.base) for segment in store.commit_log.run.segments]


def filled(disk: SimDisk) -> MessageStore:
    store = open_store(disk)
    store.rounds.worker = LateWorker()
    for _ in range(100):
        store.append([[put()]])
    store.flush()
    store.dispatch()
    return store


def test_between_two_steps_the_store_shows_only_what_the_log_has() -> None:
    store = filled(SimDisk())
    bases = segment_bases(store)
    steps = store.removal.before(bases[3])
    sent = 100
    for wait in steps:
        shown = everything(store)
        assert min(shown) == store.first_offset
        gone = min(int.from_bytes(record[20:28], "big") for record in shown.values())
        assert len(shown) == sent - gone
        assert store.min_offset("plain", 0) <= gone
        store.append([[put()]])
        store.dispatch()
        sent += 1
        wait()
    assert store.first_offset == bases[3]
    assert len(everything(store)) == sent - store.min_offset("plain", 0)


def test_one_segment_goes_before_the_next() -> None:
    store = filled(SimDisk())
    bases = segment_bases(store)
    seen = set()
    for wait in store.removal.before(bases[2]):
        seen.add(store.first_offset)
        wait()
    assert seen == set(bases[:3])


def test_what_somebody_holds_in_the_meantime_stays() -> None:
    store = filled(SimDisk())
    bases = segment_bases(store)
    asked = []

    @contextmanager
    def permit() -> Iterator[bool]:
        asked.append(store.first_offset)
        yield len(asked) == 1

    assert run_steps_blocking(store.removal.before(bases[3], permit)) == 1
    assert store.first_offset == bases[1]


def test_a_segment_that_cannot_be_removed_is_kept() -> None:
    disk = SimDisk()
    store = filled(disk)
    bases = segment_bases(store)
    disk.fail(only={"remove"}, path="commitlog")
    with pytest.raises(DiskError):
        store.delete_before(bases[2])
    assert store.first_offset == bases[0]
    assert store.delete_before(bases[2]) == 2


def test_whoever_gives_up_half_way_leaves_a_store_that_is_whole() -> None:
    disk = SimDisk()
    store = filled(disk)
    bases = segment_bases(store)
    steps = store.removal.before(bases[3])
    while store.first_offset == bases[0]:
        next(steps)()
    steps.close()
    assert store.first_offset == bases[1]
    left = len(everything(store))
    disk.crash(keep="nothing")
    again = open_store(disk)
    assert again.first_offset == bases[1]
    assert len(everything(again)) == left
    assert again.max_offset("plain", 0) == store.max_offset("plain", 0)


def test_queues_go_on_from_where_messages_ended_that_are_gone() -> None:
    disk = SimDisk()
    store = filled(disk)
    store.delete_before(LogOffset(store.positions.durable))
    disk.crash(keep="nothing")
    again = open_store(disk)
    again.dispatch()
    assert again.max_offset("plain", 0) == 100
