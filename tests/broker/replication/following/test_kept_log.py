"""What of its log a follower keeps."""

from __future__ import annotations

from typing import cast

import pytest

from rocketpipe.broker.replication.following.kept_log import KeptLog
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Pins


class Log:
    first_offset = LogOffset(100)


def held(pins: Pins) -> int | None:
    pin = pins.lowest()
    assert pin is None or (pin.owner, pin.yields) == ("the leader's log", True)
    return None if pin is None else pin.offset


@pytest.fixture
def pins() -> Pins:
    return Pins()


@pytest.fixture
def kept(pins: Pins) -> KeptLog:
    return KeptLog(cast("MessageStore", Log()), pins)


def test_all_that_there_is_is_kept_until_a_leader_tells(kept: KeptLog, pins: Pins) -> None:
    assert held(pins) == 100
    kept.keep_from(LogOffset(300))
    assert held(pins) == 300
    kept.hold()
    assert held(pins) == 300


def test_a_new_leader_that_removed_less_has_more_kept(kept: KeptLog, pins: Pins) -> None:
    kept.keep_from(LogOffset(300))
    kept.keep_from(LogOffset(200))
    assert held(pins) == 200


def test_who_leads_holds_nothing_for_a_leader_and_all_once_it_steps_down(
    kept: KeptLog, pins: Pins
) -> None:
    kept.keep_from(LogOffset(300))
    kept.let_go()
    kept.let_go()
    kept.keep_from(LogOffset(400))
    assert held(pins) is None
    kept.hold()
    assert held(pins) == 100


def test_it_is_kept_on_when_a_role_is_taken_down(kept: KeptLog, pins: Pins) -> None:
    with pins.temporary():
        kept.keep_from(LogOffset(300))
    assert held(pins) == 300
    kept.let_go()
    with pins.temporary():
        kept.hold()
    assert held(pins) == 100
