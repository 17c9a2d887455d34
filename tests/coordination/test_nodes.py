"""The JSON that a group keeps."""

from __future__ import annotations

import json

import pytest

from rocketpipe.coordination.coordinator import CoordinatorAway, Leader, Member
from rocketpipe.coordination.nodes import (
    MOST_BYTES,
    EpochNode,
    InSyncNode,
    LeaderNode,
    MemberNode,
    decode,
    encode,
)


def test_what_is_written_is_read_and_has_the_names_that_others_look_for() -> None:
    me = Member(
        id=2, address="h:1", ha_address="h:2", log_end=9, last_epoch=3, clean=False, version="v"
    )
    data = encode(MemberNode.of(me))
    assert json.loads(data) == {
        "address": "h:1",
        "ha": "h:2",
        "end": 9,
        "epoch": 3,
        "clean": False,
        "version": "v",
        "full": False,
    }
    assert decode("replicas/2", data, MemberNode).member(2) == me
    leader = Leader(id=2, epoch=3, address="h:1", ha_address="h:2")
    data = encode(LeaderNode.of(leader))
    assert json.loads(data) == {"id": 2, "address": "h:1", "ha": "h:2", "epoch": 3}
    assert decode("leader", data, LeaderNode).leader() == leader


def test_fields_of_later_versions_are_passed_over() -> None:
    assert decode("epoch", b'{"epoch":3,"new":[]}', EpochNode) == EpochNode(3)
    assert decode("isr", b'{"members":[1,2]}', InSyncNode).members == [1, 2]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b'{"epoch":"3"}',
        b'{"epoch":1e400}',
        b"\xff",
        b"[" * 50_000,
        b" " * MOST_BYTES + b"{}",
    ],
)
def test_anything_else_is_an_error_that_names_the_node(data: bytes) -> None:
    with pytest.raises(CoordinatorAway, match="/g/epoch holds something"):
        decode("/g/epoch", data, EpochNode)
