"""Tells the NameServers that this broker is there, and which topics it has."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from rocketpipe.broker.config import BrokerConfig
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.registration import (
    Registration,
    TopicTableData,
    registration_crc,
    write_registration,
)
from rocketpipe.protocol.requests.routes import RegisterBroker, UnregisterBroker
from rocketpipe.remoting.caller import Caller

log = logging.getLogger(__name__)

REGISTER_TIMEOUT_MS: Final = 1000


class Registrar:
    """Registers with every NameServer: on a change, and again and again."""

    def __init__(
        self, config: BrokerConfig, address: str, topics: TopicTable, caller: Caller, clock: Clock
    ) -> None:
        self._config = config
        self._address = address
        self._topics = topics
        self._caller = caller
        self._clock = clock

    async def register(self) -> None:
        """Tell all NameServers at once; one that cannot be reached is told again next time."""
        table = TopicTableData(
            topics=dict(self._topics.all()), version=self._topics.version, mappings={}
        )
        body = write_registration(Registration(topic_table=table))
        request = RegisterBroker(
            broker_name=self._config.name,
            broker_addr=self._address,
            cluster_name=self._config.cluster,
            ha_server_addr="",
            broker_id=self._config.broker_id,
            body_crc32=registration_crc(body),
            body=body,
        )
        await asyncio.gather(*(self._tell(server, request) for server in self._config.name_servers))

    async def unregister(self) -> None:
        """Say goodbye, so that clients stop coming at once."""
        request = UnregisterBroker(
            broker_name=self._config.name,
            broker_addr=self._address,
            cluster_name=self._config.cluster,
            broker_id=self._config.broker_id,
        )
        await asyncio.gather(*(self._tell(server, request) for server in self._config.name_servers))

    async def keep_registered(self) -> None:
        """Register for as long as the broker runs: a NameServer may have lost its memory."""
        while True:
            await self._clock.sleep(self._config.register_every_ms)
            await self.register()

    async def _tell(self, server: str, request: Request[Any]) -> None:
        try:
            await self._caller.call(server, request, REGISTER_TIMEOUT_MS)
        except RocketPipeError as error:
            log.warning("name server not told address=%s reason=%s", server, error)
