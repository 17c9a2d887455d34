"""A broker: builds the parts, starts them and takes them down; nothing else."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from typing import Final

from rocketpipe.background import running
from rocketpipe.broker.config.advertise import advertised_address, check_advertised, host_of
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.live import LiveSettings
from rocketpipe.broker.core import Core, Feature
from rocketpipe.broker.delivery.cold_reads import ColdReads
from rocketpipe.broker.delivery.deferral import Deferral
from rocketpipe.broker.delivery.delay import DelayLevels
from rocketpipe.broker.delivery.destinations import Destinations
from rocketpipe.broker.delivery.filtering import Filters
from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.delivery.pull_plan import PullPlanner, PullRules
from rocketpipe.broker.delivery.repairing import keep_repaired
from rocketpipe.broker.delivery.retry import Retries
from rocketpipe.broker.fast_path.fast_path import FastPath
from rocketpipe.broker.fast_path.outbox import Outbox
from rocketpipe.broker.fast_path.pulling import PullFastPath
from rocketpipe.broker.fast_path.sending import SendFastPath
from rocketpipe.broker.features.administration.feature import administration
from rocketpipe.broker.features.cold_reads.feature import cold_reads
from rocketpipe.broker.features.popping.feature import popping
from rocketpipe.broker.features.replies.feature import replies
from rocketpipe.broker.features.staging.feature import staging
from rocketpipe.broker.features.timers.feature import timers
from rocketpipe.broker.features.transactions.feature import transactions
from rocketpipe.broker.handlers.clients import ClientHandlers, LockHandlers
from rocketpipe.broker.handlers.groups import GroupHandlers
from rocketpipe.broker.handlers.lookups import LookupHandlers
from rocketpipe.broker.handlers.offsets import OffsetHandlers
from rocketpipe.broker.handlers.pulling import PullHandlers
from rocketpipe.broker.handlers.sending import SendHandlers
from rocketpipe.broker.handlers.topics import TopicHandlers, TopicStatsHandlers
from rocketpipe.broker.intake.admission import Admission, AdmissionLimits
from rocketpipe.broker.intake.arrivals import Arrivals
from rocketpipe.broker.intake.intake import Intake
from rocketpipe.broker.intake.open_transaction_limit import OpenTransactionLimit
from rocketpipe.broker.intake.sent_properties import BrokerProperties
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.broker.presence.fast_port import fast_port
from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.store_steps import run_steps
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.lock_journal import LOCKS_FILE, LockJournal
from rocketpipe.broker.tables.queue_locks import QueueLocks
from rocketpipe.broker.tables.system_topics import system_topics
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.errors import StoreError
from rocketpipe.model.ids import UniqueKeys
from rocketpipe.model.topic import TopicSettings
from rocketpipe.remoting.buffers import Buffers
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.connection import Answer
from rocketpipe.remoting.peer_timeouts import PeerTimeouts
from rocketpipe.remoting.router import Router
from rocketpipe.remoting.server import Server
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Committed, Pins, Retention

#: As RocketMQ's brokers do.
TIDY_FIRST_MS: Final = 60_000
TIDY_EVERY_MS: Final = 10_000

#: What a broker does beyond storing and handing out: each is given the core, and adds to it.
FEATURES: Final[tuple[Callable[[Core], Feature], ...]] = (
    administration,
    cold_reads,
    popping,
    replies,
    staging,
    timers,
    transactions,
)

#: Settings that `_reconfigure` puts into force.
_LIVE: Final = (
    *("permission", "auto_create_topics", "auto_create_groups", "max_message_bytes"),
    *("reject_transactions", "property_filter", "lite_pull", "long_polling", "short_polling_ms"),
    *("notify_consumers", "on_damage"),
)

log = logging.getLogger(__name__)


@asynccontextmanager
async def broker(
    config: BrokerConfig,
    *,
    clock: Clock | None = None,
    chance: random.Random | None = None,
    watch: Callable[[Core], None] | None = None,
    around: Callable[[Answer], Answer] | None = None,
    disk: Disk | None = None,
) -> AsyncIterator[str]:
    """Run a broker inside the block, which is given the address it listens on.

    ``watch`` is given the parts before they serve, for whoever measures them. ``around`` is for
    tests: what it makes of the router's answers is what peers get, and lanes are off. So is
    ``disk``, in the place of the machine's.

    Raises:
        OSError: If the port is taken.
        StoreError: If the data directory cannot be used.
    """
    clock = clock or SystemClock()
    chance = chance or random.Random()  # noqa: S311 - it spreads load, it guards nothing
    disk = disk or Disk()
    async with (
        Server.bound(config.host, config.port) as server,
        fast_port(config) as fast,
        Caller() as caller,
    ):
        address = advertised_address(config.advertise, server.address)
        store_host = (await host_of(address)).pack()
        waiting = WaitingPulls(clock, limit=config.max_waiting_pulls)
        arrivals = Arrivals()
        arrivals.listen(
            lambda topic, queue_id, offset, code, _, properties: waiting.notify(
                topic, queue_id, offset + 1, code, properties
            ),
            while_=waiting.__len__,
        )
        with closing(_open_store(config, disk, clock, store_host, arrivals)) as store:
            tables = Tables(
                disk,
                StoreLayout(config.data).config,
                clock,
                default_topic_queues=config.default_topic_queues,
                auto_create_topics=config.auto_create_topics,
                auto_create_groups=config.auto_create_groups,
            )
            tables.load()
            tables.topics.establish(_system_topics(config), clock.now_ms())
            tables.finish_deletions(store)
            tables.adopt(_queues_in_use(store, every=tables.topics_were_lost))
            visibility = Visibility(store, clock)
            stats = Stats(clock)
            settings = LiveSettings(config, store.config, clock)
            topics, groups, offsets = tables.topics, tables.groups, tables.offsets
            connected = ClientTable(silent_ms=config.client_expiry_ms)
            locks = QueueLocks()
            owners = LockJournal(disk, StoreLayout(config.data).config / LOCKS_FILE, locks, clock)
            owners.load(fresh=not store.positions.written)
            planner = PullPlanner(topics, groups, connected, Filters(), _pull_rules(config))
            registrar = Registrar(config, address, topics, caller, clock, settled=tables.settled)
            limits = AdmissionLimits(
                waiting_sends=config.max_waiting_sends, accept_from_ms=config.accept_sends_at_ms
            )
            admission = Admission(store, visibility, clock, limits)
            intake = Intake(store, visibility, admission, store_host, stats)
            topic_provider = TopicProvider(
                topics, groups, registrar, clock, chance, tables.group_kept
            )
            clients = ClientHandlers(
                connected,
                groups,
                topic_provider,
                clock,
                notify=config.notify_consumers,
                property_filter=config.property_filter,
                filters=planner.filters,
            )
            keys = UniqueKeys(store_host[:-4], os.getpid(), chance.getrandbits(32))
            stamp = BrokerProperties(config, keys, clock)
            pins = Pins()
            destinations = Destinations(topics, topic_provider)
            delays = DelayLevels(store, intake, tables.delays, clock, pins, destinations)
            deferral = Deferral(
                delays,
                clock,
                most_ms=store.config.timer_max_delay_ms,
                waiting=store.derived.timer,
                most_waiting=store.config.max_waiting_timers,
            )
            transaction_limit = OpenTransactionLimit(config.max_open_transactions)
            retries = Retries(store, topic_provider, delays, locks, clock, stats)
            cold = ColdReads(config, store, clock)
            pulls = PullHandlers(store, planner, offsets, waiting, clock, cold, stats)
            retention = Retention(
                store,
                disk=disk,
                clock=clock,
                pins=pins,
                committed=lambda: (Committed(*place) for place in offsets.all()),
            )
            core = Core(
                config=config,
                address=address,
                store_host=store_host,
                clock=clock,
                chance=chance,
                disk=disk,
                store=store,
                retention=retention,
                tables=tables,
                connected=connected,
                locks=locks,
                visibility=visibility,
                intake=intake,
                topic_provider=topic_provider,
                stamp=stamp,
                delays=delays,
                destinations=destinations,
                transaction_limit=transaction_limit,
                planner=planner,
                cold=cold,
                waiting=waiting,
                stats=stats,
                settings=settings,
                registrar=registrar,
                caller=caller,
                arrivals=arrivals,
            )
            if watch is not None:
                watch(core)
            wings = [wing(core) for wing in FEATURES]
            topic_handlers = TopicHandlers(
                topics,
                offsets,
                registrar,
                clock,
                partial(_forget_topic, store, stats),
                settled=tables.settled,
                log_ends=lambda: (store.first_offset, store.positions.written),
            )
            sends = SendHandlers(
                config, intake, topic_provider, stamp, deferral, retries, transaction_limit
            )
            router = Router(
                sends,
                pulls,
                OffsetHandlers(
                    store,
                    offsets,
                    topics,
                    groups,
                    tables.offsets_saved if config.offset_commit == "sync" else None,
                ),
                LookupHandlers(store),
                clients,
                LockHandlers(locks, clock, owners.kept),
                topic_handlers,
                TopicStatsHandlers(topics, store, config.name, stats.topic_rate),
                GroupHandlers(groups, offsets, clock, tables.settled),
                *(handlers for wing in wings for handlers in wing.handlers),
            )
            send_lane, lanes = _lanes(core, admission, pulls)
            buffers = Buffers(
                unsent_bytes=config.max_unsent_bytes, unfinished_bytes=config.max_unfinished_bytes
            )
            settings.watch(partial(_reconfigure, core, clients, sends, send_lane), *_LIVE)
            async with (
                _saved(tables, config.save_offsets_every_ms),
                running(_keep_tidy(retention, clock), "retention"),
                running(visibility.keep_dispatched(), "dispatch"),
                running(keep_repaired(store, clock), "repairs"),
                running(delays.keep_delivered(), "delayed messages"),
                running(waiting.keep_time(store.max_offset), "waiting pulls"),
                running(waiting.keep_sifting(), "expressions of waiting pulls"),
                running(clients.keep_current(), "silent clients"),
                running(owners.keep_tidy(), "queue locks"),
                _running_wings(wings),
                _each(
                    (server, fast),
                    lambda port: port.serving(
                        router.answer if around is None else around(router.answer),
                        clients.forget_peer,
                        lane=lanes if around is None else None,
                        clock=clock,
                        patience=PeerTimeouts(silence_ms=1000 * config.connection_idle_s),
                        max_connections=config.max_connections,
                        buffers=buffers,
                        on_close=partial(_finish, waiting, lanes, wings, topic_handlers),
                    ),
                ),
                _registered(registrar),
                running(check_advertised(address, connected), "self-check"),
            ):
                log.info("broker started name=%s address=%s", config.name, address)
                yield server.address


def _open_store(
    config: BrokerConfig, disk: Disk, clock: Clock, store_host: bytes, arrivals: Arrivals
) -> MessageStore:
    return MessageStore.open(
        _store_config(config),
        disk=disk,
        clock=clock,
        store_host=store_host,
        on_arrival=arrivals,
    )


def _store_config(config: BrokerConfig) -> StoreConfig:
    usual = StoreConfig(root=config.data)
    store = config.store or usual
    # Whichever of the two says something else than the default is meant.
    if config.delay_levels != usual.delay_levels:
        store = replace(store, delay_levels=config.delay_levels)
    if config.on_damage != usual.on_damaged_record:
        store = replace(store, on_damaged_record=config.on_damage)
    return store


def _lanes(
    core: Core,
    admission: Admission,
    pulls: PullHandlers,
) -> tuple[SendFastPath, FastPath]:
    store, topics, groups = core.store, core.tables.topics, core.tables.groups
    outgoing = Outbox()
    send_lane = SendFastPath(
        store,
        core.visibility,
        admission,
        core.stamp,
        outgoing,
        topics,
        store_host=core.store_host,
        max_body_bytes=core.config.max_message_bytes,
        stats=core.stats,
    )
    pull_lane = PullFastPath(
        store,
        core.tables.offsets,
        outgoing,
        plan=pulls.lane_plan,
        stamp=lambda: (
            topics.version,
            groups.version,
            core.connected.changes,
            core.planner.rules,
            core.cold.on,
        ),
        stats=core.stats,
    )
    return send_lane, FastPath(send_lane, pull_lane, outgoing, core.visibility)


def _reconfigure(
    core: Core,
    clients: ClientHandlers,
    sends: SendHandlers,
    send_lane: SendFastPath,
    config: BrokerConfig,
) -> None:
    """Tell everyone who goes by a setting that can change; wings look by themselves."""
    topics, now_ms = core.tables.topics, core.clock.now_ms()
    before = core.planner.rules
    core.planner.rules = _pull_rules(config)
    topics.let_sends_create(config.auto_create_topics, now_ms)
    core.tables.groups.auto_create = config.auto_create_groups
    clients.set_rules(notify=config.notify_consumers, property_filter=config.property_filter)
    sends.reconfigure(config)
    send_lane.limit_bodies(config.max_message_bytes)
    core.store.damaged.skip = config.on_damage == "skip"
    core.registrar.reconfigure(config)
    if config.permission != before.permission:
        topics.renew(now_ms)  # or the NameServers would not look at what topics allow now


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


async def _finish(
    waiting: WaitingPulls, lanes: FastPath, wings: Sequence[Feature], topics: TopicHandlers
) -> None:
    """Answer what was asked: those who wait for a message are told that there is none."""
    waiting.wake_all()
    for wing in wings:
        if wing.on_close is not None:
            wing.on_close()
    await lanes.finish()
    await topics.finish()


@asynccontextmanager
async def _running_wings(wings: Sequence[Feature]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for wing in wings:
            for name, loop in wing.loops.items():
                await stack.enter_async_context(running(loop(), name))
        yield


def _system_topics(config: BrokerConfig) -> Iterator[TopicSettings]:
    trace_topic = config.trace_topic_name if config.trace_topic else None
    return system_topics(config.cluster, config.name, trace_topic=trace_topic)


def _queues_in_use(store: MessageStore, *, every: bool = False) -> Iterator[tuple[str, int]]:
    """Queues with messages: one that has none left may be of a topic that was deleted.

    ``every`` gives those too that still have a file, where nothing else tells of topics.
    """
    for topic, queue_id in store.queues():
        queue = store.derived.queues.queue(topic, queue_id)
        if queue is not None and (queue.min_offset < queue.max_offset or (every and queue.sums())):
            yield topic, queue_id


async def _forget_topic(store: MessageStore, stats: Stats, topic: str) -> None:
    stats.forget_topic(topic)
    for name, queue_id in list(store.queues()):
        if name == topic:
            store.derived.queues.delete(name, queue_id)
    # Or a start after a kill would find the topic's last messages in the log, and it with them.
    await run_steps(store.rounds.syncing())


def _pull_rules(config: BrokerConfig) -> PullRules:
    return PullRules(
        permission=config.permission,
        lite_pull=config.lite_pull,
        property_filter=config.property_filter,
        long_polling=config.long_polling,
        short_polling_ms=config.short_polling_ms,
        max_suspend_ms=config.max_suspend_ms,
    )


@asynccontextmanager
async def _saved(tables: Tables, every_ms: int) -> AsyncIterator[None]:
    """Tables are saved inside the block again and again, and once more at its end."""
    try:
        async with running(tables.keep_saved(every_ms), "tables"):
            yield
    finally:
        tables.save()


async def _keep_tidy(retention: Retention, clock: Clock) -> None:
    """Let files go when their time has come, and refuse appends while the disk is full."""
    await clock.sleep(TIDY_FIRST_MS)
    while True:
        try:
            await run_steps(retention.running())
        except StoreError as error:
            log.warning("nothing could be removed reason=%s", error)
        await clock.sleep(TIDY_EVERY_MS)


@asynccontextmanager
async def _registered(registrar: Registrar) -> AsyncIterator[None]:
    """Known to the NameServers inside the block, and only there."""
    await registrar.register()
    try:
        async with running(registrar.keep_registered(), "registration"):
            yield
    finally:
        await registrar.unregister()
