"""A push consumer as its session, and by that the brokers, see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rocketpipe.client.consumer.group.subscriptions import Subscriptions
from rocketpipe.client.consumer.popping.flow import PopFlow
from rocketpipe.client.consumer.pushing.flow import PullFlow
from rocketpipe.client.consumer.pushing.plan import PushPlan
from rocketpipe.client.consumer.pushing.report import PushReport
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeType
from rocketpipe.protocol.requests.clients import ConsumerData
from rocketpipe.protocol.requests.running import DirectResult, RunningInfo


class PushMember:
    """Tells the session what a consumer is, and hands on what brokers say; see ``Member``."""

    def __init__(self, plan: PushPlan, subscriptions: Subscriptions, report: PushReport) -> None:
        self._plan = plan
        self._subscriptions = subscriptions
        self._report = report
        #: How it gets its messages, once that has begun.
        self.flow: PullFlow | PopFlow | None = None

    def producer_groups(self) -> Sequence[str]:
        """It produces for nobody."""
        return ()

    def consumers(self) -> Sequence[ConsumerData]:
        """Its group, and all it subscribes to."""
        return (
            ConsumerData(
                group_name=self._plan.group,
                consume_type=ConsumeType.CONSUME_PASSIVELY,
                message_model=self._plan.model,
                consume_from_where=self._plan.start.where,
                subscriptions=tuple(self._subscriptions),
            ),
        )

    def topics(self) -> Collection[str]:
        """What it reads: the topics of its handlers, and what comes again."""
        return self._subscriptions.topics

    def on_ids_changed(self, group: str) -> None:
        """Share the queues out anew."""
        if self.flow is not None and group == self._plan.group:
            self.flow.notify()

    def on_routes_changed(self, topic: str) -> None:
        """Share the queues out anew."""
        if self.flow is not None and topic in self._subscriptions.topics:
            self.flow.notify()

    def on_offsets_reset(self, group: str, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """Go on where an operator says; who pops has no places, its broker moves them."""
        if isinstance(self.flow, PullFlow) and group == self._plan.group:
            self.flow.moved(offsets)

    def running_info(self, group: str, *, stacks: bool) -> RunningInfo:
        """How it fares, for an operator who asks."""
        return self._report.running_info(stacks=stacks)

    def places(self, group: str, topic: str) -> Mapping[MessageQueue, QueueOffset]:
        """How far it has come in what it holds of a topic."""
        return self._report.places(topic)

    async def consume_directly(self, record: bytes, broker_name: str) -> DirectResult:
        """Have a message handled that an operator chose.

        Raises:
            RecordError: If it is no record.
        """
        return await self._report.consume(record, broker_name)
