"""Brokers of one name are told who has the smallest id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.namesrv import notices as module
from rocketpipe.namesrv.config import LiveSettings, NamesrvConfig
from rocketpipe.namesrv.membership import SmallestIdChanged
from rocketpipe.namesrv.notices import SmallestIdNotices
from rocketpipe.namesrv.route_table import Announcement, RouteTable
from rocketpipe.protocol.requests.membership import NotifyMinBrokerIdChange
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.remoting.server import Server

pytestmark = pytest.mark.scenario


class Told:
    """A broker that notes what it is told."""

    def __init__(self) -> None:
        self.notices: asyncio.Queue[NotifyMinBrokerIdChange] = asyncio.Queue()

    @handles(NotifyMinBrokerIdChange)
    async def note(self, request: NotifyMinBrokerIdChange, call: Call) -> None:
        self.notices.put_nowait(request)

    async def next(self) -> NotifyMinBrokerIdChange:
        async with asyncio.timeout(PATIENCE_S):
            return await self.notices.get()


@asynccontextmanager
async def broker(told: Told) -> AsyncIterator[str]:
    async with Server.bound("127.0.0.1", 0) as server, server.serving(Router(told).answer):
        yield server.address


@asynccontextmanager
async def telling(
    *addresses: str, enabled: bool = True, first_id: int = 0
) -> AsyncIterator[SmallestIdNotices]:
    settings = LiveSettings(NamesrvConfig(notify_smallest_id=enabled))
    routes = RouteTable(settings)
    for number, address in enumerate(addresses, first_id):
        routes.register(
            Announcement(cluster="c", name="broker-a", broker_id=number, address=address)
        )
    async with Caller() as caller:
        notices = SmallestIdNotices(routes, settings, caller)
        yield notices
        await notices.close()


async def test_when_one_came_the_others_are_told() -> None:
    leader, follower = Told(), Told()
    async with broker(leader) as first, broker(follower) as second:
        async with telling(first, second) as notices:
            notices.changed(SmallestIdChanged("broker-a", None, "h:9"))
            assert await follower.next() == NotifyMinBrokerIdChange(
                min_broker_id=0,
                broker_name="broker-a",
                min_broker_addr=first,
                ha_broker_addr="h:9",
            )
    assert leader.notices.empty()


async def test_when_one_went_all_who_are_left_are_told() -> None:
    follower = Told()
    async with broker(follower) as address, telling(address, first_id=1) as notices:
        notices.changed(SmallestIdChanged("broker-a", "gone:1", None))
        told = await follower.next()
    assert (told.min_broker_id, told.min_broker_addr) == (1, address)
    assert told.offline_broker_addr == "gone:1"


async def test_nobody_is_told_unless_the_settings_say_so() -> None:
    async with telling("127.0.0.1:1", enabled=False) as notices:
        notices.changed(SmallestIdChanged("broker-a", "gone:1", None))
        assert notices._under_way == set()
        notices.changed(SmallestIdChanged("nobody", "gone:1", None))
        assert notices._under_way == set()


async def test_one_that_cannot_be_reached_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with Server.bound("127.0.0.1", 0) as server:
        closed = server.address
    with caplog.at_level(logging.WARNING):
        async with telling(closed) as notices:
            notices.changed(SmallestIdChanged("broker-a", "gone:1", None))
            await asyncio.wait(set(notices._under_way), timeout=PATIENCE_S)
    assert f"notice not sent address={closed}" in caplog.text


async def test_notices_under_way_are_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MAX_UNDER_WAY", 1)
    async with telling("127.0.0.1:1", "127.0.0.1:2", first_id=1) as notices:
        notices.changed(SmallestIdChanged("broker-a", "gone:1", None))
        assert len(notices._under_way) == 1
    assert "notice dropped" in caplog.text
