"""Apache's NameServer as judge of ours: both are asked the same, and answer the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketpipe.model.route import BrokerQueues, TopicRoute
from rocketpipe.model.topic import DataVersion, TopicSettings
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import PeerVersion
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.frame import bounds_at, decode_frame, encode_frame
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.protocol.requests.kv import (
    DeleteKeyValue,
    GetKeyValue,
    GetKeyValues,
    PutKeyValue,
)
from rocketpipe.protocol.requests.membership import (
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    QueryDataVersion,
)
from rocketpipe.protocol.requests.registration import (
    Registration,
    TopicTableData,
    registration_crc,
    write_registration,
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
    RegisterBroker,
    RegisterTopicInNamesrv,
    UnregisterBroker,
    WipeWritePerm,
)
from rocketpipe.remoting.caller import split_address

if TYPE_CHECKING:
    from tests.compat.support.apache import Apache

pytestmark = pytest.mark.compat

FIRST = DataVersion(counter=1, timestamp=1_700_000_000_000)
SECOND = DataVersion(counter=2, timestamp=1_700_000_000_001)


class Wire:
    """One connection, on which commands are sent as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, command: Command) -> Command:
        self._writer.write(encode_frame(command))
        async with asyncio.timeout(20):
            head = await self._reader.readexactly(4)
            data = head + await self._reader.readexactly(int.from_bytes(head))
        bounds = bounds_at(data, 0, len(data))
        assert bounds is not None
        return decode_frame(data, bounds)


@asynccontextmanager
async def wire(address: str) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection(*split_address(address))
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


def topics(*names: str, queues: int = 4, flag: int = 0) -> dict[str, TopicSettings]:
    return {
        name: TopicSettings(name=name, read_queues=queues, write_queues=queues, sys_flag=flag)
        for name in names
    }


def registration(
    has: dict[str, TopicSettings],
    *,
    number: int = 0,
    host: int | None = None,
    version: DataVersion = FIRST,
    compressed: bool = False,
    **fields: Any,
) -> RegisterBroker:
    body = write_registration(
        Registration(topic_table=TopicTableData(topics=has, version=version)),
        compressed=compressed,
        version=PeerVersion.V5_3_1,
    )
    address = number if host is None else host
    told: dict[str, Any] = {
        "broker_name": "broker-a",
        "broker_addr": f"10.0.0.{address}:10911",
        "cluster_name": "c",
        "ha_server_addr": f"10.0.0.{address}:10912",
        "broker_id": number,
        "compressed": compressed,
        "body_crc32": registration_crc(body),
        "body": body,
    }
    return RegisterBroker(**{**told, **fields})


def query(version: DataVersion, address: str = "10.0.0.0:10911") -> QueryDataVersion:
    return QueryDataVersion(
        broker_name="broker-a",
        broker_addr=address,
        cluster_name="c",
        broker_id=0,
        version=version,
    )


def by_hand(topic: str) -> RegisterTopicInNamesrv:
    queues = BrokerQueues(broker_name="broker-a", read_queues=2, write_queues=3, perm=6)
    return RegisterTopicInNamesrv(topic=topic, route=TopicRoute(queues=(queues,)))


ROUTE = GetRouteInfoByTopic(topic="t")
BOTH = topics("t", "u")
CHANGED = topics("t", "u", queues=8)
ORDER = "ORDER_TOPIC_CONFIG"

#: Asked in this order; each builds on what came before.
SCRIPT: list[Request[Any]] = [
    ROUTE,
    GetBrokerClusterInfo(),
    GetAllTopics(),
    GetSystemTopics(),
    query(FIRST),
    GetBrokerMemberGroup(cluster_name="c", broker_name="broker-a"),
    registration(topics("t")),
    registration(BOTH, body_crc32=1),
    registration(BOTH),
    ROUTE,
    replace(ROUTE, accept_standard_json_only=True),
    GetBrokerClusterInfo(),
    GetAllTopics(),
    GetTopicsByCluster(cluster="c"),
    GetTopicsByCluster(cluster="nowhere"),
    GetSystemTopics(),
    GetBrokerMemberGroup(cluster_name="c", broker_name="broker-a"),
    query(FIRST),
    query(SECOND),
    query(FIRST, "10.0.0.9:10911"),
    BrokerHeartbeat(cluster_name="c", broker_addr="10.0.0.0:10911", broker_name="broker-a"),
    # A changed table under the same version is not looked at; under a new one it is.
    registration(CHANGED),
    ROUTE,
    registration(CHANGED, version=SECOND),
    ROUTE,
    # One more topic alone, and the compressed form.
    registration(topics("v", flag=1), version=SECOND),
    registration(topics("w", flag=2), version=SECOND),
    registration(topics("x", flag=3), version=SECOND),
    GetAllTopics(),
    GetUnitTopics(),
    GetUnitSubscribedTopics(),
    GetUnitSubscribedPlainTopics(),
    registration(BOTH, version=FIRST, compressed=True),
    ROUTE,
    # Permissions, and routes by hand.
    WipeWritePerm(broker_name="broker-a"),
    ROUTE,
    registration(BOTH, version=FIRST),
    ROUTE,
    AddWritePerm(broker_name="broker-a"),
    ROUTE,
    WipeWritePerm(broker_name="nobody"),
    DeleteTopicInNamesrv(topic="t", cluster_name="nowhere"),
    ROUTE,
    DeleteTopicInNamesrv(topic="t", cluster_name="c"),
    ROUTE,
    registration(BOTH, version=FIRST),
    ROUTE,
    DeleteTopicInNamesrv(topic="t"),
    ROUTE,
    by_hand("t"),
    by_hand("y"),
    ROUTE,
    GetRouteInfoByTopic(topic="y"),
    # A follower, then another process under its id, older and newer.
    registration(topics("t", "f"), number=1),
    ROUTE,
    GetRouteInfoByTopic(topic="f"),
    registration(BOTH, number=1, host=7, version=DataVersion(state_version=2)),
    registration(BOTH, number=1, host=8, version=DataVersion(state_version=1)),
    ROUTE,
    GetBrokerMemberGroup(cluster_name="c", broker_name="broker-a"),
    GetBrokerClusterInfo(),
    # Key-values.
    GetKeyValue(namespace=ORDER, key="t"),
    GetKeyValues(namespace=ORDER),
    PutKeyValue(namespace=ORDER, key="t", value="broker-a:4"),
    GetKeyValue(namespace=ORDER, key="t"),
    GetKeyValues(namespace=ORDER),
    registration(BOTH, version=FIRST),
    DeleteKeyValue(namespace=ORDER, key="t"),
    DeleteKeyValue(namespace=ORDER, key="t"),
    GetKeyValues(namespace=ORDER),
    ROUTE,
]
GOODBYES: list[Request[Any]] = [
    UnregisterBroker(
        broker_name="broker-a",
        broker_addr=f"10.0.0.{host}:10911",
        cluster_name="c",
        broker_id=number,
    )
    for number, host in [(1, 7), (0, 0)]
]


def said(asked: Request[Any], answer: Command) -> dict[str, Any]:
    """What an answer says, in a form that can be compared."""
    reply: dict[str, Any] = {"code": answer.code}
    # Apache adds an address to look for help at, and we what to do.
    if answer.code:
        reply["remark"] = (answer.remark or "").split("\n")[0].split(":")[0]
    reply["fields"] = dict(answer.fields)
    if isinstance(asked, GetRouteInfoByTopic) or not answer.body:
        reply["body"] = answer.body.decode()
    else:
        tree = fastjson.read(answer.body, dict[str, Any])
        # Sets come in any order.
        tree["topicList"] = sorted(tree.get("topicList", []))
        reply["body"] = json.dumps(tree, sort_keys=True)
    return reply


@pytest.mark.parametrize("version", [PeerVersion.V5_3_1, PeerVersion.V4_9_3])
async def test_both_give_the_same_answers(
    apache: Apache, tmp_path: Path, version: PeerVersion
) -> None:
    config = NamesrvConfig(port=0, kv_path=tmp_path / "ours" / "kvConfig.json")
    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(apache.name_server(tmp_path))
        ours = await stack.enter_async_context(name_server(config))
        judge = await stack.enter_async_context(wire(theirs))
        judged = await stack.enter_async_context(wire(ours))
        differing = []
        for step, asked in enumerate([*SCRIPT, *GOODBYES]):
            command = replace(to_command(asked, step), version=version)
            expected = said(asked, await judge.ask(command))
            answered = said(asked, await judged.ask(command))
            if answered != expected:
                differing.append((step, type(asked).__name__, answered, expected))
        assert differing == []
        # Theirs goes through goodbyes in a thread of its own.
        command = to_command(GetBrokerClusterInfo(), 0)
        async with asyncio.timeout(20):
            while b"broker-a" in (await judge.ask(command)).body:
                pass
        for asked in (GetBrokerClusterInfo(), GetAllTopics(), ROUTE):
            command = replace(to_command(asked, 0), version=version)
            assert said(asked, await judged.ask(command)) == said(asked, await judge.ask(command))


async def test_each_reads_the_key_values_that_the_other_wrote(
    apache: Apache, tmp_path: Path
) -> None:
    # Where Apache's keeps them by default, below its user's directory.
    config = NamesrvConfig(port=0, kv_path=tmp_path / "namesrv" / "kvConfig.json")
    get, value = GetKeyValue(namespace=ORDER, key="t"), "broker-a:4;ü\n\"'"
    async with name_server(config) as address, wire(address) as ours:
        put = PutKeyValue(namespace=ORDER, key="t", value=value)
        assert (await ours.ask(to_command(put, 0))).code == 0
    async with apache.name_server(tmp_path) as address, wire(address) as theirs:
        assert (await theirs.ask(to_command(get, 0))).fields == {"value": value}
        put = PutKeyValue(namespace="n", key="k", value=value)
        assert (await theirs.ask(to_command(put, 1))).code == 0
    async with name_server(config) as address, wire(address) as ours:
        assert (await ours.ask(to_command(get, 0))).fields == {"value": value}
        get = GetKeyValue(namespace="n", key="k")
        assert (await ours.ask(to_command(get, 1))).fields == {"value": value}
