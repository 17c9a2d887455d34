"""One run: a role at a time, tables saved at its end, and whether something may be missing."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.broker.support.replica_parts import Parts, replica_parts

from rocketpipe.broker.replication.epochs import EpochTable
from rocketpipe.broker.roles.follower_duties import follower_role
from rocketpipe.model.topic import TopicSettings
from rocketpipe.store.config import FlushMode
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout


class Machine:
    """Replicas in one directory, on a machine that may crash."""

    def __init__(self, root: Path, flush: FlushMode = FlushMode.ASYNC) -> None:
        self.root = root
        self._flush = flush
        self._starts = 0

    def crash(self) -> None:
        self._starts += 1

    def run(self) -> AbstractAsyncContextManager[Parts]:
        return replica_parts(self.root, flush=self._flush, boot_id=lambda: str(self._starts))

    async def killed(self) -> None:
        """A run that ended without closing its store."""
        async with self.run() as parts:
            await parts.lead(parts.run.joined.epoch + 1)
            await parts.send()
        StoreLayout(self.root).abort.touch()

    async def is_clean(self) -> bool:
        async with self.run() as parts:
            return parts.run.is_clean


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


async def test_a_killed_process_lost_nothing_a_machine_that_crashed_may_have(
    machine: Machine,
) -> None:
    await machine.killed()
    assert await machine.is_clean()
    await machine.killed()
    machine.crash()
    assert not await machine.is_clean()
    assert not await machine.is_clean(), "it is still lost, however well that run ended"


async def test_a_machine_that_was_shut_down_lost_nothing(machine: Machine) -> None:
    assert await machine.is_clean()
    machine.crash()
    assert await machine.is_clean()


async def test_what_is_synced_before_it_is_acknowledged_is_not_lost(tmp_path: Path) -> None:
    machine = Machine(tmp_path, FlushMode.SYNC)
    await machine.killed()
    machine.crash()
    assert await machine.is_clean()


async def test_who_has_everything_again_is_clean_from_then_on(machine: Machine) -> None:
    await machine.killed()
    machine.crash()
    async with machine.run() as parts:
        parts.run.became_clean()
        assert parts.run.is_clean
    assert await machine.is_clean()


async def test_epochs_that_the_log_has_not_are_forgotten(tmp_path: Path) -> None:
    async with replica_parts(tmp_path) as parts:
        await parts.lead(1)
        end = parts.end
    table = EpochTable(Disk(), StoreLayout(tmp_path).epochs)
    table.load()
    table.append(2, end + 1000)
    async with replica_parts(tmp_path) as parts:
        assert [each.epoch for each in parts.run.epochs.entries] == [1]


async def test_tables_are_saved_at_its_end(tmp_path: Path) -> None:
    async with replica_parts(tmp_path) as parts:
        parts.core.tables.topics.update(TopicSettings(name="made"), 1)
    async with replica_parts(tmp_path) as parts:
        assert parts.core.tables.topics.get("made") is not None


async def test_a_role_that_cannot_be_built_leaves_none(tmp_path: Path) -> None:
    async with replica_parts(tmp_path) as parts:
        await parts.run.leave("a test wants another")
        assert not parts.run.serves

        def loops(serving: object) -> dict[str, object]:
            raise RuntimeError("no loops")

        block = follower_role(parts.core, lambda: None, lambda: False, me=1)
        with pytest.raises(RuntimeError, match="no loops"):
            await parts.run.enter(block, loops)  # type: ignore[arg-type]
        assert not parts.run.serves
        await parts.replica.follow(None)
        assert parts.run.serves
