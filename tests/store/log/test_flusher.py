"""What was written becomes durable, and who waits is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.errors import StoreClosed, StoreFailed
from rocketpipe.store.log.commit_log import CommitLog
from rocketpipe.store.log.flusher import Flusher
from rocketpipe.store.state.checkpoint import Checkpoint
from rocketpipe.store.state.health import Health
from rocketpipe.store.state.positions import Positions
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")


class Written:
    """A log of plain bytes, with a flusher behind it."""

    def __init__(self, flush: FlushMode = FlushMode.SYNC, **changes: Any) -> None:
        self.disk = SimDisk()
        self.disk.make_directory(ROOT)
        self.log = CommitLog(self.disk, ROOT / "commitlog", 4096)
        self.positions = Positions(flush)
        self.health = Health()
        self.checkpoint = Checkpoint(self.disk, ROOT / "checkpoint")
        self.clock = ManualClock()
        self.flusher = Flusher(
            self.log,
            self.positions,
            self.checkpoint,
            self.health,
            StoreConfig(root=ROOT, flush=flush, **changes),
            self.clock,
            self.fail,
        )
        self.told: list[tuple[int, StoreError | None]] = []

    def fail(self, reason: str) -> None:
        self.health.fail(reason)
        self.flusher.fail(StoreFailed(reason))

    def write(self, size: int) -> int:
        start = self.positions.written
        self.log.make_room(start, start + size)
        at = start
        while at < start + size:
            part = min(start + size, at - at % 4096 + 4096) - at
            self.log.append([(at, b"x" * part)])
            at = LogOffset(at + part)
        self.positions.written = LogOffset(start + size)
        self.flusher.wrote(start + size, start, stored_ms=start + 1)
        return start + size

    def wait(self, offset: int) -> None:
        self.flusher.when_durable(offset, lambda error: self.told.append((offset, error)))


def test_one_sync_serves_all_who_wait_and_nobody_else() -> None:
    written = Written()
    first, second = written.write(100), written.write(100)
    written.wait(first)
    written.wait(second)
    written.wait(second + 1)
    syncs = written.disk.operations
    assert written.flusher.flush_once()
    assert written.told == [(first, None), (second, None)]
    assert written.positions.durable == second
    assert written.disk.operations - syncs <= 4  # one sync, and the page of the checkpoint
    assert not written.flusher.flush_once()


def test_who_asks_for_what_is_durable_is_told_at_once() -> None:
    written = Written()
    end = written.write(100)
    written.flusher.flush_once()
    written.wait(end)
    assert written.told == [(end, None)]


def test_every_segment_that_was_written_to_is_synced() -> None:
    written = Written()
    end = written.write(10_000)
    written.flusher.flush_once()
    written.disk.crash()
    content = b"".join(
        written.disk.content(ROOT / "commitlog" / f"{base:020d}") for base in (0, 4096, 8192)
    )
    assert content == b"x" * end + bytes(3 * 4096 - end)


def test_the_checkpoint_tells_how_far_with_every_flush() -> None:
    written = Written()
    written.write(100)
    end = written.write(50)
    assert written.checkpoint.data.own is None
    written.flusher.flush_once()
    own = written.checkpoint.data.own
    assert own is not None
    assert (own.confirmed, own.last_record) == (end, 100)
    assert written.checkpoint.data.log_ms == 101


async def test_the_checkpoint_shows_what_is_durable_and_acknowledged() -> None:
    written = Written()
    first = written.write(100)
    written.positions.begin_acknowledged(LogOffset(first))
    end = written.write(50)
    written.flusher.flush_once()
    data = written.checkpoint.data
    assert data.own is not None
    assert (data.confirmed, data.own.confirmed) == (first, end)
    written.positions.acknowledged = LogOffset(end)
    written.flusher.publish()  # so soon after the start that it can wait
    assert written.checkpoint.data.confirmed == first
    await written.clock.advance(1000)
    written.flusher.publish()
    assert written.checkpoint.data.confirmed == end
    pages = written.disk.operations
    await written.clock.advance(1000)
    written.flusher.publish()
    assert written.disk.operations == pages


def test_a_failed_sync_is_never_tried_again_and_everybody_is_told() -> None:
    written = Written()
    durable = written.write(100)
    written.flusher.flush_once()
    end = written.write(100)
    written.wait(end)
    written.disk.fail(at=1, only=("sync",))
    assert not written.flusher.flush_once()
    written.disk.heal()
    operations = written.disk.operations
    assert not written.flusher.flush_once()
    written.wait(end)
    assert written.disk.operations == operations
    assert [type(error) for _, error in written.told] == [StoreFailed, StoreFailed]
    assert written.positions.durable == durable
    written.wait(durable)
    assert written.told[-1] == (durable, None)  # what was durable before is so still


def test_a_store_that_failed_elsewhere_is_not_synced() -> None:
    written = Written()
    end = written.write(100)
    written.wait(end)
    written.health.fail("write: EIO")
    assert not written.flusher.flush_once()
    assert written.positions.durable == 0
    assert isinstance(written.told[0][1], StoreFailed)


def test_no_more_than_the_bound_is_ever_unsynced() -> None:
    written = Written(FlushMode.ASYNC, unflushed_bytes=1000)
    written.write(900)
    assert written.positions.durable == 0
    end = written.write(200)
    assert written.positions.durable == end


def test_an_append_that_had_to_sync_and_could_not_is_refused() -> None:
    written = Written(FlushMode.ASYNC, unflushed_bytes=1000)
    written.write(1)
    written.disk.fail(at=1, only=("sync",))
    with pytest.raises(StoreFailed):
        written.write(1001)


def test_a_callback_that_raises_does_not_keep_others_from_being_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written = Written()
    end = written.write(10)

    def broken(error: StoreError | None) -> None:
        raise RuntimeError("broken")

    written.flusher.when_durable(end, broken)
    written.wait(end)
    written.flusher.flush_once()
    assert written.told == [(end, None)]
    assert "failed to be told" in caplog.text


def test_stopping_flushes_once_more_and_ends_all_waits() -> None:
    written = Written()
    end = written.write(10)
    written.wait(end)
    written.wait(end + 1)
    written.flusher.stop()
    assert written.positions.durable == end
    assert written.told[0] == (end, None)
    assert isinstance(written.told[1][1], StoreClosed)


@pytest.fixture(params=[FlushMode.SYNC, FlushMode.ASYNC])
def running(request: pytest.FixtureRequest) -> Iterator[Written]:
    written = Written(request.param, flush_interval_ms=5)
    written.flusher.start()
    yield written
    written.flusher.halt()


def test_the_thread_syncs_by_itself(running: Written) -> None:
    for _ in range(50):
        done = threading.Event()
        end = running.write(10)
        running.flusher.when_durable(end, lambda error, done=done: done.set())
        assert done.wait(PATIENCE_S)
        assert running.positions.durable >= end


def test_the_thread_syncs_what_nobody_waits_for(running: Written) -> None:
    end = running.write(10)
    turn = threading.Event()
    for _ in range(20_000):
        if running.positions.durable == end:
            break
        turn.wait(0.005)
    assert running.positions.durable == end


def test_the_thread_ends_with_a_failure(running: Written) -> None:
    thread = running.flusher._thread
    assert thread is not None
    running.log.make_room(0, 10)
    running.disk.fail(at=1, only=("sync",))
    failed = threading.Event()
    running.flusher.when_durable(running.write(10), lambda error: failed.set())
    assert failed.wait(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
