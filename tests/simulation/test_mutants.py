"""A check that cannot fail proves nothing: with a fault planted in the store, each must.

Every mutant is a mistake that a store could make and still pass all tests that do not crash it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.log import commit_log, records
from rocketpipe.store.log import end as log_end
from rocketpipe.store.log.batch_mark import read_mark
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.log.flusher import Flusher
from rocketpipe.store.log.recovery import LogRecovery
from rocketpipe.store.queues import entries
from rocketpipe.store.queues.consume_queue import ConsumeQueue
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.store.queues.queue_sums import Queue, QueueSums
from rocketpipe.store.state.positions import Positions
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.simulation import StoreRun

SEEDS = 300

Patch = pytest.MonkeyPatch


def acknowledge_before_the_sync(patch: Patch) -> None:
    patch.setattr(Flusher, "when_durable", lambda self, offset, done: done(None))


def show_before_the_sync(patch: Patch) -> None:
    patch.setattr(Positions, "confirmed", property(lambda self: self.written))


def call_it_durable_without_a_sync(patch: Patch) -> None:
    patch.setattr(CommitLog, "sync", lambda self, start, end: None)


def retry_a_failed_sync(patch: Patch) -> None:
    once = CommitLog.sync

    def sync(self: CommitLog, start: int, end: int) -> None:
        try:
            once(self, start, end)
        except DiskError:
            once(self, start, end)

    patch.setattr(CommitLog, "sync", sync)


def acknowledge_what_could_not_be_synced(patch: Patch) -> None:
    once = CommitLog.sync

    def sync(self: CommitLog, start: int, end: int) -> None:
        try:
            once(self, start, end)
        except DiskError:
            pass

    patch.setattr(CommitLog, "sync", sync)


def reuse_an_offset(patch: Patch) -> None:
    patch.setattr(QueueSet, "raise_next", lambda self, topic, queue_id, offset: None)


def take_torn_records_for_whole(patch: Patch) -> None:
    class Agreeing(int):
        __and__ = lambda self, other: self  # noqa: E731
        __eq__ = lambda self, other: True  # noqa: E731
        __ne__ = lambda self, other: False  # noqa: E731
        __hash__ = int.__hash__

    for module in (records, entries, log_end):
        patch.setattr(module, "crc32", lambda *data: Agreeing())
    for module in (records, log_end):
        patch.setattr(module, "_SEAL_NAME", b"never there")
    patch.setattr(CommitLog, "must_be_sealed", lambda log, at: False)
    patch.setattr(commit_log, "is_sealed", lambda record: True)
    patch.setattr(log_end, "read_mark", lambda record, sealed: read_mark(record, sealed=True))


def keep_half_a_group(patch: Patch) -> None:
    patch.setattr(log_end, "read_mark", lambda record, sealed: None)


def forget_to_sync_the_name_of_a_segment(patch: Patch) -> None:
    once = SimDisk.sync_directory

    def sync_directory(self: SimDisk, directory: Path) -> None:
        if directory.name != "commitlog":
            once(self, directory)

    patch.setattr(SimDisk, "sync_directory", sync_directory)


def trust_the_cache_after_a_failed_sync(patch: Patch) -> None:
    patch.setattr(LogRecovery, "_distrust_cache", lambda self: None)
    # Nor is anything written again on opening, which would mend it.
    patch.setattr(LogRecovery, "_settle", lambda self, end: self._log.run.truncate(end, None))


def say_more_than_a_round_has_synced(patch: Patch) -> None:
    once = QueueSums.text

    def text(self: QueueSums, to: LogOffset, queues: Mapping[Queue, ConsumeQueue]) -> bytes:
        return once(self, max([to, *(queue.log_end for queue in queues.values())]), queues)

    patch.setattr(QueueSums, "text", text)


def take_queues_that_came_during_a_round_for_synced(patch: Patch) -> None:
    patch.setattr(ConsumeQueue, "find", lambda self, at: self.max_offset)


MUTANTS: dict[Callable[[Patch], None], FlushMode] = {
    acknowledge_before_the_sync: FlushMode.SYNC,
    acknowledge_what_could_not_be_synced: FlushMode.SYNC,
    show_before_the_sync: FlushMode.SYNC,
    call_it_durable_without_a_sync: FlushMode.ASYNC,
    retry_a_failed_sync: FlushMode.SYNC,
    reuse_an_offset: FlushMode.ASYNC,
    take_torn_records_for_whole: FlushMode.ASYNC,
    keep_half_a_group: FlushMode.ASYNC,
    forget_to_sync_the_name_of_a_segment: FlushMode.SYNC,
    trust_the_cache_after_a_failed_sync: FlushMode.SYNC,
}


#: Mistakes that show while syncs are done beside the store.
LATE_MUTANTS = (say_more_than_a_round_has_synced, take_queues_that_came_during_a_round_for_synced)


def first_red_seed(flush: FlushMode, *, late: bool = False) -> int | None:
    """The first seed that notices; a store that runs into its own fault was noticed as well."""
    for seed in range(SEEDS):
        try:
            StoreRun(seed, flush, late=late).run()
        except (AssertionError, StoreError):
            return seed
    return None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_fault_turns_the_run_red(
    mutant: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    assert first_red_seed(MUTANTS[mutant]) is not None


@pytest.mark.parametrize("flush", FlushMode)
@pytest.mark.parametrize("mutant", LATE_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_fault_in_a_round_of_syncs_turns_the_run_red(
    mutant: Callable[[Patch], None], flush: FlushMode, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    assert first_red_seed(flush, late=True) is not None
