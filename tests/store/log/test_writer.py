"""Bytes go to the end of the log, or it is said why not."""

from __future__ import annotations

import errno

import pytest
from tests.store.support.leader_log import groups_for, leader, log_bytes, random_groups

from rocketpipe.store.errors import StoreFailed, StoreFull
from rocketpipe.store.state.health import StoreState
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.sim_fault import Progress
from rocketpipe.testing.simulation.small_store import open_store, put


def test_no_room_for_the_first_byte_passes_and_names_what_was_needed() -> None:
    disk = SimDisk()
    store = open_store(disk)
    store.append([[put(b"kept")]])
    disk.fail(only=("write",), path="commitlog", errno=errno.ENOSPC)
    with pytest.raises(StoreFull) as caught:
        store.append([[put(bytes(700))]])
    assert caught.value.needed > 700
    assert store.state is StoreState.FULL
    store.append([[put(bytes(700))]])
    assert store.state is StoreState.RUNNING


@pytest.mark.parametrize("progress", [Progress.NONE, Progress.SOME])
def test_what_may_be_there_in_part_ends_the_run(progress: Progress) -> None:
    disk = SimDisk(seed=2)
    store = open_store(disk, replicated=True)
    piece = groups_for(store).add(log_bytes(leader(random_groups(9, 10))))
    assert piece is not None
    number = errno.EIO if progress is Progress.NONE else errno.ENOSPC
    disk.fail(only=("write",), path="commitlog", errno=number, progress=progress)
    with pytest.raises(StoreFailed):
        store.append_raw(piece)
    assert store.state is StoreState.FAILED
    assert store.positions.written == 0
