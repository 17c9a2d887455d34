"""A real broker that goes on at another address with all that it has, as a new leader does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.model.topic import TopicSettings
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.registration import (
    Registration,
    TopicTableData,
    registration_crc,
    write_registration,
)
from rocketpipe.protocol.requests.routes import RegisterBroker
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig


class MovingBroker:
    """A broker whose registration is the test's to write."""

    def __init__(self, data: Path, name_server: str, topics: dict[str, int]) -> None:
        self._data = data
        self.name_server = name_server
        self._topics = topics
        self.address = ""
        self._running = AsyncExitStack()
        self._telling = AsyncExitStack()
        self._staying = AsyncExitStack()

    async def start(self) -> None:
        """Have a broker open what is there, on a free port."""
        config = BrokerConfig(
            data=self._data, name="broker-a", port=0, store=StoreConfig.embedded(self._data)
        )
        self.address = await self._running.enter_async_context(broker(config))

    async def stop(self) -> None:
        """End it; NameServers drop what it said of itself with its connection."""
        await self._telling.aclose()
        await self._running.aclose()

    async def start_and_lead(self) -> None:
        """Have it go on, at another address."""
        await self.start()
        await self.register()

    async def close(self) -> None:
        """End it, and let go of those that stayed."""
        await self.stop()
        await self._staying.aclose()

    async def register(self, broker_id: int = 0, address: str | None = None) -> None:
        """Have the NameServer told who this is; or somebody else of its name, who stays."""
        stack = self._telling if address is None else self._staying
        caller = await stack.enter_async_context(Caller())
        topics = {
            name: TopicSettings(name=name, read_queues=queues, write_queues=queues)
            # One topic alone is what is told of a change, by who is known already.
            for name, queues in {**self._topics, "broker-a": 1}.items()
        }
        body = write_registration(Registration(topic_table=TopicTableData(topics=topics)))
        request = RegisterBroker(
            broker_name="broker-a",
            broker_addr=address or self.address,
            cluster_name="DefaultCluster",
            ha_server_addr="",
            broker_id=broker_id,
            body_crc32=registration_crc(body),
            body=body,
        )
        await caller.call(self.name_server, request)


@asynccontextmanager
async def moving_broker(data: Path, **topics: int) -> AsyncIterator[MovingBroker]:
    """Run it inside the block, and a NameServer; topics with the number of their queues."""
    async with name_server(NamesrvConfig(port=0)) as address:
        made = MovingBroker(data, address, topics)
        await made.start_and_lead()
        try:
            yield made
        finally:
            await made.close()
