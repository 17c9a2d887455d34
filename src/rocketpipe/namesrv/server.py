"""A NameServer: builds the parts, runs them, and takes them down."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from rocketpipe.auth.handlers import UserHandlers
from rocketpipe.auth.opening import keep_looking, open_gate
from rocketpipe.background import running
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.namesrv.config import LiveSettings, NamesrvConfig
from rocketpipe.namesrv.handlers import KeyValueHandlers, OperatorHandlers, RouteHandlers
from rocketpipe.namesrv.kv import KeyValueStore
from rocketpipe.namesrv.membership import Membership
from rocketpipe.namesrv.notices import SmallestIdNotices
from rocketpipe.namesrv.registering import RegistrationHandlers
from rocketpipe.namesrv.route_table import RouteTable
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server
from rocketpipe.remoting.tls import ServerTls
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.snapshot import Snapshot

log = logging.getLogger(__name__)


@asynccontextmanager
async def name_server(config: NamesrvConfig, *, clock: Clock | None = None) -> AsyncIterator[str]:
    """Run a NameServer inside the block, which is given the address it listens on.

    Raises:
        OSError: If the port is taken.
        StoreError: If the key-values of an earlier run cannot be read.
        ConfigError: If a file of the TLS settings is not what it should be.
    """
    clock = clock or SystemClock()
    settings = LiveSettings(config)
    values = KeyValueStore(
        settings, Snapshot(Disk(), config.kv_path) if config.kv_path is not None else None
    )
    routes = RouteTable(settings)
    gate = open_gate(config, disk=Disk(), clock=clock, usual=None, cluster=config.auth_cluster)
    credentials = config.inner_client()
    async with AsyncExitStack() as stack:
        caller = await stack.enter_async_context(
            Caller(
                tls=config.tls.outgoing if config.tls else None,
                sign=credentials.sign if credentials is not None else None,
            )
        )
        if gate is not None and gate.accounts is not None:
            await stack.enter_async_context(running(gate.follow(), "accounts"))
        notices = SmallestIdNotices(routes, settings, caller)
        membership = Membership(routes, clock, notices.changed)
        router = Router(
            RouteHandlers(routes, values, settings, clock),
            OperatorHandlers(routes, settings),
            KeyValueHandlers(values),
            RegistrationHandlers(membership, routes, values, settings),
            *([UserHandlers(gate)] if gate is not None else []),
            guard=gate,
        )
        try:
            async with (
                AsyncExitStack() as stack,
                ServerTls.opened(config.tls, clock) as tls,
                Server.bound(config.host, config.port) as server,
                server.serving(router.answer, membership.lose, clock=clock, tls=tls),
                running(_expire_silent(membership, settings, clock), "expiry of silent brokers"),
            ):
                if gate is not None:
                    await stack.enter_async_context(running(keep_looking(gate, clock), "users"))
                log.info("name server started address=%s", server.address)
                yield server.address
        finally:
            await notices.close()
            await values.settle()


async def _expire_silent(membership: Membership, settings: LiveSettings, clock: Clock) -> None:
    while True:
        await clock.sleep(settings.now.scan_every_ms)
        membership.expire()
