"""Owners of queues outlive the broker, and nobody else gets their queues meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketpipe.broker.tables.lock_journal import LOCKS_FILE, TIDY_EVERY_MS, LockJournal
from rocketpipe.broker.tables.queue_locks import LOCK_MS, QueueLocks
from rocketpipe.model.route import MessageQueue
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk


def queue(queue_id: int) -> MessageQueue:
    return MessageQueue(topic="t", broker_name="b", queue_id=queue_id)


class Life:
    """One life of a broker, as far as its locks go; it ends by a kill."""

    def __init__(self, directory: Path, *, fresh: bool = False, disk: Disk | None = None) -> None:
        self.clock = ManualClock()
        self.locks = QueueLocks()
        self.journal = LockJournal(disk or Disk(), directory / LOCKS_FILE, self.locks, self.clock)
        self.journal.load(fresh=fresh)

    async def lock(self, client_id: str, *queue_ids: int, group: str = "g") -> list[int]:
        queues = [queue(each) for each in queue_ids]
        owned = self.locks.lock(group, client_id, queues, self.clock.monotonic_ms())
        await self.journal.kept([(group, each) for each in owned])
        return sorted(each.queue_id for each in owned)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "config"


@contextmanager
def unusable(directory: Path) -> Iterator[None]:
    """Nothing can be made or opened in it."""
    hidden = directory.with_name("hidden")
    directory.rename(hidden)
    directory.write_bytes(b"")
    yield
    directory.unlink()
    hidden.rename(directory)


async def test_after_a_kill_a_queue_is_its_owners_for_a_locks_life(directory: Path) -> None:
    life = Life(directory, fresh=True)
    assert await life.lock("a", 0, 1) == [0, 1]
    life = Life(directory)
    assert await life.lock("b", 0, 1, 2) == [2], "what nobody owned is free at once"
    assert await life.lock("a", 0) == [0], "its owner goes on at once"
    await life.clock.advance(LOCK_MS)
    assert await life.lock("b", 0, 1) == []
    await life.clock.advance(1)
    assert await life.lock("b", 1) == [1], "the owner is gone"


async def test_what_was_given_back_is_free_after_a_restart(directory: Path) -> None:
    life = Life(directory, fresh=True)
    await life.lock("a", 0, 1)
    life.locks.unlock("g", "a", [queue(0)])
    await life.journal.kept()
    life = Life(directory)
    assert await life.lock("b", 0, 1) == [0]


async def test_the_last_owner_counts_over_many_lives(directory: Path) -> None:
    life = Life(directory, fresh=True)
    for client_id in "abcd":
        assert await life.lock(client_id, 0) == [0]
        await life.clock.advance(LOCK_MS + 1)
    for _ in range(3):
        life = Life(directory)
        assert await life.lock("a", 0) == []
        assert await life.lock("d", 0) == [0]


async def test_renewals_write_nothing(directory: Path) -> None:
    life = Life(directory, fresh=True)
    await life.lock("a", 0)
    before = life.journal.path.stat()
    for _ in range(5):
        await life.clock.advance(LOCK_MS // 3)
        await life.lock("a", 0)
    after = life.journal.path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


async def test_a_torn_last_line_was_told_nobody(directory: Path) -> None:
    life = Life(directory, fresh=True)
    await life.lock("a", 0)
    whole = life.journal.path.read_bytes()
    await life.lock("b", 1)
    both = life.journal.path.read_bytes()
    for end in range(len(whole), len(both)):
        life.journal.path.write_bytes(both[:end])
        life = Life(directory)
        assert await life.lock("c", 0, 1) == [1]


@pytest.mark.parametrize("damage", ["missing", "a flipped bit", "no head", "empty"])
async def test_where_owners_are_not_known_nobody_else_gets_a_queue_for_a_locks_life(
    directory: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    life = Life(directory, fresh=True)
    await life.lock("a", 0)
    await life.lock("a", 1)
    path = life.journal.path
    text = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        first, second, third = text.splitlines(keepends=True)
        changed = {
            "a flipped bit": first + second.replace(b"t", b"u", 1) + third,
            "no head": second + third,
            "empty": b"",
        }
        path.write_bytes(changed[damage])
    life = Life(directory)
    assert "nobody knows who owned" in caplog.text
    assert await life.lock("b", 0, 1, 2) == []
    if damage == "a flipped bit":
        assert await life.lock("a", 0, 1) == [1], "a line that can be read counts"
    life.locks.unlock("g", "a", [queue(1)])
    await life.journal.kept()
    await life.clock.advance(LOCK_MS)
    life = Life(directory)
    assert await life.lock("b", 0, 1, 2) == [], "killed meanwhile it is not known either"
    await life.clock.advance(LOCK_MS + 1)
    assert await life.lock("b", 0, 1, 2) == [0, 1, 2]
    life = Life(directory)
    assert await life.lock("c", 0, 3) == [3], "from here on it is known"


async def test_a_file_that_the_disk_cannot_read_keeps_no_broker_from_starting() -> None:
    disk, directory = SimDisk(), Path("/store/config")
    life = Life(directory, fresh=True, disk=disk)
    assert await life.lock("a", 0) == [0]
    disk.fail(only=["read"], path=LOCKS_FILE)
    life = Life(directory, disk=disk)
    assert await life.lock("b", 0) == []
    await life.clock.advance(LOCK_MS + 1)
    assert await life.lock("b", 0) == [0]


async def test_what_is_over_is_forgotten_on_disk_too(directory: Path) -> None:
    life = Life(directory, fresh=True)
    await life.lock("a", 0)
    tidying = asyncio.create_task(life.journal.keep_tidy())
    await life.clock.advance(0)
    while life.locks.holds_any("g", life.clock.monotonic_ms()):
        await life.clock.advance(TIDY_EVERY_MS)
    tidying.cancel()
    await asyncio.gather(tidying, return_exceptions=True)
    life = Life(directory)
    assert await life.lock("b", 0) == [0]


async def test_the_file_does_not_grow_with_every_change(directory: Path) -> None:
    life = Life(directory, fresh=True)
    await life.lock("a", *range(10))
    least = life.journal.path.stat().st_size
    for _ in range(600):
        life.locks.unlock("g", "a", [queue(0), queue(1)])
        await life.lock("a", 0, 1)
    lines = life.journal.path.read_bytes().splitlines()
    assert len(lines) <= 2 * 10 + 1000 + 4
    life = Life(directory)
    assert life.journal.path.stat().st_size == least
    assert await life.lock("b", *range(10)) == []


async def test_all_who_ask_at_once_share_a_write(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(directory, fresh=True)
    writes = list[int]()
    append = life.journal._append

    def counted(lines: list[bytes]) -> None:
        writes.append(len(lines))
        append(lines)

    monkeypatch.setattr(life.journal, "_append", counted)
    await asyncio.gather(*(life.lock("a", each) for each in range(100)))
    assert sum(writes) == 100
    assert len(writes) <= 2


async def test_an_owner_that_cannot_be_saved_is_told_so_until_it_is(directory: Path) -> None:
    life = Life(directory, fresh=True)
    await life.lock("a", 0)
    with unusable(directory):
        for _ in range(2):
            with pytest.raises(DiskError):
                await life.lock("b", 1)
    assert await life.lock("c", 1) == [], "it is b's, though b does not know"
    assert await life.lock("b", 1) == [1]
    life = Life(directory)
    assert await life.lock("c", 0, 1) == []


async def test_who_renews_does_not_depend_on_the_disk(directory: Path) -> None:
    life = Life(directory, fresh=True)
    await life.lock("a", 0)
    with unusable(directory):
        with pytest.raises(DiskError):
            await life.lock("b", 1)
        assert await life.lock("a", 0) == [0]
        with pytest.raises(DiskError):
            await life.lock("b", 1)
        with pytest.raises(DiskError):
            await life.lock("a", 0, 2)
    assert await life.lock("b", 1) == [1]
    life = Life(directory)
    assert await life.lock("c", 0, 1) == []


@pytest.mark.parametrize("seed", range(20))
async def test_whoever_was_told_owns_it_after_a_power_cut(seed: int) -> None:
    disk = SimDisk(seed=seed)
    directory = Path("/store/config")
    life = Life(directory, fresh=True, disk=disk)
    for number in range(seed):
        assert await life.lock(f"c{number}", number) == [number]
    life.locks.unlock("g", "c0", [queue(0)])  # and nobody was told
    disk.crash()
    life = Life(directory, disk=disk)
    assert await life.lock("other", *range(1, seed)) == []
