from __future__ import annotations

import pytest
from tests.proxy.support.calling import publishing, subscribing

from rocketpipe.model.group import GroupSettings
from rocketpipe.model.subscription import SQL92, TAG, ConsumeType
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.translation.settings import answer_to, expression_of, heartbeat_of
from rocketpipe.proxy.v2 import messaging_pb2 as pb


def test_a_producer_is_one_of_a_group_called_like_its_topic() -> None:
    data = heartbeat_of(publishing("orders", "", "orders", "bills"), "me", "ns")
    assert [each.group_name for each in data.producers] == ["ns%orders", "ns%bills"]
    assert (data.client_id, data.consumers) == ("me", ())


def test_a_consumer_tells_its_group_and_what_it_wants() -> None:
    settings = subscribing("g", "t", kind=pb.SIMPLE_CONSUMER)
    settings.subscription.subscriptions[0].expression.expression = "a || b"
    other = settings.subscription.subscriptions.add()
    other.topic.name = "u"
    other.expression.type = pb.SQL
    other.expression.expression = "n > 1"
    (consumer,) = heartbeat_of(settings, "me", "").consumers
    assert consumer.group_name == "g"
    assert consumer.consume_type is ConsumeType.CONSUME_ACTIVELY
    tags, sql = consumer.subscriptions
    assert (tags.topic, tags.tags, len(tags.tag_codes)) == ("t", {"a", "b"}, 2)
    assert (sql.topic, sql.expression_type, sql.expression) == ("u", SQL92, "n > 1")


def test_an_expression_that_is_none_means_all() -> None:
    assert expression_of(pb.FilterExpression()) == (TAG, "*")
    assert expression_of(pb.FilterExpression(type=pb.SQL, expression="a = 1")) == (SQL92, "a = 1")
    with pytest.raises(Refused):
        expression_of(pb.FilterExpression(type=9))


def test_what_a_client_said_is_told_again() -> None:
    settings = publishing("t")
    settings.user_agent.hostname = "here"
    settings.metric.on = True
    told = answer_to(settings, ProxyConfig(), max_body_bytes=9, checks_types=False, group=None)
    assert told.user_agent.hostname == "here"
    assert not told.metric.on
    assert (told.publishing.max_body_size, told.publishing.validate_message_type) == (9, False)


def test_delays_are_not_told_twice() -> None:
    settings = subscribing("g", "t")
    settings.backoff_policy.customized_backoff.next.add().seconds = 77
    told = answer_to(
        settings,
        ProxyConfig(),
        max_body_bytes=9,
        checks_types=True,
        group=GroupSettings(name="g", max_retries=3),
    )
    assert told.backoff_policy.max_attempts == 4
    assert len(told.backoff_policy.customized_backoff.next) == 18
