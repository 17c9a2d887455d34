"""What a NameServer answers to clients and operators; brokers are answered in ``registering``."""

from __future__ import annotations

import logging

import msgspec

from rocketpipe.clock import Clock
from rocketpipe.config.conf_file import conf_values
from rocketpipe.config.live import SettingForbidden, SettingRefused
from rocketpipe.errors import ConfigError, InvalidName, RequestRejected
from rocketpipe.model.names import MAX_RETRY_TOPIC
from rocketpipe.namesrv.config import LiveSettings
from rocketpipe.namesrv.kv import KeyValuesFull, KeyValueStore
from rocketpipe.namesrv.route_table import RegistrationRefused, RouteTable
from rocketpipe.protocol.codes import PeerVersion, ResponseCode
from rocketpipe.protocol.requests.kv import (
    ORDER_NAMESPACE,
    DeleteKeyValue,
    GetKeyValue,
    GetKeyValues,
    GetNamesrvConfig,
    KeyValueReply,
    KeyValuesReply,
    NamesrvConfigReply,
    PutKeyValue,
    UpdateNamesrvConfig,
)
from rocketpipe.protocol.requests.routes import (
    AddWritePerm,
    AddWritePermReply,
    BareKeyRouteReply,
    ClusterInfoReply,
    DeleteTopicInNamesrv,
    GetAllTopics,
    GetBrokerClusterInfo,
    GetRouteInfoByTopic,
    GetSystemTopics,
    GetTopicsByCluster,
    GetUnitSubscribedPlainTopics,
    GetUnitSubscribedTopics,
    GetUnitTopics,
    KeyValues,
    RegisterTopicInNamesrv,
    RouteReply,
    TopicNames,
    TopicNamesReply,
    WipeWritePerm,
    WipeWritePermReply,
)
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.files.disk import DiskError

log = logging.getLogger(__name__)

#: Whoever may ask could fill a disk with what is said about it; operators do less in a minute.
_acts = LogBudget(lines=200)
_refusals = LogBudget()


class RouteHandlers:
    """Reads the route table to clients."""

    def __init__(
        self, routes: RouteTable, values: KeyValueStore, settings: LiveSettings, clock: Clock
    ) -> None:
        self._routes = routes
        self._values = values
        self._settings = settings
        self._clock = clock
        self._started_ms = clock.monotonic_ms()

    @handles(GetRouteInfoByTopic)
    async def route(self, request: GetRouteInfoByTopic, call: Call) -> RouteReply:
        settings = self._settings.now
        up_ms = self._clock.monotonic_ms() - self._started_ms
        if settings.wait_for_brokers and up_ms < settings.wait_for_brokers_s * 1000:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "name server not ready")
        route = self._routes.route(request.topic)
        if route is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                "No topic route info in name server for the topic: "
                + request.topic[:MAX_RETRY_TOPIC],
            )
        if settings.order_enabled:
            order_conf = self._values.get(ORDER_NAMESPACE, request.topic)
            route = msgspec.structs.replace(route, order_conf=order_conf)
        if call.command.version >= PeerVersion.V4_9_4 or request.accept_standard_json_only:
            return RouteReply(route=route)
        return BareKeyRouteReply(route=route)

    @handles(GetBrokerClusterInfo)
    async def everyone(self, request: GetBrokerClusterInfo, call: Call) -> ClusterInfoReply:
        return ClusterInfoReply(cluster_brokers=self._routes.everyone())

    @handles(GetAllTopics)
    async def all_topics(self, request: GetAllTopics, call: Call) -> TopicNamesReply:
        if not self._settings.now.list_all_topics:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "disable: enableAllTopicList is false")
        return _named(self._routes.topics())

    @handles(GetTopicsByCluster)
    async def by_cluster(self, request: GetTopicsByCluster, call: Call) -> TopicNamesReply:
        self._check_listing()
        return _named(self._routes.topics_of_cluster(request.cluster))

    @handles(GetSystemTopics)
    async def system_topics(self, request: GetSystemTopics, call: Call) -> TopicNamesReply:
        topics, address = self._routes.system_topics()
        return TopicNamesReply(names=TopicNames(topics=topics, broker_addr=address))

    @handles(GetUnitTopics)
    async def unit_topics(self, request: GetUnitTopics, call: Call) -> TopicNamesReply:
        self._check_listing()
        return _named(self._routes.unit_topics(unit=True, subscribed=None))

    @handles(GetUnitSubscribedTopics)
    async def unit_subscribed(
        self, request: GetUnitSubscribedTopics, call: Call
    ) -> TopicNamesReply:
        self._check_listing()
        return _named(self._routes.unit_topics(unit=None, subscribed=True))

    @handles(GetUnitSubscribedPlainTopics)
    async def unit_subscribed_plain(
        self, request: GetUnitSubscribedPlainTopics, call: Call
    ) -> TopicNamesReply:
        self._check_listing()
        return _named(self._routes.unit_topics(unit=False, subscribed=True))

    def _check_listing(self) -> None:
        if not self._settings.now.list_topics:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "disable: enableTopicList is false")


class OperatorHandlers:
    """Changes routes and settings as operators ask."""

    def __init__(self, routes: RouteTable, settings: LiveSettings) -> None:
        self._routes = routes
        self._settings = settings

    @handles(WipeWritePerm)
    async def wipe(self, request: WipeWritePerm, call: Call) -> WipeWritePermReply:
        count = self._routes.wipe_write_perm(request.broker_name)
        _log_act(call, "write permission wiped", request.broker_name, f"topics={count}")
        return WipeWritePermReply(wipe_topic_count=count)

    @handles(AddWritePerm)
    async def add(self, request: AddWritePerm, call: Call) -> AddWritePermReply:
        count = self._routes.add_write_perm(request.broker_name)
        _log_act(call, "write permission added", request.broker_name, f"topics={count}")
        return AddWritePermReply(add_topic_count=count)

    @handles(DeleteTopicInNamesrv)
    async def delete_topic(self, request: DeleteTopicInNamesrv, call: Call) -> None:
        count = self._routes.delete_topic(request.topic, request.cluster_name or None)
        _log_act(call, "route deleted", request.topic, f"brokers={count}")

    @handles(RegisterTopicInNamesrv)
    async def add_topic(self, request: RegisterTopicInNamesrv, call: Call) -> None:
        try:
            self._routes.add_topic(request.topic, request.route.queues)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        except RegistrationRefused as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        _log_act(call, "route added", request.topic, f"brokers={len(request.route.queues)}")

    @handles(UpdateNamesrvConfig)
    async def change_settings(self, request: UpdateNamesrvConfig, call: Call) -> None:
        try:
            changed = self._settings.change(conf_values(request.properties, "settings"))
        except SettingForbidden as error:
            if _refusals.allows():
                log.warning(
                    "setting not changed peer=%s reason=%s%s",
                    call.peer.address,
                    error,
                    _refusals.suppressed(),
                )
            raise RequestRejected(ResponseCode.NO_PERMISSION, str(error)) from error
        except (SettingRefused, ConfigError) as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        for key, value in changed.items():
            _log_act(call, "setting changed", key, f"value={value}")

    @handles(GetNamesrvConfig)
    async def settings(self, request: GetNamesrvConfig, call: Call) -> NamesrvConfigReply:
        return NamesrvConfigReply(properties=self._settings.text().encode())


class KeyValueHandlers:
    """Keeps values for others, and reads them back."""

    def __init__(self, values: KeyValueStore) -> None:
        self._values = values

    @handles(PutKeyValue)
    async def put(self, request: PutKeyValue, call: Call) -> None:
        try:
            await self._values.put(request.namespace, request.key, request.value)
        except KeyValuesFull as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        except DiskError as error:
            raise _not_written(error) from error

    @handles(GetKeyValue)
    async def get(self, request: GetKeyValue, call: Call) -> KeyValueReply:
        value = self._values.get(request.namespace, request.key)
        if value is None:
            raise RequestRejected(
                ResponseCode.QUERY_NOT_FOUND,
                f"No config item, Namespace: {request.namespace[:80]} Key: {request.key[:80]}",
            )
        return KeyValueReply(value=value)

    @handles(DeleteKeyValue)
    async def delete(self, request: DeleteKeyValue, call: Call) -> None:
        try:
            await self._values.delete(request.namespace, request.key)
        except DiskError as error:
            raise _not_written(error) from error

    @handles(GetKeyValues)
    async def all(self, request: GetKeyValues, call: Call) -> KeyValuesReply:
        values = self._values.all(request.namespace)
        if values is None:
            raise RequestRejected(
                ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {request.namespace[:80]}"
            )
        return KeyValuesReply(values=KeyValues(table=dict(values)))


def _named(topics: frozenset[str]) -> TopicNamesReply:
    return TopicNamesReply(names=TopicNames(topics=topics))


def _log_act(call: Call, event: str, subject: str, facts: str) -> None:
    if _acts.allows():
        log.info(
            "%s peer=%s subject=%r %s%s",
            event,
            call.peer.address,
            subject[:255],
            facts,
            _acts.suppressed(),
        )


def _not_written(error: DiskError) -> RequestRejected:
    # Where the file is, is not for whoever asks.
    log.error("key-values not written reason=%s", error)
    return RequestRejected(
        ResponseCode.SYSTEM_ERROR,
        "the key-values could not be written, so nothing was changed: the name server's log says "
        "why",
    )
