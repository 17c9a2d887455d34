"""A push consumer as its session sees it."""

from __future__ import annotations

from typing import Any, cast

from tests.client.consumer.support.records import queue, record

from rocketpipe.client.consumer.group.start import Beginnings, StartFrom
from rocketpipe.client.consumer.group.subscriptions import Subscriptions
from rocketpipe.client.consumer.handling.handler_stats import HandlerStats
from rocketpipe.client.consumer.handling.handlers import Handlers, handler
from rocketpipe.client.consumer.pushing.flow import PullFlow
from rocketpipe.client.consumer.pushing.member import PushMember
from rocketpipe.client.consumer.pushing.plan import PushPlan
from rocketpipe.client.consumer.pushing.report import PushReport
from rocketpipe.client.members import ConsumesDirectly, TakesResets, TellsRunning
from rocketpipe.client.session import Session
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from rocketpipe.protocol.requests.running import DirectOutcome
from rocketpipe.testing.clock import ManualClock

PLAN = PushPlan(group="g", start=StartFrom(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))


class Flow(PullFlow):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.notified = 0
        self.moves: list[object] = []

    def notify(self) -> None:
        self.notified += 1

    def moved(self, offsets: Any) -> None:
        self.moves.append(offsets)


def member() -> PushMember:
    session = Session("127.0.0.1:1", clock=ManualClock())
    counts = HandlerStats(session.clock)
    handlers = Handlers(1, "test", counts)

    async def handle(message: object) -> None: ...

    handlers.add(handler("t", handle, tags="A", sql=None, batch=None))
    subscriptions = Subscriptions(session, "g", handlers, retries=True)
    offsets = PLAN.offsets(session)
    claims = PLAN.claims(session, offsets, Beginnings(session, offsets, PLAN.start))
    report = PushReport(
        session, handlers, counts, claims, offsets, subscriptions, ordered=False, concurrency=1
    )
    return PushMember(PLAN, subscriptions, report)


def test_brokers_are_told_its_group_and_all_it_subscribes_to() -> None:
    here = member()
    assert here.producer_groups() == ()
    (data,) = here.consumers()
    assert (data.group_name, data.consume_type) == ("g", ConsumeType.CONSUME_PASSIVELY)
    assert data.message_model is MessageModel.CLUSTERING
    assert [each.topic for each in data.subscriptions] == list(here.topics()) == ["t", "%RETRY%g"]


def test_what_concerns_its_group_and_topics_reaches_its_flow() -> None:
    here, flow = member(), Flow()
    here.on_ids_changed("g")  # before it has begun: it will see for itself
    here.on_offsets_reset("g", {})
    here.flow = flow
    here.on_ids_changed("another")
    here.on_routes_changed("another")
    here.on_offsets_reset("another", {})
    assert (flow.notified, flow.moves) == (0, [])
    here.on_ids_changed("g")
    here.on_routes_changed("%RETRY%g")
    places = {queue(): QueueOffset(3)}
    here.on_offsets_reset("g", places)
    assert (flow.notified, flow.moves) == (2, [places])


async def test_operators_are_answered_from_the_moment_it_joins_also_while_it_pops() -> None:
    here = member()
    for protocol in (TellsRunning, ConsumesDirectly, TakesResets):
        assert isinstance(here, cast("Any", protocol))
    assert here.running_info("g", stacks=False).queues == {}
    assert here.places("g", "t") == {}
    result = await here.consume_directly(record(1), "broker-a")
    assert result.outcome is DirectOutcome.CR_SUCCESS
