"""What a NameServer answers to clients and operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.errors import RequestRejected
from rocketpipe.model.route import BrokerQueues, TopicRoute
from rocketpipe.protocol.codes import PeerVersion, RequestCode, ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.protocol.requests.kv import (
    DeleteKeyValue,
    GetKeyValue,
    GetKeyValues,
    GetNamesrvConfig,
    PutKeyValue,
    UpdateNamesrvConfig,
)
from rocketpipe.protocol.requests.routes import (
    AddWritePerm,
    DeleteTopicInNamesrv,
    GetAllTopics,
    GetBrokerClusterInfo,
    GetRouteInfoByTopic,
    GetSystemTopics,
    GetTopicsByCluster,
    GetUnitSubscribedPlainTopics,
    GetUnitSubscribedTopics,
    GetUnitTopics,
    RegisterTopicInNamesrv,
    WipeWritePerm,
)
from rocketpipe.store.files.disk import Disk, DiskError

Desks = Callable[..., Any]

ROUTE = GetRouteInfoByTopic(topic="t")


async def refused(asking: Any) -> RequestRejected:
    with pytest.raises(RequestRejected) as caught:
        await asking
    return caught.value


async def body_of(desk: Any, request: Request[Any], version: int) -> bytes:
    plain = to_command(request, 1)
    command = Command(code=plain.code, opaque=1, fields=plain.fields, version=version)
    answer: Command = await desk.answer(command)
    assert answer.code == 0
    return answer.body


async def test_an_unknown_topic_is_refused_in_the_words_clients_show(desk: Desks) -> None:
    error = await refused(desk().ask(GetRouteInfoByTopic(topic="nowhere")))
    assert error.code == ResponseCode.TOPIC_NOT_EXIST
    assert error.remark == "No topic route info in name server for the topic: nowhere"


async def test_a_name_of_any_length_is_not_given_back_in_full(desk: Desks) -> None:
    error = await refused(desk().ask(GetRouteInfoByTopic(topic="x" * 10_000)))
    assert len(error.remark) < 400


@pytest.mark.parametrize(
    ("version", "asks_for_standard", "bare"),
    [
        (PeerVersion.V4_9_4 - 1, None, True),
        (PeerVersion.V4_9_4 - 1, False, True),
        (PeerVersion.V4_9_4 - 1, True, False),
        (PeerVersion.V4_9_4, None, False),
        (PeerVersion.V5_3_1, None, False),
        (0, None, True),
    ],
)
async def test_broker_ids_are_bare_keys_for_old_peers_that_do_not_ask_for_standard_json(
    desk: Desks, version: int, asks_for_standard: bool | None, bare: bool
) -> None:
    made = desk()
    await made.register()
    ask = GetRouteInfoByTopic(topic="t", accept_standard_json_only=asks_for_standard)
    body = await body_of(made, ask, version)
    key = b"0" if bare else b'"0"'
    assert body == (
        b'{"brokerDatas":[{"brokerAddrs":{' + key + b':"10.0.0.0:10911"},"brokerName":"broker-a",'
        b'"cluster":"c","enableActingMaster":false}],"filterServerTable":{},"queueDatas":['
        b'{"brokerName":"broker-a","perm":6,"readQueueNums":16,"topicSysFlag":0,'
        b'"writeQueueNums":16}]}'
    )


async def test_routes_wait_for_brokers_if_the_settings_say_so(desk: Desks) -> None:
    made = desk(wait_for_brokers=True)
    await made.register()
    await made.clock.advance(44_999)
    error = await refused(made.ask(ROUTE))
    assert (error.code, error.remark) == (ResponseCode.SYSTEM_ERROR, "name server not ready")
    await made.clock.advance(1)
    assert (await made.ask(ROUTE)).route.queues


async def test_a_topic_ordered_across_brokers_says_so_if_the_settings_do(desk: Desks) -> None:
    for enabled, expected in [(True, "broker-a:4"), (False, None)]:
        made = desk(order_enabled=enabled)
        await made.register()
        await made.ask(PutKeyValue(namespace="ORDER_TOPIC_CONFIG", key="t", value="broker-a:4"))
        assert (await made.ask(ROUTE)).route.order_conf == expected


async def test_every_broker_is_named_by_its_cluster(desk: Desks) -> None:
    made = desk()
    assert (await made.ask(GetBrokerClusterInfo())).cluster_brokers.clusters == {}
    await made.register(number=0)
    await made.register(number=1)
    reply = await made.ask(GetBrokerClusterInfo())
    assert reply.cluster_brokers.clusters == {"c": ("broker-a",)}
    (members,) = reply.cluster_brokers.members("c").values()
    assert members.addresses == {0: "10.0.0.0:10911", 1: "10.0.0.1:10911"}


LISTS: list[tuple[Request[Any], set[str]]] = [
    (GetAllTopics(), {"plain", "unit", "sub", "both"}),
    (GetTopicsByCluster(cluster="c"), {"plain", "unit", "sub", "both"}),
    (GetTopicsByCluster(cluster="nowhere"), set()),
    (GetUnitTopics(), {"unit", "both"}),
    (GetUnitSubscribedTopics(), {"sub", "both"}),
    (GetUnitSubscribedPlainTopics(), {"sub"}),
    (GetSystemTopics(), {"c", "broker-a"}),
]


@pytest.mark.parametrize(("request_", "expected"), LISTS)
async def test_lists_of_topics(desk: Desks, request_: Request[Any], expected: set[str]) -> None:
    made = desk()
    await made.register("plain", "unit", "sub", "both", flags={"unit": 1, "sub": 2, "both": 3})
    reply = await made.ask(request_)
    assert reply.names.topics == expected
    system = isinstance(request_, GetSystemTopics)
    assert reply.names.broker_addr == ("10.0.0.0:10911" if system else None)


@pytest.mark.parametrize("request_", [request for request, _ in LISTS[:-1]])
async def test_lists_that_the_settings_forbid_are_refused(
    desk: Desks, request_: Request[Any]
) -> None:
    error = await refused(desk(list_all_topics=False, list_topics=False).ask(request_))
    assert error.code == ResponseCode.SYSTEM_ERROR
    assert error.remark.startswith("disable")
    assert "TopicList is false" in error.remark


async def test_write_permission_is_wiped_and_added(desk: Desks) -> None:
    made = desk()
    await made.register()
    assert (await made.ask(WipeWritePerm(broker_name="broker-a"))).wipe_topic_count == 2
    assert (await made.ask(ROUTE)).route.writable_queues("t") == []
    assert (await made.ask(AddWritePerm(broker_name="broker-a"))).add_topic_count == 2
    assert len((await made.ask(ROUTE)).route.writable_queues("t")) == 16
    assert (await made.ask(WipeWritePerm(broker_name="nobody"))).wipe_topic_count == 0


@pytest.mark.parametrize(
    ("cluster", "gone"), [("c", True), ("other", False), (None, True), ("", True)]
)
async def test_a_route_is_deleted(desk: Desks, cluster: str | None, gone: bool) -> None:
    made = desk()
    await made.register()
    await made.ask(DeleteTopicInNamesrv(topic="t", cluster_name=cluster))
    assert ((await made.ask(GetAllTopics())).names.topics == {"u"}) == gone


async def test_a_route_is_added_by_hand(desk: Desks) -> None:
    made = desk()
    await made.register()

    def ask(topic: str, broker: str) -> RegisterTopicInNamesrv:
        queues = BrokerQueues(broker_name=broker, read_queues=2, write_queues=2, perm=6)
        return RegisterTopicInNamesrv(topic=topic, route=TopicRoute(queues=(queues,)))

    await made.ask(ask("new", "broker-a"))
    reply = await made.ask(GetRouteInfoByTopic(topic="new"))
    assert len(reply.route.writable_queues("new")) == 2
    error = await refused(made.ask(ask("new", "stranger")))
    assert error.code == ResponseCode.SYSTEM_ERROR
    assert "no broker named 'stranger'" in error.remark
    error = await refused(made.ask(ask("../x", "broker-a")))
    assert error.code == ResponseCode.INVALID_PARAMETER
    assert "'../x'" in error.remark


async def test_settings_are_changed_and_listed_in_lines(desk: Desks) -> None:
    made = desk()
    await made.ask(
        UpdateNamesrvConfig(properties=b"# by hand\norderMessageEnable=true\nmaxBrokers : 5\n")
    )
    text = (await made.ask(GetNamesrvConfig())).properties.decode()
    assert "maxBrokers=5\n" in text
    assert "orderMessageEnable=true\n" in text
    assert text.splitlines() == sorted(text.splitlines())
    await made.ask(UpdateNamesrvConfig())


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (b"kvConfigPath=/etc/passwd", ResponseCode.NO_PERMISSION, "kvConfigPath: it cannot be"),
        (b"configStorePath=/x", ResponseCode.NO_PERMISSION, "configStorePath: it cannot be"),
        (b"rocketmqHome=/x", ResponseCode.NO_PERMISSION, "rocketmqHome: it cannot be"),
        (b"listenPort=1", ResponseCode.NO_PERMISSION, "listenPort: it cannot be"),
        (b"bindAddress=0.0.0.0", ResponseCode.NO_PERMISSION, "bindAddress: it cannot be"),
        (b"maxBrokers=0", ResponseCode.INVALID_PARAMETER, "maxBrokers: it cannot be '0'"),
        (b"enableTopicList=maybe", ResponseCode.INVALID_PARAMETER, "true or false is expected"),
        (b"a=\\u12", ResponseCode.INVALID_PARAMETER, "line 1"),
    ],
)
async def test_a_setting_that_may_not_change_is_refused_by_name(
    desk: Desks, text: bytes, code: int, words: str
) -> None:
    made = desk()
    before = made.settings.now
    error = await refused(
        made.ask(UpdateNamesrvConfig(properties=b"orderMessageEnable=true\n" + text))
    )
    assert error.code == code
    assert words in error.remark.replace("line 2", "line 1")
    assert made.settings.now is before


async def test_key_values_are_put_got_listed_and_deleted(desk: Desks) -> None:
    made = desk()
    await made.ask(PutKeyValue(namespace="n", key="k", value="v"))
    assert (await made.ask(GetKeyValue(namespace="n", key="k"))).value == "v"
    assert (await made.ask(GetKeyValues(namespace="n"))).values.table == {"k": "v"}
    await made.ask(DeleteKeyValue(namespace="n", key="k"))
    error = await refused(made.ask(GetKeyValue(namespace="n", key="k")))
    assert error.code == ResponseCode.QUERY_NOT_FOUND
    assert error.remark == "No config item, Namespace: n Key: k"
    error = await refused(made.ask(GetKeyValues(namespace="m")))
    assert error.code == ResponseCode.QUERY_NOT_FOUND
    assert error.remark == "No config item, Namespace: m"


async def test_more_key_values_than_are_kept_are_refused(desk: Desks) -> None:
    error = await refused(
        desk(max_key_values=0).ask(PutKeyValue(namespace="n", key="k", value="v"))
    )
    assert error.code == ResponseCode.SYSTEM_ERROR
    assert "maxKeyValues" in error.remark


class FullDisk(Disk):
    """Has no room for new files while ``full``."""

    full = False

    def create(self, path: Path) -> Any:
        if self.full:
            raise DiskError("create", path, OSError(28, "No space left on device"))
        return super().create(path)


async def test_a_key_value_that_cannot_be_written_is_refused_without_naming_the_file(
    desk: Desks, tmp_path: Path
) -> None:
    disk = FullDisk()
    made = desk(kv_path=tmp_path / "kvConfig.json", disk=disk)
    await made.ask(PutKeyValue(namespace="n", key="k", value="v"))
    disk.full = True
    for request in (
        PutKeyValue(namespace="n", key="k", value="w"),
        DeleteKeyValue(namespace="n", key="k"),
    ):
        error = await refused(made.ask(request))
        assert error.code == ResponseCode.SYSTEM_ERROR
        assert "could not be written" in error.remark
        assert str(tmp_path) not in error.remark
    assert (await made.ask(GetKeyValue(namespace="n", key="k"))).value == "v"


def test_every_code_of_a_name_server_is_answered(desk: Desks) -> None:
    served = {int(code) for code in desk().router.codes}
    assert served == {
        *(100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224),
        *(304, 311, 312, 313, 318, 319, 322, 327, 901, 904),
    }


async def test_any_other_code_is_refused(desk: Desks) -> None:
    answer = await desk().answer(Command(code=int(RequestCode.SEND_MESSAGE), opaque=1))
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
