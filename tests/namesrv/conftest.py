"""The handlers of a NameServer without its socket: commands in, commands out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rocketpipe.model.topic import DataVersion, TopicSettings
from rocketpipe.namesrv.config import LiveSettings, NamesrvConfig
from rocketpipe.namesrv.handlers import KeyValueHandlers, OperatorHandlers, RouteHandlers
from rocketpipe.namesrv.kv import KeyValueStore
from rocketpipe.namesrv.membership import Membership
from rocketpipe.namesrv.registering import RegistrationHandlers
from rocketpipe.namesrv.route_table import RouteTable
from rocketpipe.protocol.codes import OUR_VERSION
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import Request, read_reply, to_command
from rocketpipe.protocol.requests.registration import (
    Registration,
    TopicTableData,
    registration_crc,
    write_registration,
)
from rocketpipe.protocol.requests.routes import RegisterBroker
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import Router
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.snapshot import Snapshot
from rocketpipe.testing import ManualClock

ReplyT = TypeVar("ReplyT")


class Peer(PeerConnection):
    """A connection that was never made."""

    def __init__(self) -> None:
        self.address = "10.0.0.9:5000"

    def close(self) -> None:
        pass


class Desk:
    """Answers as a NameServer does, to whoever holds it."""

    def __init__(self, config: NamesrvConfig, disk: Disk | None = None) -> None:
        self.clock = ManualClock()
        self.settings = LiveSettings(config)
        snapshot = Snapshot(disk or Disk(), config.kv_path) if config.kv_path else None
        self.values = KeyValueStore(self.settings, snapshot)
        self.routes = RouteTable(self.settings)
        self.membership = Membership(self.routes, self.clock)
        self.router = Router(
            RouteHandlers(self.routes, self.values, self.settings, self.clock),
            OperatorHandlers(self.routes, self.settings),
            KeyValueHandlers(self.values),
            RegistrationHandlers(self.membership, self.routes, self.values, self.settings),
        )
        self.peer = Peer()

    async def answer(self, command: Command) -> Command:
        return await self.router.answer(command, self.peer)

    async def ask(
        self, request: Request[ReplyT], *, version: int = OUR_VERSION, **fields: str
    ) -> ReplyT:
        """Ask, with further header fields, as a peer of some version."""
        plain = to_command(request, 1)
        command = Command(
            code=plain.code,
            opaque=1,
            fields={**plain.fields, **fields},
            body=plain.body,
            version=version,
        )
        return read_reply(request, await self.answer(command))

    async def register(self, *topics: str, **more: Any) -> Any:
        return await self.ask(registration(*topics, **more))


def registration(
    *topics: str,
    number: int = 0,
    compressed: bool = False,
    data_version: DataVersion = DataVersion(counter=1),  # noqa: B008 - it is frozen
    flags: dict[str, int] | None = None,
    **fields: Any,
) -> RegisterBroker:
    """A registration of ``broker-a`` with these topics, or two of its own."""
    table = {
        name: TopicSettings(name=name, sys_flag=(flags or {}).get(name, 0))
        for name in topics or ("t", "u")
    }
    body = write_registration(
        Registration(topic_table=TopicTableData(topics=table, version=data_version)),
        compressed=compressed,
    )
    told: dict[str, Any] = {
        "broker_name": "broker-a",
        "broker_addr": f"10.0.0.{number}:10911",
        "cluster_name": "c",
        "ha_server_addr": f"10.0.0.{number}:10912",
        "broker_id": number,
        "compressed": compressed,
        "body_crc32": registration_crc(body),
        "body": body,
    }
    return RegisterBroker(**{**told, **fields})


@pytest.fixture
def desk() -> Callable[..., Desk]:
    """Make handlers with settings: ``desk(order_enabled=True)``."""

    def make(*, disk: Disk | None = None, kv_path: Path | None = None, **settings: Any) -> Desk:
        return Desk(NamesrvConfig(kv_path=kv_path, **settings), disk)

    return make


@pytest.fixture
def announce() -> Callable[..., RegisterBroker]:
    """Make registrations: ``announce("t", number=1)``."""
    return registration
