"""What a pull consumer tells its session: what it wants, and that it is a member of its group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from rocketpipe.client.consumer.group.subscriptions import look_up
from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer
from rocketpipe.client.consumer.pulling.report import PullReport
from rocketpipe.client.session import Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)
from rocketpipe.protocol.requests.clients import (
    CheckClientConfig,
    ConsumerData,
    SubscriptionCheck,
)
from rocketpipe.protocol.requests.running import RunningInfo


class PullMember:
    """A consumer as brokers see it.

    One that was assigned queues is no member of its group: brokers would count it, and the queues
    of its share would be read by nobody.
    """

    def __init__(
        self,
        session: Session,
        group: str,
        model: MessageModel,
        consume_from: ConsumeFromWhere,
        buffer: FetchBuffer,
    ) -> None:
        self._session = session
        self._group = group
        self._model = model
        self._consume_from = consume_from
        self._buffer = buffer
        self._report = PullReport(session, buffer)
        self.subscriptions: dict[str, Subscription] = {}
        #: What is wanted of queues that were assigned; None while nothing is.
        self.assigned: Subscription | None = None
        self._joined = False
        #: Who shares out anew, and who moves to another place in a queue.
        self.notify: Callable[[], None] = lambda: None
        self.go_on_from: Callable[[MessageQueue, QueueOffset], None] = lambda _queue, _offset: None

    def join(self) -> None:
        """Become part of the session, unless it is that already.

        Raises:
            GroupTaken: If another consumer of the session is in this group; nothing is wanted then.
        """
        if self._joined:
            return
        try:
            self._session.join(self)
        except RocketPipeError:
            self._want_nothing()
            raise
        self._joined = True

    async def leave(self) -> None:
        """Leave the group and the session; connected brokers are told."""
        await self._session.leave(self)
        self._joined = False
        self._want_nothing()

    def _want_nothing(self) -> None:
        self.subscriptions.clear()
        self.assigned = None

    def wanted(self, topic: str) -> Subscription | None:
        """What is wanted of a topic that is read here; None if it is read no more."""
        return self.subscriptions.get(topic) or self.assigned

    async def check_evaluates(self, wanted: Subscription) -> None:
        """Make sure that the brokers of a topic can evaluate what is wanted of it.

        As RocketMQ's clients do, a broker is asked only about expressions that are not of tags, and
        nobody is about a topic that is not there yet.

        Raises:
            ConnectionLost: If no NameServer can be reached.
            RequestRejected: If the broker cannot evaluate the expression.
        """
        session = self._session
        route = await look_up(session, wanted.topic, again="every 20 s")
        if route is None:
            return
        readable = [broker.readable for broker in route.brokers if broker.readable is not None]
        if wanted.is_tags or not readable:
            return
        check = SubscriptionCheck(
            client_id=session.client_id, group=self._group, subscription=wanted
        )
        address = session.chance.choice(readable)
        await session.caller.call(address, CheckClientConfig(check=check), session.timeout_ms)

    # As the session asks

    def producer_groups(self) -> Sequence[str]:
        """None: it only reads."""
        return ()

    def consumers(self) -> Sequence[ConsumerData]:
        """The group, as long as something is subscribed."""
        if not self.subscriptions:
            return ()
        data = ConsumerData(
            group_name=self._group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=self._model,
            consume_from_where=self._consume_from,
            subscriptions=tuple(self.subscriptions.values()),
        )
        return (data,)

    def topics(self) -> Collection[str]:
        """The topics whose routes matter here."""
        return {*self.subscriptions, *(queue.topic for queue in self._buffer.places)}

    def on_ids_changed(self, group: str) -> None:
        """Share out anew."""
        self.notify()

    def on_routes_changed(self, topic: str) -> None:
        """Share out anew, if it is a topic of ours."""
        if topic in self.subscriptions:
            self.notify()

    def on_offsets_reset(self, group: str, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """Go on where an operator says."""
        for queue, offset in offsets.items():
            self.go_on_from(queue, offset)

    def running_info(self, group: str, *, stacks: bool) -> RunningInfo:
        """How it fares, for an operator who asks."""
        return self._report.running_info(self.subscriptions.values(), stacks=stacks)

    def places(self, group: str, topic: str) -> Mapping[MessageQueue, QueueOffset]:
        """How far it has come in what it reads of a topic."""
        return self._report.places(topic)
