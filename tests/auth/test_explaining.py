"""Why something is allowed or not."""

from __future__ import annotations

import pytest

from rocketpipe.auth.explaining import Point, explain
from rocketpipe.auth.policy import (
    Action,
    Decision,
    Entry,
    Kind,
    Part,
    Policy,
    Resource,
    Wanted,
    decide,
)


def entry(resource: str, *actions: Action, deny: bool = False, sources: str = "") -> Entry:
    return Entry(
        resource=Resource.parse(resource),
        actions=frozenset(actions),
        sources=tuple(sources.split()),
        decision=Decision.DENY if deny else Decision.ALLOW,
    )


OWN = entry("Topic:orders", Action.PUB)
WIDER = entry("Topic:or*", Action.ALL, deny=True)
USUAL = entry("Topic:*", Action.SUB)
NEAR = entry("Group:g", Action.SUB, sources="10.0.0.0/8")
POLICY = Policy(
    subject="User:alice", entries={Part.CUSTOM: (WIDER, OWN, NEAR), Part.DEFAULT: (USUAL,)}
)


def point(kind: Kind, name: str, action: Action, source: str = "") -> Point:
    (found,) = explain(POLICY, [(kind, name, action)], source).points
    return found


@pytest.mark.parametrize(
    ("name", "action", "by", "why"),
    [
        ("orders", Action.PUB, OWN, "Topic:orders is more specific than Topic:or*"),
        ("organ", Action.PUB, WIDER, "the only entry that counts"),
        ("organ", Action.SUB, WIDER, "an entry of the user's own counts before those by default"),
        ("other", Action.SUB, USUAL, "no entry of the user's own counts"),
        ("other", Action.PUB, None, "entries about Topic:other are for other actions"),
    ],
)
def test_the_entry_that_decides_and_why(
    name: str, action: Action, by: Entry | None, why: str
) -> None:
    found = point(Kind.TOPIC, name, action)
    assert found.entry == by
    assert why in found.why
    assert found.allowed == (by is not None and by.decision is Decision.ALLOW)
    assert found.entry not in found.others


def test_topics_of_a_group_count_as_the_group() -> None:
    for name in ("%RETRY%g", "%DLQ%g", "%RETRY%g+orders"):
        found = point(Kind.TOPIC, name, Action.SUB, "10.1.1.1")
        assert found.wanted.startswith("Sub Group:g")
        assert found.entry == (NEAR if "+" not in name else found.entry)
    assert point(Kind.TOPIC, "%RETRY%g", Action.PUB, "10.1.1.1").wanted == "Sub Group:g"


def test_where_it_comes_from_is_part_of_the_answer() -> None:
    far = point(Kind.GROUP, "g", Action.SUB, "192.168.0.1")
    assert not far.allowed
    assert far.elsewhere == (NEAR,)
    assert "other sources than 192.168.0.1" in far.why
    assert point(Kind.GROUP, "g", Action.SUB, "10.9.9.9").allowed
    assert not point(Kind.GROUP, "g", Action.SUB).allowed


def test_what_is_alike_is_denied_and_said_so() -> None:
    policy = Policy(
        subject="User:alice",
        entries={
            Part.CUSTOM: (
                entry("Topic:a", Action.PUB),
                entry("Topic:a", Action.PUB, deny=True, sources="10.0.0.0/8"),
            )
        },
    )
    (found,) = explain(policy, [(Kind.TOPIC, "a", Action.PUB)], "10.1.1.1").points
    assert not found.allowed
    assert found.why == "of two that are alike, Deny counts before Allow"


def test_traces_are_everybodys_and_nothing_is_allowed_to_who_has_no_policy() -> None:
    assert explain(None, [(Kind.TOPIC, "RMQ_SYS_TRACE_TOPIC", Action.PUB)]).allowed
    (found,) = explain(None, [(Kind.TOPIC, "orders", Action.PUB)]).points
    assert "no entry is about Topic:orders" in found.why
    assert not explain(None, []).allowed


def test_it_says_what_the_gate_would() -> None:
    for kind in (Kind.TOPIC, Kind.GROUP, Kind.CLUSTER):
        for name in ("orders", "organ", "other", "g"):
            for action in Action:
                for source in ("", "10.1.1.1"):
                    found = point(kind, name, action, source)
                    wanted = Wanted(kind, name, frozenset({action}))
                    assert found.allowed == decide(POLICY, wanted, source).allowed
