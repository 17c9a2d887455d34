"""What a producer or consumer tells the session it is part of, and is told by it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.clients import ConsumerData


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
class TakesResets(Protocol):
    """A member that goes on elsewhere when an operator says so."""

    def on_offsets_reset(self, group: str, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """A broker says where the group goes on in each of these queues."""
        ...
