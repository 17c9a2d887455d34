"""Answers to clients that say who they are, and ask who else is there."""

from __future__ import annotations

from typing import cast

from rocketpipe.broker.registration import Registrar
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import ConnectionLost, InvalidName, RequestRejected
from rocketpipe.model.names import check_group, retry_topic
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.callbacks import NotifyConsumerIdsChanged
from rocketpipe.protocol.requests.clients import (
    ConsumerIds,
    ConsumerListReply,
    GetConsumerListByGroup,
    Heartbeat,
    HeartbeatReply,
    UnregisterClient,
)
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import Call, handles


class ClientHandlers:
    """Keeps track of consumer groups, and tells their members when they change."""

    def __init__(
        self, clients: ClientTable, topics: TopicTable, registrar: Registrar, clock: Clock
    ) -> None:
        self._clients = clients
        self._topics = topics
        self._registrar = registrar
        self._clock = clock

    @handles(Heartbeat)
    async def heartbeat(self, request: Heartbeat, call: Call) -> HeartbeatReply:
        joined: list[str] = []
        for consumer in request.data.consumers:
            try:
                check_group(consumer.group_name)
            except InvalidName as error:
                raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
            if self._clients.join(consumer.group_name, call.peer, request.data.client_id):
                joined.append(consumer.group_name)
        for group in joined:
            topic = retry_topic(group)
            if self._topics.get(topic) is None:
                self._topics.create_retry_topic(topic, self._clock.now_ms())
        if joined:
            # Clients look for the retry topic's route right after this answer.
            await self._registrar.register()
        for group in joined:
            self._notify(group)
        return HeartbeatReply()

    @handles(UnregisterClient)
    async def unregister(self, request: UnregisterClient, call: Call) -> None:
        group = request.consumer_group
        if group and self._clients.leave(group, call.peer):
            self._notify(group)

    @handles(GetConsumerListByGroup)
    async def members(self, request: GetConsumerListByGroup, call: Call) -> ConsumerListReply:
        members = self._clients.members(request.consumer_group)
        if not members:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"no consumer for this group, {request.consumer_group}",
            )
        return ConsumerListReply(members=ConsumerIds(consumer_ids=tuple(members)))

    def forget_peer(self, peer: PeerConnection) -> None:
        """A connection ended: its groups have one member less."""
        for group in self._clients.disconnect(peer):
            self._notify(group)

    def _notify(self, group: str) -> None:
        for connection in self._clients.connections(group):
            try:
                cast("PeerConnection", connection).tell(
                    NotifyConsumerIdsChanged(consumer_group=group)
                )
            except ConnectionLost:
                continue  # it is about to be forgotten, and the others told then
