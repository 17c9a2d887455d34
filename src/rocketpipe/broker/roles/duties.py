"""What a broker does in its role, built on a core.

role          features, handlers, router and fast path; inside a block, so that they can be
taken down without a trace and built again on the same core
background    the loops of both, by the names that their log lines carry
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from rocketpipe.auth.handlers import PlainAclHandlers, UserHandlers
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core, Feature, Loop
from rocketpipe.broker.delivery.deferral import Deferral
from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.delivery.pull_plan import PullRules
from rocketpipe.broker.delivery.repairing import keep_repaired
from rocketpipe.broker.delivery.retry import Retries
from rocketpipe.broker.delivery.single_sends import SingleSends
from rocketpipe.broker.delivery.slave_reads import SlaveReads
from rocketpipe.broker.delivery.tidying import keep_tidy
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
from rocketpipe.broker.handlers.replication import ReplicationHandlers
from rocketpipe.broker.handlers.sending import SendHandlers
from rocketpipe.broker.handlers.topics import TopicHandlers, TopicStatsHandlers
from rocketpipe.broker.intake.open_transaction_limit import OpenTransactionLimit
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.store_steps import run_steps
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.remoting.connection import Answer
from rocketpipe.remoting.router import Ask, Router
from rocketpipe.store.message_store import MessageStore

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
    *("notify_consumers", "on_damage", "min_in_sync", "slave_read", "accept_sends_at_ms"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a broker serves: built on a core, and gone when its block ends."""

    router: Router
    #: How a command is answered: by the router, unless the role says otherwise.
    answer: Answer
    #: The same for a request that was read elsewhere.
    ask: Ask
    #: None where nothing is done for less.
    fast_path: FastPath | None
    features: Sequence[Feature]
    clients: ClientHandlers
    topics: TopicHandlers

    async def finish(self, waiting: WaitingPulls) -> None:
        """Answer what was asked: those who wait for a message are told that there is none."""
        waiting.wake_all()
        for feature in self.features:
            if feature.on_close is not None:
                feature.on_close()
        if self.fast_path is not None:
            await self.fast_path.finish()
        await self.topics.finish()


# The role


@contextmanager
def role(core: Core, slaves: SlaveReads | None = None) -> Iterator[Role]:
    """Build features, handlers and fast path on a core; at the end of the block none is left.

    ``slaves`` may be read in this broker's place.

    Raises:
        StoreError: What the last run left to a feature cannot be read.
    """
    with core.arrivals.temporary(), core.settings.temporary(), core.pins.temporary():
        core.delays.hold_log()
        features = [feature(core) for feature in FEATURES]
        for feature in features:
            core.unfinished.update(feature.unfinished)
        pulls = pull_handlers(core, PullHandlers, slaves)
        clients = client_handlers(core)
        topics = topic_handlers(core)
        singles = _single_sends(core, features)
        sends = _send_handlers(core, singles)
        send_path, fast_path = _fast_path(core, pulls, singles, slaves, features)
        core.settings.watch(partial(_reconfigure, core, clients, sends, send_path), *_LIVE)
        router = build_router(core, features, sends, pulls, clients, topics)
        try:
            yield Role(
                router=router,
                answer=router.answer,
                ask=router.ask,
                fast_path=fast_path,
                features=features,
                clients=clients,
                topics=topics,
            )
        finally:
            core.unfinished.clear()


def build_router(
    core: Core,
    features: Sequence[Feature],
    sends: SendHandlers,
    pulls: PullHandlers,
    clients: ClientHandlers,
    topics_answered: TopicHandlers,
) -> Router:
    """Return the router over everyday handlers and those of all features."""
    tables, store, clock = core.tables, core.store, core.clock
    topics, groups, offsets = tables.topics, tables.groups, tables.offsets
    saved = tables.offsets_saved if core.config.offset_commit == "sync" else None
    return Router(
        sends,
        pulls,
        OffsetHandlers(store, offsets, topics, groups, saved),
        LookupHandlers(store),
        clients,
        LockHandlers(core.locks, core.connected, clock, core.owners.kept),
        topics_answered,
        TopicStatsHandlers(topics, store, core.config.name, core.stats.topic_rate),
        GroupHandlers(groups, offsets, clock, tables.settled, core.standing.check_replicas),
        ReplicationHandlers(core.config.cluster, core.config.name, core.address, core.group, clock),
        *user_handlers(core),
        *(handlers for feature in features for handlers in feature.handlers),
        guard=core.gate,
    )


def user_handlers(core: Core) -> list[object]:
    """Answer about the core's users, where it has any."""
    if core.gate is None:
        return []
    users, config = UserHandlers(core.gate), core.config
    return [users, PlainAclHandlers(users, config.name, core.address, config.cluster)]


_PullsT = TypeVar("_PullsT", bound=PullHandlers)


def pull_handlers(core: Core, kind: type[_PullsT], slaves: SlaveReads | None = None) -> _PullsT:
    """Answer pulls from the core's store."""
    return kind(
        core.store,
        core.planner,
        core.tables.offsets,
        core.waiting,
        core.clock,
        core.cold,
        core.stats,
        slaves,
    )


def client_handlers(core: Core, *, leads: bool = True) -> ClientHandlers:
    """Know the core's clients; who ``leads`` makes retry topics, and takes queues back."""
    return ClientHandlers(
        core.connected,
        core.tables.groups,
        core.topic_provider if leads else None,
        core.clock,
        notify=core.config.notify_consumers,
        property_filter=core.config.property_filter,
        filters=core.planner.filters,
        locks=core.locks if leads else None,
    )


def topic_handlers(core: Core) -> TopicHandlers:
    """Answer about the core's topics, and change them."""
    store = core.store
    return TopicHandlers(
        core.tables.topics,
        core.tables.offsets,
        core.registrar,
        core.clock,
        partial(_forget_topic, store, core.tables, core.stats),
        settled=core.tables.settled,
        log_ends=lambda: (store.first_offset, store.positions.written),
        admit=core.standing.check_replicas,
    )


async def _forget_topic(store: MessageStore, tables: Tables, stats: Stats, topic: str) -> None:
    stats.forget_topic(topic)
    if tables.replicas is not None:
        # Or a leader that is none any more would lose the queues of a topic that lives on.
        await tables.replicas.settled()
    for name, queue_id in list(store.queues()):
        if name == topic:
            store.derived.queues.delete(name, queue_id)
    # Or a start after a kill would find the topic's last messages in the log, and it with them.
    await run_steps(store.rounds.syncing())


def _single_sends(core: Core, features: Sequence[Feature]) -> SingleSends:
    config, store = core.config, core.store
    deferral = Deferral(
        core.delays,
        core.clock,
        most_ms=store.config.timer_max_delay_ms,
        waiting=store.derived.timer,
        most_waiting=store.config.max_waiting_timers,
    )
    halves = [feature.takes_half for feature in features if feature.takes_half is not None]
    limit = OpenTransactionLimit(
        config.max_open_transactions, lambda most: all(takes(most) for takes in halves)
    )
    return SingleSends(config, core.stamp, deferral, limit)


def _send_handlers(core: Core, singles: SingleSends) -> SendHandlers:
    retries = Retries(
        core.store, core.topic_provider, core.delays, core.locks, core.clock, core.stats
    )
    return SendHandlers(core.config, core.intake, core.topic_provider, core.stamp, singles, retries)


def _fast_path(
    core: Core,
    pulls: PullHandlers,
    singles: SingleSends,
    slaves: SlaveReads | None,
    features: Sequence[Feature],
) -> tuple[SendFastPath, FastPath]:
    store, topics, groups = core.store, core.tables.topics, core.tables.groups
    outbox = Outbox()
    send_path = SendFastPath(
        store,
        core.visibility,
        core.admission,
        core.stamp,
        outbox,
        topics,
        singles,
        store_host=core.store_host,
        max_body_bytes=core.config.max_message_bytes,
        stats=core.stats,
    )
    pull_path = PullFastPath(
        store,
        core.tables.offsets,
        outbox,
        plan=pulls.lane_plan,
        stamp=lambda: (
            topics.version,
            groups.version,
            core.connected.changes,
            core.planner.rules,
            core.cold.on,
        ),
        stats=core.stats,
        slaves=slaves,
    )
    lanes = [feature.lane for feature in features if feature.lane is not None]
    return send_path, FastPath(send_path, pull_path, outbox, core.visibility, lanes)


def _reconfigure(
    core: Core,
    clients: ClientHandlers,
    sends: SendHandlers,
    send_path: SendFastPath,
    config: BrokerConfig,
) -> None:
    """Tell everyone who goes by a setting that can change; features look by themselves."""
    topics, now_ms = core.tables.topics, core.clock.now_ms()
    before = core.planner.rules
    core.planner.rules = PullRules.of(config)
    topics.let_sends_create(config.auto_create_topics, now_ms)
    core.tables.groups.auto_create = config.auto_create_groups
    clients.set_rules(notify=config.notify_consumers, property_filter=config.property_filter)
    sends.reconfigure(config)
    send_path.limit_bodies(config.max_message_bytes)
    core.admission.accept_from(config.accept_sends_at_ms)
    core.store.damaged.skip = config.on_damage == "skip"
    core.registrar.reconfigure(config)
    if config.replication is not None and core.standing.followers is not None:
        core.standing.followers.reconfigure(config.replication)
    if config.permission != before.permission:
        topics.renew(now_ms)  # or the NameServers would not look at what topics allow now


# What runs as long as they do


def background(core: Core, serving: Role, *, leads: bool = True) -> Mapping[str, Loop]:
    """Return what runs beside the ports, by name; some of it where a broker ``leads`` only."""
    loops: dict[str, Loop] = {
        "retention": partial(keep_tidy, core.retention, core.clock),
        "dispatch": core.visibility.keep_dispatched,
        "repairs": partial(keep_repaired, core.store, core.clock),
        "waiting pulls": partial(core.waiting.keep_time, core.store.max_offset),
        "expressions of waiting pulls": core.waiting.keep_sifting,
        "silent clients": serving.clients.keep_current,
    }
    if leads:
        loops["delayed messages"] = core.delays.keep_delivered
        loops["queue locks"] = core.owners.keep_tidy
    for feature in serving.features:
        loops.update(feature.loops)
    return loops
