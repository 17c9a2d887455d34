"""An operator's day at two brokers."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.fleet import PartlyDone
from rocketpipe.client.session import Session
from rocketpipe.errors import ConnectionLost, NoRoute
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.registration import Registration, write_registration
from rocketpipe.protocol.requests.routes import RegisterBroker
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig

pytestmark = pytest.mark.scenario


def config(data: Path, name: str, *name_servers: str) -> BrokerConfig:
    place = data / name
    return BrokerConfig(
        data=place,
        name=name,
        name_servers=name_servers,
        port=0,
        store=StoreConfig.embedded(place),
    )


async def test_a_topic_lives_at_both_brokers_and_two_name_servers(tmp_path: Path) -> None:
    async with AsyncExitStack() as life:
        start = life.enter_async_context
        one = await start(name_server(NamesrvConfig(port=0)))
        two = await start(name_server(NamesrvConfig(port=0)))
        addresses = {
            name: await start(broker(config(tmp_path, name, one, two)))
            for name in ("broker-a", "broker-b")
        }
        admin = await start(Admin(f"{one};{two}"))
        assert {each.name: each.leader for each in await admin.brokers.all()} == addresses
        assert await admin.brokers.answering() == sorted(addresses)

        await admin.topics.create("orders", queues=4)
        await admin.groups.create("billing", max_attempts=3)
        stats = await admin.topics.stats("orders")
        assert len(stats.queues) == 8
        assert [each.queue.broker_name for each in stats.queues] == ["broker-a"] * 4 + [
            "broker-b"
        ] * 4
        for address in (one, two):
            async with Session(address) as session:
                route = await session.routes.get("orders")
                assert len(route.writable_queues("orders")) == 8

        await admin.topics.update("orders", write_queues=2, broker="broker-b")
        settings = (await admin.topics.show("orders")).settings
        assert {name: each.write_queues for name, each in settings.items()} == {
            "broker-a": 4,
            "broker-b": 2,
        }
        await admin.offsets.move_to_ends("billing", "orders", newest=True)
        assert len(await admin.offsets.of_group("billing", "orders")) == 8

        assert set(await admin.brokers.stop_writes("broker-b")) == {one, two}
        await admin.topics.delete("orders")
        for address in (one, two):
            async with Session(address) as session:
                with pytest.raises(NoRoute):
                    await session.routes.get("orders")


async def test_nothing_is_changed_before_every_broker_was_reached(tmp_path: Path) -> None:
    async with AsyncExitStack() as life:
        start = life.enter_async_context
        address = await start(name_server(NamesrvConfig(port=0)))
        await start(broker(config(tmp_path, "broker-a", address)))
        caller = await start(Caller())
        dead = RegisterBroker(
            broker_name="dead",
            broker_addr="127.0.0.1:1",
            cluster_name="DefaultCluster",
            ha_server_addr="127.0.0.1:2",
            broker_id=0,
            body=write_registration(Registration()),
        )
        await caller.call(address, dead)
        admin = await start(Admin(address))
        with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1"):
            await admin.topics.create("orders")
        assert await admin.topics.names() == []
        await admin.topics.create("orders", broker="broker-a")
        with pytest.raises(PartlyDone, match="done at broker-a, not at dead") as caught:
            await admin.topics.delete("orders")
        assert caught.value.done == ("broker-a",)
        assert caught.value.retryable
