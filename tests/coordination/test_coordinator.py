"""What every coordinator has in common: who may stand, and in which epoch."""

from __future__ import annotations

import pytest

from rocketpipe.coordination.coordinator import GroupState, Member, NotInSync


def _member(id_: int, last_epoch: int) -> Member:
    return Member(id=id_, address="a", ha_address="b", last_epoch=last_epoch)


def test_the_next_epoch_is_above_all_that_anybody_knows() -> None:
    assert GroupState().next_epoch == 1
    assert GroupState(epoch=4, members={1: _member(1, 3)}).next_epoch == 5
    assert GroupState(epoch=4, members={1: _member(1, 9), 2: _member(2, 7)}).next_epoch == 10


def test_only_members_of_the_set_stand_and_only_with_members_of_it() -> None:
    state = GroupState(epoch=1, in_sync=frozenset({1, 2}))
    state.check_candidate(1, frozenset({1}))
    state.check_candidate(1, frozenset({1, 2}))
    for me, in_sync in ((3, {3}), (1, {2}), (1, {1, 3}), (1, set())):
        with pytest.raises(NotInSync):
            state.check_candidate(me, frozenset(in_sync))


def test_before_the_first_epoch_anybody_stands() -> None:
    GroupState().check_candidate(7, frozenset({7}))
    with pytest.raises(NotInSync):
        GroupState().check_candidate(7, frozenset({1}))
