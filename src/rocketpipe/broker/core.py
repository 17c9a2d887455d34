"""The core of a broker, on which all its features are built, and what a feature is.

The everyday parts (topics, groups, storing, pulling) are made in ``assembly`` and ``duties``.
Each further capability is a feature: a function that is given the core, picks from it what its
parts need, and returns what has to be plugged in. So a capability can be read, and left out, on its
own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field

from rocketpipe.auth.gate import Gate
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.live import LiveSettings
from rocketpipe.broker.delivery.cold_reads import ColdReads
from rocketpipe.broker.delivery.delay import DelayLevels
from rocketpipe.broker.delivery.destinations import Destinations
from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.delivery.pull_plan import PullPlanner
from rocketpipe.broker.fast_path.turn_lane import TurnLane
from rocketpipe.broker.intake.admission import Admission
from rocketpipe.broker.intake.arrivals import Arrivals
from rocketpipe.broker.intake.intake import Intake
from rocketpipe.broker.intake.sent_properties import BrokerProperties
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.replication.standing import Standing
from rocketpipe.broker.replication.status import GroupView
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.lock_journal import LockJournal
from rocketpipe.broker.tables.queue_locks import QueueLocks
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.clock import Clock
from rocketpipe.metrics import Family
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Pins, Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The parts that features share; what a feature builds is given what it uses, and no more."""

    config: BrokerConfig
    address: str
    store_host: bytes
    clock: Clock
    chance: random.Random
    disk: Disk
    store: MessageStore
    #: Who holds which part of the log.
    pins: Pins
    retention: Retention
    tables: Tables
    connected: ClientTable
    locks: QueueLocks
    #: Where the owners of queues are kept on disk.
    owners: LockJournal
    #: Whether it leads, and whose word a send needs.
    standing: Standing
    #: How its replicas stand, for those who ask.
    group: GroupView
    visibility: Visibility
    admission: Admission
    intake: Intake
    topic_provider: TopicProvider
    stamp: BrokerProperties
    delays: DelayLevels
    destinations: Destinations
    planner: PullPlanner
    cold: ColdReads
    waiting: WaitingPulls
    stats: Stats
    #: What can change while the broker runs is read from here, as ``settings.now``.
    settings: LiveSettings
    registrar: Registrar
    #: By which this broker calls others.
    caller: Caller
    arrivals: Arrivals
    #: Who is let in; None where everybody is.
    gate: Gate | None = None
    #: How much each feature has begun and not ended, by the name under which operators see it.
    unfinished: dict[str, Callable[[], int]] = field(default_factory=dict)
    #: What features measure, and what of topics groups have in their hands.
    families: list[Callable[[Mapping[str, str]], Iterator[Family]]] = field(default_factory=list)
    in_flight: list[Callable[[], Mapping[tuple[str, str], int] | None]] = field(
        default_factory=list
    )


Loop = Callable[[], Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What a capability adds to a broker."""

    #: Objects with methods marked by `handles`.
    handlers: tuple[object, ...] = ()
    #: What runs as long as the broker does, by the name that its log lines carry.
    loops: Mapping[str, Loop] = field(default_factory=dict)
    #: Whether one more half message may wait, of at most so many; None if it knows of none.
    takes_half: Callable[[int], bool] | None = None
    #: How much of what it began is not over, by the name under which operators see it.
    unfinished: Mapping[str, Callable[[], int]] = field(default_factory=dict)
    #: What it measures; given the labels that all of a broker's have.
    families: Callable[[Mapping[str, str]], Iterator[Family]] | None = None
    #: How many messages of a topic a group has in hand, by both; None if that is too much to count.
    in_flight: Callable[[], Mapping[tuple[str, str], int] | None] | None = None
    #: Called once when the broker closes, so that nobody is left waiting for an answer.
    on_close: Callable[[], None] | None = None
    #: What it does in the fast path, if anything.
    lane: TurnLane | None = None
