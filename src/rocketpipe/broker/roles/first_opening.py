"""A replica's store, opened for the first time: if it is damaged, its leader mends it before.

Until then this broker takes no part: its group sees that it is there, and that it cannot lead.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.roles.replica import Replica
from rocketpipe.clock import Clock
from rocketpipe.coordination.coordinator import Coordinator, Member
from rocketpipe.errors import RocketPipeError
from rocketpipe.protocol.requests.replication import ExchangeHaInfo
from rocketpipe.protocol.requests.routes import GetBrokerClusterInfo
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.errors import OddSegment, StoreDamaged

log = logging.getLogger(__name__)

#: Between two tries, and between two lines that say why the last one failed.
AGAIN_MS: Final = 500
SAY_AGAIN_MS: Final = 10_000

#: Where the leader takes followers; None while nobody leads.
FindLeader = Callable[[], Awaitable[str | None]]


async def open_mended(
    replica: Replica,
    find_leader: FindLeader | None,
    lost: Callable[[], None],
    clock: Clock,
) -> None:
    """Open a replica, once its log is whole; ``lost`` has it not stand before it has caught up.

    Raises:
        StoreDamaged: It is damaged, and by its settings it leads: there is nobody to ask.
        StoreError: The directory cannot be used.
    """
    told: str | None = None
    while True:
        try:
            await replica.open()
            return
        except (StoreDamaged, OddSegment) as damage:
            if find_leader is None:
                raise
            if str(damage) != told:
                told = str(damage)
                log.error(
                    "log is damaged, and this replica takes no part until its leader has mended "
                    "it: %s",
                    damage,
                )
                lost()
            await _mend(replica, find_leader, damage, clock)


async def _mend(
    replica: Replica, find_leader: FindLeader, damage: StoreDamaged | OddSegment, clock: Clock
) -> None:
    said_ms: int | None = None
    while True:
        try:
            leader = await find_leader()
            if leader is not None:
                await replica.mend(leader, damage)
                return
            reason = "nobody leads"
        except (RocketPipeError, OSError) as error:
            reason = str(error)
        if said_ms is None or clock.monotonic_ms() - said_ms >= SAY_AGAIN_MS:
            said_ms = clock.monotonic_ms()
            log.warning(
                "log cannot be mended yet, and is tried again reason=%s; 'rocketpipe store repair' "
                "mends it from a directory too",
                reason,
            )
        await clock.sleep(AGAIN_MS)


def of_group(coordinator: Coordinator, replica: Replica) -> FindLeader:
    """Ask the coordinator, which sees this replica meanwhile as one that cannot lead."""
    me = Member(id=replica.me, address=replica.address, ha_address=replica.ha_address, clean=False)

    async def find() -> str | None:
        leader = (await coordinator.join(me)).leader
        return leader.ha_address if leader is not None and leader.id != me.id else None

    return find


def of_name(config: BrokerConfig, told: str | None, caller: Caller) -> FindLeader:
    """Ask NameServers who the master is, and it where it takes slaves; unless that was ``told``."""

    async def find() -> str | None:
        if told is not None:
            return told
        for name_server in config.name_servers:
            known = (await caller.call(name_server, GetBrokerClusterInfo())).cluster_brokers
            broker = known.brokers.get(config.name)
            if broker is not None and broker.leader is not None:
                return (await caller.call(broker.leader, ExchangeHaInfo())).master_ha_address
        return None

    return find
