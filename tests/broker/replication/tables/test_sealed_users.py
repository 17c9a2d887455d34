"""Users as entries of the table log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.gate import Gate
from rocketpipe.auth.policy import Action, Decision, Entry, Part, Policy, Resource
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import OldSecret, User, UserType
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.broker.replication.tables.sealed_users import SealedUsers, SeenUsers

INNER = Credentials("inner", Secret("the-secret-of-the-brokers"))
ALICE = User(
    name="alice",
    secret=Secret("the-secret-of-alice"),
    type=UserType.NORMAL,
    old=OldSecret(secret=Secret("the-last-secret-of-alice"), until_ms=1 << 50),
)
MAY = Policy(
    subject="User:alice",
    entries={
        Part.CUSTOM: (
            Entry(
                resource=Resource.parse("Topic:o*"),
                actions=frozenset({Action.PUB}),
                sources=("10.0.0.0/8",),
                decision=Decision.DENY,
            ),
        )
    },
)


def inner_user(secret: Secret = INNER.secret) -> User:
    return User(name="inner", secret=secret, type=UserType.SUPER)


class Broker:
    def __init__(self, *users: User, inner: Credentials = INNER) -> None:
        self.gate = Gate(UserTable.in_memory(*users), PolicyTable.in_memory())
        self.sealed = SealedUsers(self.gate, inner)


def test_a_follower_has_what_its_leader_wrote_and_nobody_else_reads_it() -> None:
    leader, follower = Broker(inner_user()), Broker()
    leader.sealed.watch()
    leader.gate.users.put(ALICE)
    leader.gate.policies.put(MAY)
    assert leader.sealed.has_news
    entries = list(leader.sealed.entries(leader.sealed.take_news()))
    for sealed_by, text in entries:
        assert sealed_by == "inner"
        assert "alice" not in text
    follower.sealed.apply(entries, None)
    assert follower.gate.users.get("alice") == ALICE
    assert follower.gate.policies.get("User:alice") == MAY
    leader.gate.users.remove("alice")
    follower.sealed.apply(leader.sealed.entries(leader.sealed.take_news()), None)
    assert follower.gate.users.get("alice") is None
    # The same twice is never the same text.
    again = {text for _, text in leader.sealed.entries({"users": {"inner"}})}
    assert again.isdisjoint({text for _, text in leader.sealed.entries({"users": {"inner"}})})


def test_whom_a_snapshot_does_not_have_goes() -> None:
    leader, follower = Broker(inner_user()), Broker(inner_user(), ALICE)
    seen = SeenUsers()
    follower.sealed.apply(leader.sealed.entries(leader.sealed.all_names()), seen)
    follower.sealed.keep_only(seen)
    assert follower.gate.users.kept_names() == ["inner"]


def test_what_cannot_be_read_changes_nobody(caplog: pytest.LogCaptureFixture) -> None:
    leader = Broker(inner_user(), ALICE)
    other = Credentials("inner", Secret("another-secret-of-brokers"))
    follower = Broker(inner_user(other.secret), replace(ALICE, name="bob"), inner=other)
    entries = list(leader.sealed.entries(leader.sealed.all_names()))
    (by, text), *_ = entries
    broken = [
        *entries,
        (by, ""),
        (by, "no base64!"),
        (by, text[:-8] + "AAAAAAA="),
        ("nobody", text),
    ]
    seen = SeenUsers()
    follower.sealed.apply(broken, seen)
    follower.sealed.keep_only(seen)
    assert set(follower.gate.users.kept_names()) == {"bob", "inner"}
    assert caplog.text.count("make them the same") == 1


def test_a_secret_that_was_changed_is_read_by_while_it_is_known() -> None:
    before = INNER.secret
    leader = Broker(inner_user(), ALICE)
    new = Credentials("inner", Secret("another-secret-of-brokers"))
    rotated = replace(inner_user(new.secret), old=OldSecret(secret=before, until_ms=0))
    follower = Broker(rotated, inner=new)
    follower.sealed.apply(leader.sealed.entries({"users": {"alice"}}), None)
    assert follower.gate.users.get("alice") == ALICE


def test_news_that_could_not_be_written_come_again() -> None:
    leader = Broker(inner_user())
    leader.sealed.watch()
    leader.gate.users.put(ALICE)
    news = leader.sealed.take_news()
    assert not leader.sealed.has_news
    leader.sealed.put_news_back(news)
    assert leader.sealed.take_news() == {"users": {"alice"}, "policies": set()}
