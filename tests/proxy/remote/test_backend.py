"""The gRPC service in front of a cluster that is elsewhere, by its own port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.compat.support.grpc_asking import (
    Asking,
    code,
    endpoints,
    message,
    publishing,
    receiving,
    sending,
    subscribing,
    topic,
)

from rocketpipe import Admin, Message, Producer
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.model.topic import MessageType
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.proxy.front.front import Front
from rocketpipe.proxy.remote.backend import RemoteBackend
from rocketpipe.proxy.server import grpc_port
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.store.config import StoreConfig

pytestmark = pytest.mark.scenario


@asynccontextmanager
async def proxied(data: Path) -> AsyncIterator[tuple[str, Asking]]:
    """A cluster, whose NameServer is given, and a client of the proxy before it."""
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(
            data=data,
            name_servers=(names,),
            port=0,
            store=StoreConfig.embedded(data),
            transaction_timeout_ms=200,
            transaction_check_every_ms=200,
        )
        async with broker(config), RemoteBackend.opened(names) as backend:
            async with grpc_port(backend, "127.0.0.1", 0, listen=Front(None).listen) as address:
                async with Asking.connected(address, "one") as asking:
                    yield names, asking


async def received(asking: Asking, group: str) -> list[pb.Message]:
    while True:
        answers = await asking.stream("ReceiveMessage", receiving("normal", group))
        if found := [each.message for each in answers if each.HasField("message")]:
            return found


async def test_what_is_sent_is_received_and_acknowledged_by_either_protocol(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as (names, asking):
        async with Admin(names) as admin:
            await admin.topics.create("t-normal", queues=1)
            await admin.groups.create("g")
            await asking.settle(subscribing("g"))
            sent = await asking.call("SendMessage", sending(message(body=b"by gRPC")))
            assert code(sent.status) == "OK"
            async with Producer(names) as producer:
                await producer.send(Message("t-normal", b"by remoting"))
            got: dict[bytes, pb.Message] = {}
            while len(got) < 2:
                got |= {each.body: each for each in await received(asking, "g")}
            assert set(got) == {b"by gRPC", b"by remoting"}
            answer = await asking.call(
                "AckMessage",
                pb.AckMessageRequest(
                    group=pb.Resource(name="g"),
                    topic=topic("normal"),
                    entries=[
                        pb.AckMessageEntry(
                            message_id=each.system_properties.message_id,
                            receipt_handle=each.system_properties.receipt_handle,
                        )
                        for each in got.values()
                    ],
                ),
            )
            assert code(answer.status) == "OK"
            # The group has a member by the name of the proxy, and none when its client left.
            assert len(await admin.groups.members("g")) == 1
            await asking.call(
                "NotifyClientTermination",
                pb.NotifyClientTerminationRequest(group=pb.Resource(name="g")),
            )
            assert await admin.groups.members("g") == []


async def test_what_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (_, asking):
        route = await asking.call("QueryRoute", _route("nowhere"))
        assert code(route.status) == "TOPIC_NOT_FOUND"
        ended = await asking.call(
            "EndTransaction",
            pb.EndTransactionRequest(
                topic=topic("nowhere"),
                message_id="01",
                transaction_id="01 no-such-broker 0 0",
                resolution=pb.COMMIT,
            ),
        )
        assert code(ended.status) == "BAD_REQUEST"


def _route(name: str) -> pb.QueryRouteRequest:
    return pb.QueryRouteRequest(topic=topic(name), endpoints=endpoints())


async def test_a_transaction_that_was_left_open_is_asked_about_by_way_of_the_proxy(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as (names, asking):
        async with Admin(names) as admin:
            await admin.topics.create(
                "t-transaction", queues=1, message_type=MessageType.TRANSACTION
            )
        async with asking.telemetry(publishing("transaction")) as commands:
            half = message("transaction", pb.TRANSACTION)
            half.system_properties.orphaned_transaction_recovery_duration.FromSeconds(1)
            sent = await asking.call("SendMessage", sending(half))
            async with asyncio.timeout(100):
                while not (told := await commands.read()).HasField(
                    "recover_orphaned_transaction_command"
                ):
                    pass
            asked = told.recover_orphaned_transaction_command
            # The broker has it at another place by now: it may have to ask again.
            key = sent.entries[0].transaction_id.split()[0]
            assert asked.transaction_id.split()[:2] == [key, "broker-a"]
            ended = await asking.call(
                "EndTransaction",
                pb.EndTransactionRequest(
                    topic=topic("transaction"),
                    message_id=asked.message.system_properties.message_id,
                    transaction_id=asked.transaction_id,
                    resolution=pb.COMMIT,
                    source=pb.SOURCE_SERVER_CHECK,
                ),
            )
            assert code(ended.status) == "OK"
