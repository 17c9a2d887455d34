"""A follower dies at every operation of taking a log in, and goes on where its log ends."""

from __future__ import annotations

import random

import pytest
from tests.store.support.leader_log import (
    files_of,
    groups_for,
    log_bytes,
    portions,
    random_groups,
)

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.simulation.disk import CHANGES, SimDisk
from rocketpipe.testing.simulation.sim_fault import PowerCut
from rocketpipe.testing.simulation.small_store import open_store

SEED = 21
GROUPS = 14


class Follower:
    """Takes a log in, and remembers what it has told others."""

    def __init__(self, disk: SimDisk, data: bytes, flush: FlushMode) -> None:
        self.disk = disk
        self.data = data
        self.flush = flush
        #: The ends that were reported: as written, and as synced; and what was shown.
        self.written = self.synced = self.shown = 0
        self.opened: MessageStore | None = None

    def open(self) -> MessageStore:
        self.opened = open_store(self.disk, replicated=True, flush=self.flush)
        return self.opened

    def run(self) -> None:
        """From where the log ends up to the end of the leader's."""
        store = self.open()
        at = int(store.positions.written)
        groups = groups_for(store)
        for number, portion in enumerate(portions(self.data[at:], random.Random(at))):
            piece = groups.add(portion)
            if piece is None:
                continue
            store.append_raw(piece)
            self.written = int(piece.end)
            if number % 3 == 0 or self.flush is FlushMode.SYNC:
                store.flush()
                self.synced = int(store.positions.durable)
            # The leader says what others have a little later.
            confirmed = max(int(piece.at), int(store.positions.acknowledged or 0))
            store.positions.acknowledged = LogOffset(confirmed)
            store.dispatch()
            self.shown = int(store.positions.dispatched)
        store.positions.acknowledged = store.positions.written
        store.dispatch()
        store.close()


@pytest.fixture(scope="module")
def led() -> tuple[bytes, set[int], SimDisk]:
    disk = SimDisk()
    store = open_store(disk)
    placed = store.append(random_groups(SEED, GROUPS))
    store.dispatch()
    ends = {int(group[-1].log_offset + group[-1].size) for group in placed} | {0}
    data = log_bytes(store)
    store.close()
    return data, ends, disk


@pytest.mark.parametrize("end", ["kill", "power"])
@pytest.mark.parametrize("flush", [FlushMode.ASYNC, FlushMode.SYNC])
def test_it_goes_on_from_whole_groups(
    led: tuple[bytes, set[int], SimDisk], end: str, flush: FlushMode
) -> None:
    data, ends, theirs = led
    same = files_of(theirs, "commitlog", "consumequeue")
    calm = Follower(SimDisk(), data, flush)
    calm.run()
    assert files_of(calm.disk, "commitlog", "consumequeue") == same
    steps = sum(operation in CHANGES for operation, _ in calm.disk.trace)
    assert steps > 100
    for step in range(1, steps):
        disk = SimDisk(seed=step)
        disk.cut_power(at=step, only=CHANGES)
        follower = Follower(disk, data, flush)
        with pytest.raises(PowerCut):
            follower.run()
        disk.heal()
        if end == "power":
            disk.crash()
        else:
            disk.kill()
        store = follower.open()
        written = int(store.positions.written)
        assert written in ends
        assert written >= (follower.synced if end == "power" else follower.written)
        assert log_bytes(store) == data[:written]
        assert store.positions.dispatched <= store.positions.confirmed <= written
        store.close()
        follower.run()
        assert files_of(disk, "commitlog", "consumequeue") == same
