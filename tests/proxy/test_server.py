from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from tests.proxy.support.calling import bodies, grpc_world, message, receiving, subscribing
from tests.waiting import until

from rocketpipe.broker.config.replication import BrokerRole, ReplicationConfig
from rocketpipe.errors import PortUnavailable
from rocketpipe.proxy.front.front import Front
from rocketpipe.proxy.local import LocalBackend
from rocketpipe.proxy.server import grpc_port
from rocketpipe.proxy.v2 import messaging_pb2 as pb


@pytest.mark.scenario
async def test_a_port_that_is_taken_is_said_to_be(tmp_path: Path) -> None:
    async with grpc_world(tmp_path) as world:
        host, _, port = world.address.rpartition(":")
        with pytest.raises(PortUnavailable, match="port is taken"):
            async with grpc_port(
                LocalBackend(world.inside), host, int(port), listen=Front(None).listen
            ):
                raise AssertionError


@pytest.mark.scenario
async def test_who_waits_when_the_port_closes_is_told(tmp_path: Path) -> None:
    async with grpc_world(tmp_path) as world:
        topic = await world.topic("closing")
        await world.client.send(message(topic))
        stream, _ = await world.client.settled(subscribing("g", topic))
        waiting = world.client.stream(
            "ReceiveMessage", receiving("closing", "other-g", polling_ms=20_000, expression="x")
        )
        await until(lambda: world.service._receiving._waiting)
    assert await stream.code() is not grpc.StatusCode.OK
    status = await waiting.code()
    assert status in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.OK)


@pytest.mark.scenario
async def test_a_broker_that_has_replicas_serves_them_too(tmp_path: Path) -> None:
    role = ReplicationConfig(role=BrokerRole.ASYNC_MASTER)
    async with grpc_world(tmp_path, replication=role) as world:
        topic = await world.topic("copied")
        assert (await world.client.send(message(topic, b"1"))).status.code == pb.OK
        assert bodies(await world.client.messages(topic, "g")) == [b"1"]
