"""Whether a log goes on in a leader's, has to be cut, begins anew, or is another one."""

from __future__ import annotations

import pytest
from tests.broker.support.follower_parts import SEGMENT_BYTES, Follower, LeaderLog

from rocketpipe.broker.replication.epochs import EpochEntry
from rocketpipe.broker.replication.following.agreement import CutNeeded, NothingInCommon, agree
from rocketpipe.broker.replication.frames import Dialect, LeaderHello
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.log.raw_groups import RawGroups

LOG = LeaderLog(1, 1, 3, 1)
END = LOG.end
MIDDLE = LOG.ends[2]


def replica(end: int, *epochs: tuple[int, int]) -> Follower:
    follower = Follower("", Dialect.EPOCHS)
    follower.open()
    if end:
        follower.fill(LOG, end, *epochs)
    return follower


def hello(end: int, *entries: tuple[int, int]) -> LeaderHello:
    epoch = entries[-1][0] if entries else 0
    return LeaderHello(end, epoch, tuple(EpochEntry(*entry) for entry in entries))


def agreed(follower: Follower, told: LeaderHello) -> bool:
    return agree(follower.store, follower.epochs, told)


def test_an_empty_log_agrees_with_every_leader_and_has_no_epochs() -> None:
    follower = replica(0)
    follower.epochs.append(4, 0)
    assert agreed(follower, hello(END, (1, 0), (5, MIDDLE)))
    assert follower.epochs.entries == ()


def test_a_log_that_is_behind_goes_on() -> None:
    follower = replica(MIDDLE, (1, 0))
    assert agreed(follower, hello(END, (1, 0)))
    assert agreed(follower, hello(END, (1, 0), (2, MIDDLE)))
    assert follower.epochs.entries == ((1, 0),)


def test_an_epoch_that_has_no_byte_is_forgotten() -> None:
    follower = replica(MIDDLE, (1, 0), (3, MIDDLE))
    assert agreed(follower, hello(END, (1, 0), (4, MIDDLE)))
    assert follower.epochs.entries == ((1, 0),)


@pytest.mark.parametrize(
    ("acknowledged", "below"), [(0, False), (MIDDLE, False), (LOG.ends[3], True), (END, True)]
)
def test_a_tail_of_its_own_has_to_go(acknowledged: int, below: bool) -> None:
    follower = replica(END, (1, 0))
    follower.store.positions.begin_acknowledged(LogOffset(acknowledged))
    with pytest.raises(CutNeeded) as needed:
        agreed(follower, hello(END + 500, (1, 0), (2, MIDDLE)))
    assert needed.value.to == MIDDLE
    assert needed.value.below_confirmed is below
    assert follower.epochs.entries == ((1, 0),)  # as long as the bytes are there


def test_a_leader_that_has_less_of_its_own_epoch_has_it_cut() -> None:
    with pytest.raises(CutNeeded) as needed:
        agreed(replica(END, (1, 0)), hello(MIDDLE, (1, 0)))
    assert needed.value.to == MIDDLE


def test_a_leader_whose_epochs_all_begin_later_has_to_begin_later() -> None:
    assert not agreed(replica(END, (1, 0)), hello(9000, (3, END + 1)))


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        ([(1, 0)], hello(9000, (3, END))),
        ([(2, 0)], hello(9000, (1, 0), (3, MIDDLE))),
        ([], hello(9000, (1, 0))),
        ([(1, 0)], hello(0)),
    ],
)
def test_a_log_of_another_past_is_refused(mine: list[tuple[int, int]], told: LeaderHello) -> None:
    with pytest.raises(NothingInCommon, match="move this replica's directory away"):
        agreed(replica(END, *mine), told)


def test_a_log_that_parted_before_its_first_byte_is_refused() -> None:
    log = LeaderLog(*[1] * 20)
    follower = Follower("", Dialect.EPOCHS)
    follower.open()
    follower.store.begin_at(LogOffset(SEGMENT_BYTES))
    groups = RawGroups(LogOffset(SEGMENT_BYTES), SEGMENT_BYTES, sealed_from=0)
    piece = groups.add(log.bytes[SEGMENT_BYTES:])
    assert piece is not None
    follower.store.append_raw(piece)
    follower.epochs.append(1, 0)
    with pytest.raises(
        NothingInCommon, match=f"part at 500, and this one begins at {SEGMENT_BYTES}"
    ):
        agreed(follower, hello(log.end, (1, 0), (2, 500)))
