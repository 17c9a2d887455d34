"""A broker: binds its ports, opens its store, builds its parts, serves and registers.

What the parts are is in ``assembly`` and ``roles``; this starts them, and takes them down in the
other order.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial

from rocketpipe.auth.gate import Gate
from rocketpipe.auth.guarded_lane import GuardedLane
from rocketpipe.auth.opening import keep_looking, open_gate
from rocketpipe.background import running
from rocketpipe.broker.assembly import build_core, open_store
from rocketpipe.broker.config.advertise import advertised_address, check_advertised, host_of
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core, Loop
from rocketpipe.broker.intake.arrivals import Arrivals
from rocketpipe.broker.presence.fast_port import fast_port
from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.replication.leading.challenged import Doorkeeper
from rocketpipe.broker.replication.leading.ha_port import ha_port
from rocketpipe.broker.roles.duties import Role, background, role
from rocketpipe.broker.roles.replicated import replicated
from rocketpipe.broker.roles.run import saved
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.coordination.coordinator import Coordinator
from rocketpipe.remoting.buffers import Buffers
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.connection import Answer, PeerConnection
from rocketpipe.remoting.lane import Lane
from rocketpipe.remoting.peer_timeouts import PeerTimeouts
from rocketpipe.remoting.router import Ask
from rocketpipe.remoting.server import Server
from rocketpipe.remoting.tls import ServerTls
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Inside:
    """A broker as other ports of its process use it: no sockets between."""

    #: The parts of the moment; one with replicas may be built anew.
    core: Callable[[], Core]
    ask: Ask
    #: To be told of a peer that is gone.
    forget_peer: Callable[[PeerConnection], None]


@asynccontextmanager
async def broker(
    config: BrokerConfig,
    *,
    clock: Clock | None = None,
    chance: random.Random | None = None,
    watch: Callable[[Core], None] | None = None,
    around: Callable[[Answer], Answer] | None = None,
    disk: Disk | None = None,
    coordinator: Coordinator | None = None,
    beside: Callable[[Inside], AbstractAsyncContextManager[None]] | None = None,
) -> AsyncIterator[str]:
    """Run a broker inside the block, which is given the address it listens on.

    ``watch`` is given the parts before they serve, for whoever measures them. ``beside`` serves
    other ports by what the broker answers, from its start to its end. ``around`` is for
    tests: what it makes of the router's answers is what peers get, and the fast path is off. So is
    ``disk``, in the place of the machine's, and ``coordinator``, in the place of ZooKeeper.

    Raises:
        OSError: If the port is taken.
        StoreError: If the data directory cannot be used.
        ConfigError: If a file of the TLS settings is not what it should be.
    """
    clock = clock or SystemClock()
    chance = chance or random.Random()  # noqa: S311 - it spreads load, it guards nothing
    disk = disk or Disk()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(Server.bound(config.host, config.port))
        fast = await stack.enter_async_context(fast_port(config))
        tls = await stack.enter_async_context(ServerTls.opened(config.tls, clock))
        outgoing = config.tls.outgoing if config.tls else None
        gate = open_gate(
            config,
            disk=disk,
            clock=clock,
            usual=StoreLayout(config.data).config,
            cluster=config.cluster,
        )
        if gate is not None:
            await stack.enter_async_context(running(keep_looking(gate, clock), "users"))
            if gate.accounts is not None:
                await stack.enter_async_context(running(gate.follow(), "accounts"))
        credentials = config.inner_client()
        sign = credentials.sign if credentials is not None else None
        caller = await stack.enter_async_context(Caller(tls=outgoing, sign=sign))
        address = advertised_address(config.advertise, server.address)
        store_host = (await host_of(address)).pack()
        listening = partial(_listening, (server, fast), config, clock, tls, around, gate)
        inside: Inside
        if config.replication is None:
            core, serving = await stack.enter_async_context(
                _alone(
                    config,
                    address=address,
                    store_host=store_host,
                    clock=clock,
                    chance=chance,
                    disk=disk,
                    caller=caller,
                    listening=listening,
                    watch=watch,
                    gate=gate,
                )
            )
            inside = Inside(
                core=lambda: core, ask=serving.ask, forget_peer=serving.clients.forget_peer
            )
        else:
            plain_from = config.replication.plain_from
            keeper = Doorkeeper(gate, plain_from) if gate is not None else None
            if keeper is not None:
                watching = running(keeper.keep_watching(clock), "followers' users")
                await stack.enter_async_context(watching)
            replica = await stack.enter_async_context(
                replicated(
                    config,
                    config.replication,
                    address=address,
                    store_host=store_host,
                    clock=clock,
                    chance=chance,
                    disk=disk,
                    caller=caller,
                    listening=lambda board: listening(
                        board.answer, board, board.forget_peer, board.finish
                    ),
                    watch=watch,
                    coordinator=coordinator,
                    gate=gate,
                    ports=partial(ha_port, tls=tls, keeper=keeper),
                )
            )
            core = replica.run.core
            inside = Inside(
                core=lambda: replica.run.core,
                ask=replica.board.ask,
                forget_peer=replica.board.forget_peer,
            )
        if beside is not None:
            await stack.enter_async_context(beside(inside))
        if gate is None or sign is not None:
            check = check_advertised(address, lambda: inside.core().connected, outgoing, sign)
            await stack.enter_async_context(running(check, "self-check"))
        log.info("broker started name=%s address=%s", config.name, address)
        yield server.address


@asynccontextmanager
async def _alone(
    config: BrokerConfig,
    *,
    address: str,
    store_host: bytes,
    clock: Clock,
    chance: random.Random,
    disk: Disk,
    caller: Caller,
    listening: Callable[..., AbstractAsyncContextManager[None]],
    watch: Callable[[Core], None] | None,
    gate: Gate | None,
) -> AsyncIterator[tuple[Core, Role]]:
    """Run a broker that has no replicas."""
    async with AsyncExitStack() as stack:
        arrivals = Arrivals()
        store = stack.enter_context(closing(open_store(config, disk, clock, store_host, arrivals)))
        core = build_core(
            config,
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
        if watch is not None:
            watch(core)
        serving = stack.enter_context(role(core))
        await stack.enter_async_context(saved(core.tables, config.save_offsets_every_ms))
        await stack.enter_async_context(_running(background(core, serving)))
        await stack.enter_async_context(
            listening(
                serving.answer,
                serving.fast_path,
                serving.clients.forget_peer,
                partial(serving.finish, core.waiting),
            )
        )
        await stack.enter_async_context(_registered(core.registrar))
        yield core, serving


@asynccontextmanager
async def _running(loops: Mapping[str, Loop]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for name, loop in loops.items():
            await stack.enter_async_context(running(loop(), name))
        yield


def _listening(
    servers: Sequence[Server | None],
    config: BrokerConfig,
    clock: Clock,
    tls: ServerTls | None,
    around: Callable[[Answer], Answer] | None,
    gate: Gate | None,
    answer: Answer,
    lane: Lane | None,
    on_lost: Callable[[PeerConnection], None],
    finish: Callable[[], Awaitable[None]],
) -> AbstractAsyncContextManager[None]:
    """Answer peers on all ports; they share what may be held for them."""
    buffers = Buffers(
        unsent_bytes=config.max_unsent_bytes, unfinished_bytes=config.max_unfinished_bytes
    )
    if lane is not None and gate is not None:
        lane = GuardedLane(lane, gate)
    return _each(
        servers,
        lambda port: port.serving(
            answer if around is None else around(answer),
            on_lost,
            lane=lane if around is None else None,
            clock=clock,
            patience=PeerTimeouts(silence_ms=1000 * config.connection_idle_s),
            max_connections=config.max_connections,
            buffers=buffers,
            on_close=finish,
            tls=tls,
        ),
    )


@asynccontextmanager
async def _each(
    servers: Sequence[Server | None],
    serving: Callable[[Server], AbstractAsyncContextManager[None]],
) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for server in servers:
            if server is not None:
                await stack.enter_async_context(serving(server))
        yield


@asynccontextmanager
async def _registered(registrar: Registrar) -> AsyncIterator[None]:
    """Known to the NameServers inside the block, and only there."""
    await registrar.register()
    try:
        async with running(registrar.keep_registered(), "registration"):
            yield
    finally:
        await registrar.unregister()
