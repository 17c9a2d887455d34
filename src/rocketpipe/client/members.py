"""What a producer or consumer tells the session it is part of, and is told by it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.callbacks import CheckTransactionState, PushReplyMessage
from rocketpipe.protocol.requests.clients import ConsumerData
from rocketpipe.protocol.requests.running import DirectResult, RunningInfo
from rocketpipe.record.codec import RecordView


class Member(Protocol):
    """A producer or consumer of a session. None of these may wait: they are called in passing."""

    def producer_groups(self) -> Sequence[str]:
        """The groups it produces for; brokers ask members of them about transactions."""
        ...

    def consumers(self) -> Sequence[ConsumerData]:
        """The groups it consumes for, with all it subscribes to now."""
        ...

    def topics(self) -> Collection[str]:
        """The topics whose routes it wants to be kept fresh."""
        ...

    def on_ids_changed(self, group: str) -> None:
        """A broker says that ``group`` gained or lost a member: time to rebalance."""
        ...

    def on_routes_changed(self, topic: str) -> None:
        """A topic has other queues or brokers than before, or was found or lost."""
        ...


@runtime_checkable
class TellsRunning(Protocol):
    """A consumer that can say how it fares."""

    def running_info(self, group: str, *, stacks: bool) -> RunningInfo:
        """Its queues, its rates, and where its threads and tasks are if ``stacks`` are wanted."""
        ...

    def places(self, group: str, topic: str) -> Mapping[MessageQueue, QueueOffset]:
        """How far it has come in the queues that it holds of a topic."""
        ...


@runtime_checkable
class ConsumesDirectly(Protocol):
    """A consumer that handles a message on demand, apart from those that it fetched."""

    async def consume_directly(self, record: bytes, broker_name: str) -> DirectResult:
        """Have the record handled, and tell what came of it.

        Raises:
            RecordError: If it is no record.
        """
        ...


@runtime_checkable
class TakesResets(Protocol):
    """A member that goes on elsewhere when an operator says so."""

    def on_offsets_reset(self, group: str, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """A broker says where the group goes on in each of these queues."""
        ...


@runtime_checkable
class AnswersChecks(Protocol):
    """A producer that can say how its transactions ended."""

    def on_transaction_check(
        self, question: CheckTransactionState, message: RecordView, address: str
    ) -> None:
        """The broker at ``address`` asks about a half message; what it is told follows later."""
        ...


@runtime_checkable
class TakesReplies(Protocol):
    """A producer that asks questions."""

    def on_reply(self, pushed: PushReplyMessage) -> bool:
        """A broker hands over a reply; False if nobody here waits for it.

        Raises:
            RecordError: If its body cannot be read.
        """
        ...
