"""The core of a broker put together: the store, the tables and what everything else stands on."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from rocketpipe.auth.gate import Gate
from rocketpipe.auth.needs import Surroundings
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.live import LiveSettings
from rocketpipe.broker.core import Core
from rocketpipe.broker.delivery.cold_reads import ColdReads
from rocketpipe.broker.delivery.delay import DelayLevels
from rocketpipe.broker.delivery.destinations import Destinations
from rocketpipe.broker.delivery.filtering import Filters
from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.delivery.pull_plan import PullPlanner, PullRules
from rocketpipe.broker.handlers.lookups import topic_at
from rocketpipe.broker.intake.admission import Admission, AdmissionLimits
from rocketpipe.broker.intake.arrivals import Arrivals
from rocketpipe.broker.intake.intake import Intake
from rocketpipe.broker.intake.sent_properties import BrokerProperties
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.replication.standing import Standing
from rocketpipe.broker.replication.status import GroupView, alone
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.lock_journal import LOCKS_FILE, LockJournal
from rocketpipe.broker.tables.queue_locks import QueueLocks
from rocketpipe.broker.tables.system_topics import system_topics
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.clock import Clock
from rocketpipe.model.ids import UniqueKeys
from rocketpipe.model.topic import TopicSettings
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Committed, Pins, Retention


def open_store(
    config: BrokerConfig,
    disk: Disk,
    clock: Clock,
    store_host: bytes,
    arrivals: Arrivals,
    *,
    replicated: bool = False,
    threads: bool = True,
) -> MessageStore:
    """Open the store of a broker, or of a replica: then others say what of its end is confirmed.

    Raises:
        StoreError: If the data directory cannot be used.
    """
    return MessageStore.open(
        store_config(config),
        disk=disk,
        clock=clock,
        store_host=store_host,
        on_arrival=arrivals,
        threads=threads,
        replicated=replicated,
    )


def store_config(config: BrokerConfig) -> StoreConfig:
    """What a broker's settings say to its store."""
    usual = StoreConfig(root=config.data)
    store = config.store or usual
    # Whichever of the two says something else than the default is meant.
    if config.delay_levels != usual.delay_levels:
        store = replace(store, delay_levels=config.delay_levels)
    if config.on_damage != usual.on_damaged_record:
        store = replace(store, on_damaged_record=config.on_damage)
    return store


def build_core(
    config: BrokerConfig,
    store: MessageStore,
    *,
    address: str,
    store_host: bytes,
    clock: Clock,
    chance: random.Random,
    disk: Disk,
    caller: Caller,
    arrivals: Arrivals,
    gate: Gate | None = None,
) -> Core:
    """Build the parts that all share, on a store that is open.

    Raises:
        DiskError: The tables, or the queues of what was deleted, cannot be read.
    """
    if gate is not None:
        gate.around = Surroundings(cluster=config.cluster, topic_at=partial(topic_at, store))
    tables = _load_tables(config, store, disk, clock)
    topics, groups, offsets = tables.topics, tables.groups, tables.offsets
    standing = Standing()
    visibility = Visibility(store, clock, standing)
    stats = Stats(clock)
    connected = ClientTable(silent_ms=config.client_expiry_ms)
    locks = QueueLocks()
    owners = LockJournal(disk, StoreLayout(config.data).config / LOCKS_FILE, locks, clock)
    owners.load(fresh=not store.positions.written)
    waiting = WaitingPulls(clock, limit=config.max_waiting_pulls)
    arrivals.listen(
        lambda topic, queue_id, offset, code, _, properties: waiting.notify(
            topic, queue_id, offset + 1, code, properties
        ),
        while_=waiting.__len__,
    )
    registrar = Registrar(config, address, topics, caller, clock, settled=tables.settled)
    limits = AdmissionLimits(
        waiting_sends=config.max_waiting_sends, accept_from_ms=config.accept_sends_at_ms
    )
    admission = Admission(store, visibility, clock, limits, standing)
    intake = Intake(store, visibility, admission, store_host, stats)
    topic_provider = TopicProvider(topics, groups, registrar, clock, chance, tables.group_kept)
    destinations = Destinations(topics, topic_provider)
    pins = Pins()
    keys = UniqueKeys(store_host[:-4], os.getpid(), chance.getrandbits(32))
    return Core(
        config=config,
        address=address,
        store_host=store_host,
        clock=clock,
        chance=chance,
        disk=disk,
        store=store,
        pins=pins,
        retention=Retention(
            store,
            disk=disk,
            clock=clock,
            pins=pins,
            committed=lambda: (Committed(*place) for place in offsets.all()),
        ),
        tables=tables,
        connected=connected,
        locks=locks,
        owners=owners,
        standing=standing,
        group=GroupView(partial(alone, store.positions, address)),
        visibility=visibility,
        admission=admission,
        intake=intake,
        topic_provider=topic_provider,
        stamp=BrokerProperties(config, keys, clock),
        delays=DelayLevels(store, intake, tables.delays, clock, pins, destinations),
        destinations=destinations,
        planner=PullPlanner(topics, groups, connected, Filters(), PullRules.of(config)),
        cold=ColdReads(config, store, clock),
        waiting=waiting,
        stats=stats,
        settings=LiveSettings(config, store.config, clock),
        registrar=registrar,
        caller=caller,
        arrivals=arrivals,
        gate=gate,
    )


def _load_tables(config: BrokerConfig, store: MessageStore, disk: Disk, clock: Clock) -> Tables:
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
    if config.replication is None:
        tables.reconcile(store)  # else whoever leads says what was deleted
    return tables


def _system_topics(config: BrokerConfig) -> Iterator[TopicSettings]:
    trace_topic = config.trace_topic_name if config.trace_topic else None
    return system_topics(
        config.cluster,
        config.name,
        trace_topic=trace_topic,
        replicated=config.replication is not None,
    )
