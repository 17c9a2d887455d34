"""A follower that reports what there was a while ago has caught up as of then."""

from __future__ import annotations

from rocketpipe.broker.replication.leading.pursuit import Pursuit


def test_who_has_all_has_caught_up_now() -> None:
    pursuit = Pursuit(5)
    pursuit.begin(100, 10)
    assert pursuit.reported(100, 100, 20)
    assert pursuit.caught_up_ms == 20


def test_who_has_what_there_was_has_caught_up_as_of_then() -> None:
    pursuit = Pursuit(5)
    pursuit.begin(100, 10)
    assert not pursuit.reported(90, 150, 20)
    assert pursuit.caught_up_ms == 5
    assert pursuit.reported(120, 200, 30)
    assert pursuit.caught_up_ms == 10
    assert not pursuit.reported(150, 250, 40)  # the goal is what there was at 30
    assert pursuit.reported(200, 300, 50)
    assert pursuit.caught_up_ms == 30
