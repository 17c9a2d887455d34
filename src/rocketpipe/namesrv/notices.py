"""Tells the brokers of one name that another of them has the smallest id now.

A follower that stands in for its leader stops when the leader is back, and the next one begins when
it is gone. Each is told once, in the background; one that cannot be reached learns it by asking.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from rocketpipe.errors import RocketPipeError
from rocketpipe.namesrv.config import LiveSettings
from rocketpipe.namesrv.membership import SmallestIdChanged
from rocketpipe.namesrv.route_table import RouteTable
from rocketpipe.protocol.requests.membership import NotifyMinBrokerIdChange
from rocketpipe.remoting.caller import Caller

log = logging.getLogger(__name__)

MAX_UNDER_WAY: Final = 256


class SmallestIdNotices:
    """Sends the notices, if the settings want them."""

    def __init__(self, routes: RouteTable, settings: LiveSettings, caller: Caller) -> None:
        self._routes = routes
        self._settings = settings
        self._caller = caller
        self._under_way: set[asyncio.Task[None]] = set()

    def changed(self, change: SmallestIdChanged) -> None:
        """Tell everyone of that name who does not know yet."""
        members = self._routes.members(change.broker_name)
        if not self._settings.now.notify_smallest_id or not members:
            return
        smallest = min(members)
        notice = NotifyMinBrokerIdChange(
            min_broker_id=smallest,
            broker_name=change.broker_name,
            min_broker_addr=members[smallest],
            offline_broker_addr=change.gone,
            ha_broker_addr=change.ha_address,
        )
        log.info("smallest broker id changed name=%s id=%d", change.broker_name, smallest)
        for number, address in members.items():
            # The one that came knows that it came.
            if change.gone is None and number == smallest and len(members) > 1:
                continue
            if len(self._under_way) >= MAX_UNDER_WAY:
                log.warning("notice dropped address=%s under_way=%d", address, MAX_UNDER_WAY)
                continue
            task = asyncio.create_task(self._tell(address, notice), name=f"notice to {address}")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """Give up the notices that are under way."""
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _tell(self, address: str, notice: NotifyMinBrokerIdChange) -> None:
        try:
            await self._caller.tell(address, notice)
        except (RocketPipeError, ValueError) as error:
            log.warning("notice not sent address=%s reason=%s", address, error)
