"""What a group wants because of its members."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import replace

import pytest

from rocketpipe.broker.tables.consumer_group import Client, ConsumerGroup, Consuming
from rocketpipe.model.subscription import ConsumeType, MessageModel, Subscription


def client(connection: Hashable, client_id: str | None = None) -> Client:
    return Client(connection=connection, client_id=client_id or f"client-{connection}")


def wants(topic: str, expression: str = "*", version: int = 1) -> Subscription:
    return Subscription(topic=topic, expression=expression, version=version)


def consuming(*subscriptions: Subscription, fingerprint: int = 0) -> Consuming:
    return Consuming(subscriptions=subscriptions, fingerprint=fingerprint)


def test_a_heartbeat_that_says_the_same_changes_nothing() -> None:
    group = ConsumerGroup("g")
    assert group.join(client(1), consuming(wants("t")), 0) == (True, True)
    assert group.join(client(1), consuming(wants("t")), 9) == (False, False)
    (member,) = group.members()
    assert member.beat_ms == 9


def test_a_topic_more_or_less_matters_to_the_others_and_a_newer_version_does_not() -> None:
    group = ConsumerGroup("g")
    group.join(client(1), consuming(wants("t")), 0)
    assert group.join(client(1), consuming(wants("t", version=2)), 0) == (False, True)
    assert group.join(client(1), consuming(wants("t"), wants("u")), 0) == (True, True)
    assert group.join(client(1), consuming(wants("u")), 0) == (True, True)
    assert group.subscriptions().keys() == {"u"}


def test_another_model_is_a_change_that_no_member_need_hear_of() -> None:
    group = ConsumerGroup("g")
    group.join(client(1), consuming(wants("t")), 0)
    broadcast = Consuming(model=MessageModel.BROADCASTING, subscriptions=(wants("t"),))
    assert group.join(client(1), broadcast, 0) == (False, True)
    assert group.model is MessageModel.BROADCASTING


def test_of_two_expressions_the_one_of_the_greater_version_counts() -> None:
    group = ConsumerGroup("g")
    group.join(client(1), consuming(wants("t", "A", version=5)), 0)
    group.join(client(2), consuming(wants("t", "B", version=4)), 0)
    assert group.subscription("t") == wants("t", "A", version=5)
    group.join(client(2), consuming(wants("t", "B", version=6)), 0)
    assert group.subscription("t") == wants("t", "B", version=6)
    group.leave(2)
    assert group.subscription("t") == wants("t", "A", version=5)


def test_what_only_one_member_wants_goes_with_it_and_the_rest_stays() -> None:
    group = ConsumerGroup("g")
    group.join(client(1), consuming(wants("t"), wants("u")), 0)
    group.join(client(2), consuming(wants("t")), 0)
    assert group.leave(1) is not None
    assert group.subscriptions().keys() == {"t"}
    assert group.subscription("u") is None
    assert group.leave(1) is None


def test_one_that_pulls_without_a_subscription_takes_nothing_from_the_others() -> None:
    group = ConsumerGroup("g")
    group.join(client(1), consuming(wants("t")), 0)
    group.join(client(2), consuming(), 0)
    assert group.subscriptions().keys() == {"t"}
    assert group.mismatches() == {}


def test_those_who_pop_may_each_have_topics_of_their_own() -> None:
    group = ConsumerGroup("g")
    for number, topic in ((1, "t"), (2, "u")):
        popping = replace(consuming(wants(topic)), consume_type=ConsumeType.CONSUME_POP)
        group.join(client(number), popping, 0)
    assert group.subscriptions().keys() == {"t", "u"}
    assert group.mismatches() == {}


def test_without_subscriptions_a_member_wants_what_it_said_before() -> None:
    group = ConsumerGroup("g")
    group.join(client(1), consuming(wants("t"), fingerprint=7), 0)
    assert group.join(client(1), Consuming(subscriptions=None, fingerprint=8), 5) == (False, False)
    (member,) = group.members()
    assert member.fingerprint == 7
    assert group.subscriptions().keys() == {"t"}


def test_another_client_on_the_same_connection_takes_the_place_of_the_first() -> None:
    group = ConsumerGroup("g")
    group.join(client(1, "a"), consuming(wants("t")), 0)
    assert group.join(client(1, "b"), Consuming(subscriptions=None), 0) == (True, True)
    assert group.client_ids() == ["b"]
    assert group.subscriptions() == {}


def test_two_connections_of_one_client_are_one_id() -> None:
    group = ConsumerGroup("g")
    group.join(client(1, "a"), consuming(wants("t")), 0)
    group.join(client(2, "a"), consuming(wants("t")), 0)
    assert group.client_ids() == ["a"]
    assert group.connections() == [1, 2]
    assert group.member(2) is not None
    assert group.member(3) is None


def test_members_that_subscribe_differently_are_told_of_once_a_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = ConsumerGroup("g")
    for _ in range(3):
        group.join(client(1), consuming(wants("t", "A")), 0)
        group.join(client(2), consuming(wants("t", "B")), 0)
        group.join(client(3), consuming(wants("t", "B", version=9)), 0)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "group=g kinds=2 such_as=client-1,client-2" in record.getMessage()
    assert group.mismatches() == {
        "client-1": {("t", "TAG", "A")},
        "client-2": {("t", "TAG", "B")},
        "client-3": {("t", "TAG", "B")},
    }
    group.join(client(4), consuming(wants("t", "C")), 0)
    assert len(caplog.records) == 2


def test_members_that_agree_again_are_no_mismatch_and_the_next_one_is_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = ConsumerGroup("g")
    group.join(client(1), consuming(wants("t", "A")), 0)
    for count in (1, 2):
        group.join(client(2), consuming(wants("t", "B")), 0)
        assert len(caplog.records) == count
        group.join(client(2), consuming(wants("t", "A")), 0)
        assert group.mismatches() == {}
