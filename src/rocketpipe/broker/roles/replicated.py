"""A broker with replicas, put together: its ports, its replica and who decides its role."""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from rocketpipe.auth.gate import Gate
from rocketpipe.background import running
from rocketpipe.broker.assembly import build_core, open_store, store_config
from rocketpipe.broker.config.advertise import advertised_address
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.intake.arrivals import Arrivals
from rocketpipe.broker.replication.following.repair import mend_from_leader
from rocketpipe.broker.replication.identity import Identity
from rocketpipe.broker.replication.leading.ha_port import HaPort, ha_port
from rocketpipe.broker.roles.deciding import elected, follows, keep_following, leads
from rocketpipe.broker.roles.first_opening import of_group, of_name, open_mended
from rocketpipe.broker.roles.follow_loop import Offline
from rocketpipe.broker.roles.replica import Replica
from rocketpipe.broker.roles.run import Run, boot_id, mark_lost
from rocketpipe.broker.roles.status import status_of
from rocketpipe.broker.roles.switchboard import Switchboard
from rocketpipe.clock import Clock
from rocketpipe.coordination.coordinator import Coordinator, CoordinatorAway
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.cutting import cut, drop_log

if TYPE_CHECKING:
    from rocketpipe.coordination.zookeeper import ZkCoordinator

log = logging.getLogger(__name__)

#: Between two tries to get an id from a coordinator that is away.
AGAIN_MS: Final = 500


@asynccontextmanager
async def replicated(
    config: BrokerConfig,
    replication: ReplicationConfig,
    *,
    address: str,
    store_host: bytes,
    clock: Clock,
    chance: random.Random,
    disk: Disk,
    caller: Caller,
    listening: Callable[[Switchboard], AbstractAsyncContextManager[None]],
    watch: Callable[[Core], None] | None = None,
    coordinator: Coordinator | None = None,
    gate: Gate | None = None,
    ports: Callable[[str, int], AbstractAsyncContextManager[HaPort]] = ha_port,
    boot_id: Callable[[], str] = boot_id,
    threads: bool = True,
) -> AsyncIterator[Replica]:
    """Run a broker that has replicas inside the block; ``listening`` answers peers meanwhile.

    ``ports`` binds the one for followers. Without ``threads`` somebody else flushes the store.

    Raises:
        OSError: If the port for followers is taken.
        StoreError: If the data directory cannot be used.
        RocketPipeError: If the data is another replica's.
    """
    outgoing = config.tls.outgoing if config.tls else None
    inner = config.inner_client() if gate is not None else None
    if gate is not None and inner is None:
        raise ConfigError(
            "innerClientAuthenticationCredentials",
            "is missing: replicas prove to each other who they are: add "
            '{"accessKey":"…","secretKey":"…"}, the same at all of them',
        )
    replication = dataclasses.replace(replication, tls=outgoing, inner=inner)
    async with AsyncExitStack() as stack:
        ha = await stack.enter_async_context(
            ports(config.host, replication.listen_port(config.port))
        )
        zookeeper = None
        if coordinator is None and replication.elected:
            zookeeper = coordinator = await _zookeeper(stack, config, replication, clock)
        me = await _replica_id(config, address, disk, zookeeper, clock)
        board = Switchboard(clock)
        settings = [config]

        def keep(now: BrokerConfig) -> None:
            settings[0] = now

        def runs(segment_bytes: int | None) -> AbstractAsyncContextManager[Run]:
            arrivals = Arrivals()
            (here,) = settings
            if segment_bytes is not None:
                files = dataclasses.replace(store_config(config), segment_bytes=segment_bytes)
                here = dataclasses.replace(here, store=files)

            def built(store: MessageStore) -> Core:
                core = build_core(
                    here,
                    store,
                    address=address,
                    store_host=store_host,
                    clock=clock,
                    chance=chance,
                    disk=disk,
                    caller=caller,
                    arrivals=arrivals,
                    gate=gate,
                )
                # What operators changed lasts until the broker stops.
                core.settings.watch(keep)
                if watch is not None:
                    watch(core)
                return core

            opening = partial(
                open_store,
                here,
                disk,
                clock,
                store_host,
                arrivals,
                replicated=True,
                threads=threads,
            )
            return Run.opened(opening, built, board, boot_id())

        replica = Replica(
            replication,
            me=me,
            address=address,
            ha=ha,
            ha_address=_ha_address(config, replication, ha),
            board=board,
            clock=clock,
            runs=runs,
            offline=Offline(
                cut=partial(cut, store_config(config), disk, clock),
                drop=partial(drop_log, store_config(config), disk),
                mend=partial(
                    mend_from_leader,
                    store_config(config),
                    disk,
                    clock,
                    tls=outgoing,
                    proves_to=replication.proves_to,
                ),
            ),
        )
        replica.status = partial(status_of, replica)
        find_leader = None
        if coordinator is not None:
            find_leader = of_group(coordinator, replica)
        elif follows(config):
            find_leader = of_name(config, replication.master, caller)
        await open_mended(replica, find_leader, partial(mark_lost, disk, config.data), clock)
        stack.push_async_callback(replica.close)
        await stack.enter_async_context(listening(board))
        if coordinator is not None:
            await stack.enter_async_context(elected(replica, coordinator, clock, chance))
        elif follows(config):
            following = keep_following(replica, replication, clock)
            await stack.enter_async_context(running(following, "following"))
        else:
            await leads(replica)
        yield replica


def _ha_address(config: BrokerConfig, replication: ReplicationConfig, ha: HaPort) -> str:
    """Where others find the port for followers: as they find the broker, unless told otherwise."""
    told = replication.ha_host
    if told is None and config.advertise is not None:
        told = config.advertise.rpartition(":")[0] or config.advertise
    return advertised_address(told, ha.address)


async def _zookeeper(
    stack: AsyncExitStack, config: BrokerConfig, replication: ReplicationConfig, clock: Clock
) -> ZkCoordinator:
    try:
        # Here, as kazoo is an extra.
        from rocketpipe.coordination.zookeeper import ZkCoordinator
    except ImportError as error:
        raise ConfigError(
            "zookeeperAddr", "an elected leader needs kazoo: pip install kazoo"
        ) from error
    coordinator = ZkCoordinator(
        replication.zookeepers,
        config.cluster,
        config.name,
        session_ms=replication.session_ms,
        clock=clock,
    )
    stack.push_async_callback(coordinator.close)
    await coordinator.start()
    return coordinator


async def _replica_id(
    config: BrokerConfig, address: str, disk: Disk, zookeeper: ZkCoordinator | None, clock: Clock
) -> int:
    """The id of this replica: with fixed roles what the settings say, else what its data says.

    Data that says nothing gets one that nobody had: under one that is known to be in sync, an
    emptied directory could be elected.
    """
    if zookeeper is None:
        return config.broker_id
    identity = Identity(disk, config.data, cluster=config.cluster, name=config.name)
    kept = identity.load()
    if kept is not None:
        return kept
    chosen = await _given_id(zookeeper, address, clock)
    identity.keep(chosen)
    return chosen


async def _given_id(zookeeper: ZkCoordinator, address: str, clock: Clock) -> int:
    """The next id; as long as nobody gives one, it is waited for."""
    told = False
    while True:
        try:
            return await zookeeper.id_for(address)
        except CoordinatorAway as error:
            if not told:
                told = True
                log.warning(
                    "waits for the coordinator, which gives this replica its id: %s; does it run, "
                    "and is zookeeperAddr right?",
                    error,
                )
            await clock.sleep(AGAIN_MS)
