"""Two stores take turns in leading, die now and then, and end with one log that is right."""

from __future__ import annotations

import random

import pytest
from tests.store.support.leader_log import groups_for, log_bytes, portions, random_groups

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.cutting import cut
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import ROOT, StepClock, open_store, small_store


class Pair:
    """A leader, a follower, and what both are known to have."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.seed = seed
        self.disks = [SimDisk(seed), SimDisk(seed + 1)]
        self.stores = [open_store(disk, replicated=True) for disk in self.disks]
        self.acknowledged = 0
        self.stores[0].adopt_tail()

    @property
    def leader(self) -> MessageStore:
        return self.stores[0]

    @property
    def follower(self) -> MessageStore:
        return self.stores[1]

    def send(self, number: int) -> None:
        self.leader.append(random_groups(self.seed * 100 + number, self.chance.randrange(1, 6)))
        self.leader.dispatch()

    def copy(self) -> None:
        """The follower takes in some of what it lacks, and both learn of it a little later."""
        groups = groups_for(self.follower)
        rest = log_bytes(self.leader, int(groups.at))
        for portion in portions(rest, self.chance):
            piece = groups.add(portion)
            if piece is not None:
                self.follower.append_raw(piece)
                self._learn(self.leader, int(piece.end))
                self._learn(self.follower, int(piece.at))
            if self.chance.random() < 0.02:
                return

    def _learn(self, store: MessageStore, acknowledged: int) -> None:
        seen = store.positions.acknowledged
        assert seen is not None
        store.positions.acknowledged = LogOffset(max(seen, acknowledged))
        self.acknowledged = max(self.acknowledged, acknowledged)
        store.dispatch()

    def restart(self, number: int) -> None:
        """Stop one of them, or kill it; what it had written stays."""
        if self.chance.random() < 0.5:
            self.stores[number].close()
        else:
            self.disks[number].kill()
        self.stores[number] = open_store(self.disks[number], replicated=True)
        if number == 0:
            self.leader.adopt_tail()

    def change_roles(self) -> None:
        """The follower leads from now on; what it has not got, the other one does without."""
        self.follower.adopt_tail()
        end = self.follower.positions.written
        self.leader.close()
        config = small_store(ROOT, FlushMode.ASYNC)
        done = cut(config, self.disks[0], StepClock(), LogOffset(end))
        assert done.at == end
        self.disks.reverse()
        self.stores = [self.stores[1], open_store(self.disks[1], replicated=True)]


@pytest.mark.parametrize("seed", range(6))
def test_both_end_with_one_log_in_which_every_queue_is_dense(seed: int) -> None:
    pair = Pair(seed)
    for number in range(30):
        pair.send(number)
        pair.copy()
        if pair.chance.random() < 0.2:
            pair.restart(pair.chance.randrange(2))
        if pair.chance.random() < 0.2:
            pair.change_roles()
        for store in pair.stores:
            assert store.positions.confirmed <= pair.acknowledged
            assert store.positions.written >= pair.acknowledged
    while pair.follower.positions.written < pair.leader.positions.written:
        pair.copy()
    logs = [log_bytes(store) for store in pair.stores]
    assert logs[0] == logs[1]
    for store in pair.stores:
        store.positions.acknowledged = store.positions.written
        store.dispatch()
        store.close()
    for disk in pair.disks:
        report = check_store(disk, ROOT, index_slots=8)
        assert report.lines()[1:] == ["nothing is wrong"]
        assert report.records > 100
