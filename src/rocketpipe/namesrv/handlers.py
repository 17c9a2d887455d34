"""What a NameServer answers: brokers register, clients ask for routes."""

from __future__ import annotations

from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.route import LEADER_ID
from rocketpipe.namesrv.route_table import BrokerKey, RouteTable
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.registration import read_registration, registration_crc
from rocketpipe.protocol.requests.routes import (
    ClusterInfoReply,
    GetBrokerClusterInfo,
    GetRouteInfoByTopic,
    RegisterBroker,
    RegisterBrokerReply,
    RouteReply,
    UnregisterBroker,
)
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import Call, handles


class RouteHandlers:
    """Keeps the route table as brokers come and go, and reads it to clients."""

    def __init__(self, routes: RouteTable, clock: Clock) -> None:
        self._routes = routes
        self._clock = clock
        self._brokers: dict[PeerConnection, BrokerKey] = {}

    @handles(RegisterBroker)
    async def register(self, request: RegisterBroker, call: Call) -> RegisterBrokerReply:
        if request.body_crc32 and request.body_crc32 != registration_crc(request.body):
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        registration = read_registration(
            request.body, compressed=request.compressed, version=call.command.version
        )
        broker = BrokerKey(request.cluster_name, request.broker_name, request.broker_id)
        topics = registration.topic_table.topics
        self._routes.register(broker, request.broker_addr, topics, self._clock.now_ms())
        self._brokers[call.peer] = broker
        if request.broker_id == LEADER_ID:
            return RegisterBrokerReply()
        return RegisterBrokerReply(master_addr=self._routes.leader_address(request.broker_name))

    @handles(UnregisterBroker)
    async def unregister(self, request: UnregisterBroker, call: Call) -> None:
        broker = BrokerKey(request.cluster_name, request.broker_name, request.broker_id)
        self._routes.unregister(broker)
        self._brokers.pop(call.peer, None)

    @handles(GetRouteInfoByTopic)
    async def route(self, request: GetRouteInfoByTopic, call: Call) -> RouteReply:
        route = self._routes.route(request.topic)
        if route is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {request.topic}",
            )
        return RouteReply(route=route)

    @handles(GetBrokerClusterInfo)
    async def everyone(self, request: GetBrokerClusterInfo, call: Call) -> ClusterInfoReply:
        return ClusterInfoReply(cluster_brokers=self._routes.everyone())

    def forget_peer(self, peer: PeerConnection) -> None:
        """A connection ended; if it was a broker's, so did the broker."""
        broker = self._brokers.pop(peer, None)
        if broker is not None and broker not in self._brokers.values():
            self._routes.unregister(broker)
