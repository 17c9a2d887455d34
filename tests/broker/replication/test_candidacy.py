"""Who may stand, and when its turn is."""

from __future__ import annotations

import pytest

from rocketpipe.broker.replication.candidacy import (
    FORGOTTEN_MS,
    NAMED_FIRST_MS,
    RANK_MS,
    turn_ms,
    why_not_stand,
)
from rocketpipe.coordination.coordinator import GroupState, Member

NOBODY: frozenset[int] = frozenset()


def member(id_: int, log_end: int = 9, last_epoch: int = 3, **more: bool) -> Member:
    place = {"address": f"h:{id_}", "ha_address": f"h:{id_}0"}
    return Member(id=id_, log_end=log_end, last_epoch=last_epoch, **place, **more)  # type: ignore[arg-type]


def group(*members: Member, in_sync: set[int] | None = None, **more: int) -> GroupState:
    known = {"epoch": 3, **more}
    return GroupState(
        in_sync=frozenset(in_sync or ()),
        members={each.id: each for each in members},
        **known,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("state", "were", "may"),
    [
        (group(member(1, 0, 0), epoch=0), NOBODY, True),
        (group(member(1), in_sync={1, 2}), NOBODY, True),
        (group(member(1), in_sync={2}), NOBODY, False),
        (group(member(1), in_sync={2}), frozenset({1}), False),
        (group(member(1, clean=False), in_sync={1, 2}), NOBODY, False),
        # What it knew was forgotten.
        (group(member(1), epoch=0), NOBODY, True),
        (group(member(1), epoch=0), frozenset({1, 2}), True),
        (group(member(1), epoch=0), frozenset({2}), False),
        (group(member(1, clean=False), epoch=0), NOBODY, False),
    ],
)
def test_who_may_stand(state: GroupState, were: frozenset[int], may: bool) -> None:
    assert (why_not_stand(state, 1, were) is None) == may


def test_the_operator_may_have_one_stand_that_lost_something() -> None:
    alone = group(member(1, clean=False), in_sync={2})
    assert why_not_stand(alone, 1, NOBODY, anyway=True) is None


@pytest.mark.parametrize(
    ("other", "wait_ms"),
    [
        (member(2, log_end=8), 0),
        (member(2, log_end=10), RANK_MS),
        (member(2, log_end=10, full=True), 0),
        (member(2, log_end=10, clean=False), 0),
        (member(2, last_epoch=2, log_end=99), 0),
        (member(2), 0),
    ],
)
def test_who_has_room_and_most_stands_first(other: Member, wait_ms: int) -> None:
    assert turn_ms(group(member(1), other, in_sync={1, 2}), member(1), NOBODY) == wait_ms


def test_who_was_named_stands_at_once_and_the_others_later() -> None:
    state = group(member(1), member(2), in_sync={1, 2}, successor=2)
    assert turn_ms(state, member(2), NOBODY) == 0
    assert turn_ms(state, member(1), NOBODY) == NAMED_FIRST_MS


def test_where_all_was_forgotten_the_others_are_waited_for() -> None:
    state = group(member(1), member(2, log_end=10), epoch=0)
    assert turn_ms(state, member(1), NOBODY) == 2 * FORGOTTEN_MS
    assert turn_ms(state, member(1), frozenset({1, 2, 3})) == 2 * FORGOTTEN_MS
    assert turn_ms(state, member(1), frozenset({1, 2})) == RANK_MS
