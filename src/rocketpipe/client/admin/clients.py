"""Clients that are connected: who they are, how they fare, and what one does with a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocketpipe.client.admin.fleet import Fleet, each
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.ids import OffsetId
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import Subscription
from rocketpipe.protocol.codes import Language, ResponseCode
from rocketpipe.protocol.requests.running import (
    ClientConnection,
    ConsumeDirectly,
    ConsumerConnections,
    DirectResult,
    GetAllProducers,
    GetConsumerConnections,
    GetOffsetsOfClients,
    GetProducerConnections,
    GetRunningInfo,
    ProducerInfo,
    RunningInfo,
)


class NotOnline(RocketPipeError):
    """Nobody consumes, or produces, for this group now; or this client does not."""

    def __init__(self, group: str, client_id: str | None = None) -> None:
        self.hint = "start it, or ask for another"
        who = f"client {client_id!r} of group {group!r}" if client_id else f"group {group!r}"
        super().__init__(f"{who} is not online at any broker: {self.hint}")
        self.group = group


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """One client, from where it is connected, and to which brokers."""

    client_id: str
    address: str | None
    language: Language | None
    version: int
    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConnectedGroup:
    """A group's members, and what they subscribed to."""

    name: str
    members: tuple[ConnectedClient, ...]
    consume_type: str | None
    model: str | None
    subscriptions: Mapping[str, Subscription]


class ClientAdmin:
    """Finds clients at their brokers, and asks them through these."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def consumers(self, group: str) -> ConnectedGroup:
        """Who consumes for a group, and what the group wants.

        Raises:
            NotOnline: If nobody does.
            ConnectionLost: If a server is out of reach.
        """
        found = await self._consumers(group)
        if not found:
            raise NotOnline(group)
        members = _merged({name: each.connections for name, each in found.items()})
        first = next(iter(found.values()))
        return ConnectedGroup(
            group,
            members,
            first.consume_type,
            first.message_model,
            {
                topic: wanted
                for each in found.values()
                for topic, wanted in sorted(each.subscriptions.items())
            },
        )

    async def producers(self, group: str) -> list[ConnectedClient]:
        """Who produces for a group.

        Raises:
            NotOnline: If nobody does.
            ConnectionLost: If a server is out of reach.
        """
        leaders = await self._fleet.leaders()

        async def ask(name: str) -> tuple[ClientConnection, ...]:
            request = GetProducerConnections(producer_group=group)
            try:
                return (await self._fleet.call(leaders[name], request)).group.connections
            except RequestRejected as error:
                if error.code != ResponseCode.SYSTEM_ERROR:
                    raise
                return ()  # so a broker says that there is none

        found = _merged(await each(leaders, ask))
        if not found:
            raise NotOnline(group)
        return list(found)

    async def all_producers(self, broker: str) -> dict[str, list[ProducerInfo]]:
        """Every producer that is connected to a broker, by its group.

        Raises:
            NoBroker: If there is no such broker, or it has no leader.
            ConnectionLost: If it is out of reach.
        """
        leaders = await self._fleet.leaders(broker=broker)
        reply = await self._fleet.call(leaders[broker], GetAllProducers())
        return {group: list(found) for group, found in sorted(reply.producers.groups.items())}

    async def running_info(
        self, group: str, client_id: str, *, stacks: bool = False
    ) -> RunningInfo:
        """How a consumer fares, in its own words; ``stacks`` has it tell where its threads are.

        Raises:
            NotOnline: If it is not connected.
            RequestRejected: If it cannot answer, or not in time.
            ConnectionLost: If a server is out of reach.
        """
        address = await self._address_of(group, client_id)
        request = GetRunningInfo(
            consumer_group=group, client_id=client_id, jstack_enable=stacks or None
        )
        return (await self._fleet.call(address, request)).info

    async def consume_directly(
        self, group: str, client_id: str, offset_id: str, *, topic: str | None = None
    ) -> DirectResult:
        """Have one consumer handle one message now, whoever handled it before.

        Nothing is committed, and a failure is not tried again.

        Raises:
            InvalidName: If it is no offset id.
            RequestRejected: If the client is not online, there is no such message, or the client
                does not answer in time.
            ConnectionLost: If the broker that has the message is out of reach.
        """
        place = OffsetId.parse(offset_id)
        request = ConsumeDirectly(
            consumer_group=group, client_id=client_id, msg_id=offset_id, topic=topic
        )
        # The broker that stores it puts it in, so the client has to be connected there.
        return (await self._fleet.call(str(place.host), request)).result

    async def places(
        self, group: str, topic: str, *, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, QueueOffset]]:
        """Where each consumer of a group says that it is in a topic, by client id.

        Raises:
            NotOnline: If nobody is there, or this client is not.
            ConnectionLost: If a server is out of reach.
        """
        leaders = await self._fleet.leaders()

        async def ask(name: str) -> dict[str, dict[MessageQueue, QueueOffset]]:
            request = GetOffsetsOfClients(topic=topic, group=group, client_addr=client_id)
            try:
                return (await self._fleet.call(leaders[name], request)).place.by_client
            except RequestRejected as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
                return {}

        found: dict[str, dict[MessageQueue, QueueOffset]] = {}
        for by_client in (await each(leaders, ask)).values():
            for name, places in by_client.items():
                found.setdefault(name, {}).update(places)
        if not found:
            raise NotOnline(group, client_id)
        return dict(sorted(found.items()))

    async def _consumers(self, group: str) -> dict[str, ConsumerConnections]:
        leaders = await self._fleet.leaders()

        async def ask(name: str) -> ConsumerConnections | None:
            request = GetConsumerConnections(consumer_group=group)
            try:
                return (await self._fleet.call(leaders[name], request)).group
            except RequestRejected as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
                return None

        replies = await each(leaders, ask)
        return {name: found for name, found in replies.items() if found is not None}

    async def _address_of(self, group: str, client_id: str) -> str:
        leaders = await self._fleet.leaders()
        for name, found in (await self._consumers(group)).items():
            if any(one.client_id == client_id for one in found.connections):
                return leaders[name]
        raise NotOnline(group, client_id)


def _merged(found: Mapping[str, tuple[ClientConnection, ...]]) -> tuple[ConnectedClient, ...]:
    """Clients with all the brokers that know them, in the order of their ids."""
    brokers: dict[str, list[str]] = {}
    seen: dict[str, ClientConnection] = {}
    for name, connections in found.items():
        for one in connections:
            seen.setdefault(one.client_id, one)
            brokers.setdefault(one.client_id, []).append(name)
    return tuple(
        ConnectedClient(
            client_id, one.client_addr, one.language, one.version, tuple(brokers[client_id])
        )
        for client_id, one in sorted(seen.items())
    )
