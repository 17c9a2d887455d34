"""The backend inside a broker: what clients ask goes straight to the method that answers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from rocketpipe.broker.broker import Inside
from rocketpipe.errors import ConnectionLost, RequestRejected
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.host import Host
from rocketpipe.model.route import LEADER_ID, BrokerAddresses, BrokerQueues, TopicRoute
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import (
    Request,
    from_command,
    read_reply,
    to_command,
    to_reply,
)
from rocketpipe.protocol.requests.clients import Heartbeat, HeartbeatData
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.protocol.requests.running import ConsumeDirectly, GetRunningInfo
from rocketpipe.proxy.backend import Client
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection, Write

ReplyT = TypeVar("ReplyT")

_LIMITS: Final = ConnectionLimits()
#: What brokers pass on to a client.
_ASKED: Final[Mapping[int, type[Request[Any]]]] = {
    code: kind for kind in (GetRunningInfo, ConsumeDirectly) for code in kind.codes
}


class ClientPeer(PeerConnection):
    """A gRPC client as a broker's handlers see one: a peer, though it has no socket here."""

    def __init__(self, client: Client) -> None:
        super().__init__(_never_answers, limits=_LIMITS)
        self._client = client
        self.address = client.address
        self._packed: tuple[str, bytes] | None = None

    @property
    def is_open(self) -> bool:
        return not self._client.is_over

    @property
    def is_slow(self) -> bool:
        return self._client.is_slow

    @property
    def packed_host(self) -> bytes:
        if self._packed is None or self._packed[0] != self.address:
            self._packed = (self.address, Host.parse(self.address).pack())
        return self._packed[1]

    async def drained(self) -> None:
        """Return at once: a stream waits for its own reader."""

    async def call(
        self, request: Request[ReplyT], timeout_ms: int, write: Write | None = None
    ) -> ReplyT:
        """Ask the client, by the request that travels under the same code.

        What a broker passes on for others may be of a class of its own.
        """
        command = to_command(request, 0)
        kind = _ASKED.get(command.code)
        asked: Request[Any] = request if kind is None else from_command(kind, command)
        answer = to_reply(command, await self._client.answer(asked, timeout_ms))
        return read_reply(request, answer)

    def tell(self, request: Request[Any]) -> None:
        self._client.tell(request)

    def close(self) -> None:
        """Leave it: it was silent for too long, and its session knows that too."""

    def abort(self) -> None:
        """The same."""


async def _never_answers(command: Command, peer: PeerConnection) -> Command:
    raise ConnectionLost(peer.address, "no commands come this way")


class LocalBackend:
    """One broker: the one in whose process this is."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside

    @property
    def max_body_bytes(self) -> int:
        """The longest body that a send may have."""
        return self._inside.core().settings.now.max_message_bytes

    @property
    def checks_message_types(self) -> bool:
        """Whether a topic takes messages of its own type only."""
        return self._inside.core().settings.now.check_message_types

    def admit(self, metadata: Mapping[str, str], address: str, rpc: str) -> Any:
        """Say who asks; None where everybody is let in.

        Raises:
            RequestRejected: If nobody is let in so.
        """
        gate = self._inside.core().gate
        return None if gate is None else gate.admit_call(metadata, address, rpc)

    async def route(self, topic: str, by: Any) -> TopicRoute:
        """Where a topic lives: here.

        Raises:
            RequestRejected: If it is not there, or not theirs.
        """
        core = self._inside.core()
        if core.gate is not None:
            core.gate.allow(by, GetRouteInfoByTopic(topic=topic))
        settings = core.tables.topics.get(topic)
        if settings is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {topic} is not there: make it with `rocketpipe topic create {topic}`",
            )
        config = core.settings.now
        return TopicRoute(
            queues=(
                BrokerQueues(
                    broker_name=config.name,
                    read_queues=settings.read_queues,
                    write_queues=settings.write_queues,
                    perm=settings.perm & config.permission,
                ),
            ),
            brokers=(
                BrokerAddresses(
                    cluster=config.cluster,
                    broker_name=config.name,
                    addresses={LEADER_ID: core.address},
                ),
            ),
        )

    async def topic(self, name: str) -> TopicSettings | None:
        """A topic's settings; None if it is unknown."""
        return self._inside.core().tables.topics.get(name)

    async def group(self, name: str) -> GroupSettings:
        """A group's settings, or those that it would be made with."""
        return self._inside.core().tables.groups.get(name) or GroupSettings(name=name)

    async def ask(
        self, broker: str, request: Request[ReplyT], client: Client, by: Any, timeout_ms: int
    ) -> ReplyT:
        """Have the broker answer.

        Raises:
            RequestRejected: If it refuses, or another one is meant.
        """
        name = self._inside.core().config.name
        if broker != name:
            raise RequestRejected(
                ResponseCode.BROKER_NOT_EXIST, f"broker {broker[:127]} is not here: this is {name}"
            )
        return await self._inside.ask(request, self._peer(client), by, client.language)

    async def beat(self, client: Client, data: HeartbeatData, by: Any) -> None:
        """Have the broker know a client.

        Raises:
            RequestRejected: If it may not, or its groups are none.
        """
        await self._inside.ask(Heartbeat(data=data), self._peer(client), by, client.language)

    async def leave(self, client: Client) -> None:
        """Have the broker forget a client."""
        if client.peer is not None:
            self._inside.forget_peer(client.peer)
            client.peer = None

    def _peer(self, client: Client) -> PeerConnection:
        peer: ClientPeer | None = client.peer
        if peer is None:
            peer = client.peer = ClientPeer(client)
        elif peer.address != client.address:
            peer.address = client.address
        return peer
