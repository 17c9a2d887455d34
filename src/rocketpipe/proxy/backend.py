"""What the gRPC service asks of the brokers behind it, whoever carries the question there.

A question is one of the typed requests of RocketMQ's other protocol (``SendMessage``,
``PopMessage``, ``AckMessage``, ``ChangeInvisibleTime``, ``SendMessageBack``, ``EndTransaction``,
``PullMessage``, ``QueryConsumerOffset``, ``RecallMessage`` …), asked of a broker by its name.
Inside a broker ``local`` hands it straight to the method that answers it; in a process of its own
``remote`` sends it on. What brokers ask of clients (how a transaction ended, how a consumer fares)
comes the other way, to the ``Client`` that was told of by a heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from rocketpipe.model.group import GroupSettings
from rocketpipe.model.route import TopicRoute
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.codes import Language
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.clients import HeartbeatData

ReplyT = TypeVar("ReplyT")


class Client(Protocol):
    """One gRPC client: who it is, and how it is asked something."""

    #: Whatever a backend keeps of it, from its first call until ``leave``.
    peer: Any

    @property
    def client_id(self) -> str: ...

    @property
    def address(self) -> str:
        """Where it comes from, ``host:port``."""

    @property
    def language(self) -> Language | None: ...

    @property
    def is_over(self) -> bool:
        """Whether it has left."""

    @property
    def is_slow(self) -> bool:
        """Whether it does not take what it is told."""

    def tell(self, request: Request[Any]) -> None:
        """Hand it what a broker tells one way: CheckTransactionState, NotifyConsumerIdsChanged.

        What means nothing to a gRPC client is dropped.

        Raises:
            ConnectionLost: If it has no telemetry stream now.
        """

    async def answer(self, request: Request[ReplyT], timeout_ms: int) -> ReplyT:
        """Have it answer what a broker asks: GetRunningInfo, ConsumeDirectly.

        Raises:
            RequestRejected: If it says no, or gRPC clients cannot be asked this.
            CallTimeout: If it does not answer in time.
            ConnectionLost: If it has no telemetry stream now.
        """


class Backend(Protocol):
    """The brokers behind the service. Names are those of brokers: a namespace is part of them."""

    @property
    def max_body_bytes(self) -> int:
        """The longest body that a send may have; clients are told."""

    @property
    def checks_message_types(self) -> bool:
        """Whether a topic takes messages of its own type only; clients are told."""

    def admit(self, metadata: Mapping[str, str], address: str, rpc: str) -> Any:
        """Say who asks, by what a call came with; None where everybody is let in.

        What it gives is handed back as ``by`` with all that the call asks.

        Raises:
            RequestRejected: If nobody is let in so.
        """

    async def route(self, topic: str, by: Any) -> TopicRoute:
        """Where a topic lives.

        Raises:
            RequestRejected: If there is no such topic (TOPIC_NOT_EXIST), or it is not theirs.
        """

    async def topic(self, name: str) -> TopicSettings | None:
        """A topic's settings, for its message type; None if it is unknown."""

    async def group(self, name: str) -> GroupSettings:
        """A group's settings, or those that it would be made with."""

    async def ask(
        self, broker: str, request: Request[ReplyT], client: Client, by: Any, timeout_ms: int
    ) -> ReplyT:
        """Have the broker of this name answer, as the leader of its name.

        Raises:
            RequestRejected: If it refuses; also if there is no such broker.
            CallTimeout: If it does not answer in time.
            ConnectionLost: If it is not there.
        """

    async def beat(self, client: Client, data: HeartbeatData, by: Any) -> None:
        """Tell every broker that a client is there, and what it produces and consumes.

        From now on, until ``leave``, they may ask it things; it is called again within half a
        minute for as long as the client is there.

        Raises:
            RequestRejected: If it may not, or its groups are none.
        """

    async def leave(self, client: Client) -> None:
        """Tell every broker that a client is gone, for all it did; never fails."""
