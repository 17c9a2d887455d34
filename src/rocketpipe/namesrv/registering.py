"""What a NameServer answers to brokers: they register, say that they are still there, and leave."""

from __future__ import annotations

from typing import Final

from rocketpipe.errors import InvalidName, RequestRejected
from rocketpipe.model import names
from rocketpipe.model.route import LEADER_ID
from rocketpipe.namesrv.config import LiveSettings
from rocketpipe.namesrv.kv import KeyValueStore
from rocketpipe.namesrv.membership import Membership
from rocketpipe.namesrv.route_table import Announcement, RegistrationRefused, RouteTable
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.kv import ORDER_NAMESPACE
from rocketpipe.protocol.requests.membership import (
    BrokerHeartbeat,
    BrokerMembers,
    DataVersionReply,
    GetBrokerMemberGroup,
    MemberGroup,
    MemberGroupReply,
    QueryDataVersion,
)
from rocketpipe.protocol.requests.registration import (
    Registration,
    read_registration,
    registration_crc,
)
from rocketpipe.protocol.requests.routes import (
    KeyValues,
    RegisterBroker,
    RegisterBrokerReply,
    UnregisterBroker,
)
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.router import Call, handles

#: Peers put it among the header fields, though no header class has it.
_ZONE_FIELD: Final = "__ZONE_NAME"
_LONGEST_ADDRESS: Final = 255


class RegistrationHandlers:
    """Takes what brokers say of themselves, and tells them of each other."""

    def __init__(
        self,
        membership: Membership,
        routes: RouteTable,
        values: KeyValueStore,
        settings: LiveSettings,
    ) -> None:
        self._membership = membership
        self._routes = routes
        self._values = values
        self._settings = settings

    @handles(RegisterBroker)
    async def register(self, request: RegisterBroker, call: Call) -> RegisterBrokerReply:
        if request.body_crc32 and request.body_crc32 != registration_crc(request.body):
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                "crc32 not match: the registration was damaged; send it again",
            )
        told = _announcement(request, call)
        try:
            outcome = self._membership.register(told, call.peer, request.heartbeat_timeout_millis)
        except RegistrationRefused as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        leader = outcome.leader if request.broker_id != LEADER_ID else None
        return RegisterBrokerReply(
            ha_server_addr=leader.ha_address if leader is not None else None,
            master_addr=leader.address if leader is not None else None,
            order_settings=self._order_settings(),
        )

    @handles(UnregisterBroker)
    async def unregister(self, request: UnregisterBroker, call: Call) -> None:
        self._membership.unregister(request.cluster_name, request.broker_name, request.broker_addr)

    @handles(QueryDataVersion)
    async def version(self, request: QueryDataVersion, call: Call) -> DataVersionReply:
        member = self._membership.beat(request.cluster_name, request.broker_addr)
        if member is None:
            return DataVersionReply(changed=True)
        return DataVersionReply(changed=member.version != request.version, version=member.version)

    @handles(BrokerHeartbeat)
    async def heartbeat(self, request: BrokerHeartbeat, call: Call) -> None:
        self._membership.beat(request.cluster_name, request.broker_addr)

    @handles(GetBrokerMemberGroup)
    async def members(self, request: GetBrokerMemberGroup, call: Call) -> MemberGroupReply:
        return MemberGroupReply(
            group=MemberGroup(
                members=BrokerMembers(
                    cluster=request.cluster_name,
                    broker_name=request.broker_name,
                    addresses=dict(self._routes.members(request.broker_name)),
                )
            )
        )

    def _order_settings(self) -> KeyValues | None:
        if not self._settings.now.order_to_brokers:
            return None
        values = self._values.all(ORDER_NAMESPACE)
        return KeyValues(table=dict(values)) if values is not None else None


def _announcement(request: RegisterBroker, call: Call) -> Announcement:
    zone = call.command.fields.get(_ZONE_FIELD)
    try:
        names.check_broker(request.broker_name)
        names.check_broker(request.cluster_name, "cluster")
        if zone is not None:
            names.check_broker(zone, "zone")
    except InvalidName as error:
        raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
    _check_address(request.broker_addr)
    if request.ha_server_addr:
        _check_address(request.ha_server_addr)
    if request.broker_id < LEADER_ID:
        raise RequestRejected(
            ResponseCode.INVALID_PARAMETER,
            f"brokerId {request.broker_id}: a leader is 0, followers count from 1",
        )
    registration = (
        read_registration(request.body, compressed=request.compressed, version=call.command.version)
        if request.body
        else Registration()
    )
    table = registration.topic_table
    return Announcement(
        cluster=request.cluster_name,
        name=request.broker_name,
        broker_id=request.broker_id,
        address=request.broker_addr,
        ha_address=request.ha_server_addr,
        zone=zone,
        acting_leader=request.enable_acting_master,
        version=table.version,
        topics=table.topics,
        mappings=table.mappings,
        filter_servers=registration.filter_servers,
    )


def _check_address(address: str) -> None:
    reason = ""
    if len(address) > _LONGEST_ADDRESS or not address.isprintable():
        reason = f"{address[:80]!r} is no address"
    else:
        try:
            split_address(address)
        except ValueError as error:
            reason = str(error)
    if reason:
        raise RequestRejected(
            ResponseCode.INVALID_PARAMETER, f"{reason}: a broker registers as host:port"
        )
