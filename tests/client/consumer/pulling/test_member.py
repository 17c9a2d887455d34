"""What brokers are told of a pull consumer."""

from __future__ import annotations

import pytest
from tests.client.consumer.support.fake_broker import desk_and_session
from tests.client.consumer.support.records import queue

from rocketpipe.client.consumer.handling.handlers import subscription_to
from rocketpipe.client.consumer.pulling.member import PullMember
from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer, ReadLimits
from rocketpipe.client.members import TakesResets
from rocketpipe.client.session import Session
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel

LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET


def member(session: Session) -> PullMember:
    return PullMember(session, "g", MessageModel.CLUSTERING, LAST, FetchBuffer(ReadLimits()))


def test_it_is_in_its_group_while_something_is_subscribed() -> None:
    here = member(Session("127.0.0.1:1"))
    assert not here.consumers()
    assert not here.producer_groups()
    here.subscriptions["t"] = subscription_to("t", tags="A || B", version=5)
    (data,) = here.consumers()
    assert (data.group_name, data.consume_type) == ("g", ConsumeType.CONSUME_ACTIVELY)
    assert (data.message_model, data.consume_from_where) == (MessageModel.CLUSTERING, LAST)
    (told,) = data.subscriptions
    assert (told.topic, told.expression, told.version) == ("t", "A || B", 5)
    assert told.tags == {"A", "B"}
    here.subscriptions.clear()
    assert here.consumers() == ()


def test_queues_that_were_assigned_make_it_no_member() -> None:
    session = Session("127.0.0.1:1")
    buffer = FetchBuffer(ReadLimits())
    here = PullMember(session, "g", MessageModel.CLUSTERING, LAST, buffer)
    here.assigned = subscription_to("")
    buffer.open(queue(), QueueOffset(0))
    assert here.consumers() == ()
    assert set(here.topics()) == {"t"}
    assert here.wanted("t") is here.assigned


def test_news_reaches_those_whom_it_concerns() -> None:
    here = member(Session("127.0.0.1:1"))
    here.subscriptions["t"] = subscription_to("t")
    news: list[object] = []
    here.notify = lambda: news.append("rebalance")
    here.go_on_from = lambda where, offset: news.append((where, offset))
    here.on_ids_changed("g")
    here.on_routes_changed("t")
    here.on_routes_changed("not ours")
    assert news == ["rebalance", "rebalance"]
    assert isinstance(here, TakesResets)
    here.on_offsets_reset("g", {queue(1): QueueOffset(9)})
    assert news[2:] == [(queue(1), 9)]


async def test_of_a_topic_that_is_not_there_nobody_is_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with desk_and_session(t={"a": 1}) as (_, session):
        await member(session).check_evaluates(subscription_to("t", tags="A"))
        assert caplog.messages == []
        await member(session).check_evaluates(subscription_to("nowhere", sql="a > 1"))
        (told,) = caplog.messages
        assert "topic=nowhere next=looked for every 20 s" in told


def test_an_operator_is_told_where_it_is() -> None:
    buffer = FetchBuffer(ReadLimits())
    here = PullMember(Session("127.0.0.1:1"), "g", MessageModel.CLUSTERING, LAST, buffer)
    here.subscriptions["t"] = subscription_to("t", tags="A")
    buffer.open(queue(), QueueOffset(7))
    told = here.running_info("g", stacks=False)
    assert [wanted.topic for wanted in told.subscriptions] == ["t"]
    assert [held.commit_offset for held in told.queues.values()] == [7]
    assert here.places("g", "t") == {queue(): 7}
    assert here.places("g", "u") == {}
