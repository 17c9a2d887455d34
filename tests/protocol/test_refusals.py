"""Who leads, as remarks say."""

from __future__ import annotations

import pytest

from rocketpipe.protocol.refusals import (
    IN_SYNC_NOT_ENOUGH,
    NO_LEADER,
    lacks_replicas,
    leader_in,
    naming_leader,
    stored_nothing,
)


@pytest.mark.parametrize("address", ["10.0.0.7:10911", "broker-a.local:1", "[::1]:65535"])
def test_a_leader_that_is_named_is_read(address: str) -> None:
    assert leader_in(naming_leader("not the leader of broker-a", address)) == address
    assert leader_in(f"leader={address}") == address
    assert leader_in(f"this is a follower (leader={address}), epoch 3") == address


@pytest.mark.parametrize(
    "remark",
    [
        "",
        naming_leader("not the leader", None),
        "leader=",
        "leader=:10911",
        "leader=host",
        "leader=host:",
        "leader=host:0",
        "leader=host:65536",
        "leader=host:109110",
        "leader=ho st:1",
        "leader=a:1:2",
        "leader=[::1:1",
        "misleader=host:1",
        "leader=" + "h" * 256 + ":1",
        "leader=" * 100_000,
    ],
)
def test_what_is_no_address_is_no_leader(remark: str) -> None:
    assert leader_in(remark) is None


def test_what_stored_nothing_says_so() -> None:
    assert stored_nothing(14, "not the leader leader=h:1")
    assert stored_nothing(14, f"not the leader, and {NO_LEADER}")
    assert not stored_nothing(14, "no longer master")  # it may have stored it before that
    assert stored_nothing(1, f"{IN_SYNC_NOT_ENOUGH}: 1 of 2")
    assert not stored_nothing(1, "no acknowledgement in time")
    assert lacks_replicas(1, IN_SYNC_NOT_ENOUGH)
    assert not lacks_replicas(14, IN_SYNC_NOT_ENOUGH)
