"""Popped messages: given out for a while, acknowledged or shown again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rocketpipe.broker.core import Core, Feature
from rocketpipe.broker.features.popping import measures
from rocketpipe.broker.features.popping.ack_lane import AckLane
from rocketpipe.broker.features.popping.acks import Acks
from rocketpipe.broker.features.popping.assignments import AssignmentHandlers
from rocketpipe.broker.features.popping.handlers import AckHandlers, PopGate, PopHandlers
from rocketpipe.broker.features.popping.pop import PopRules, Pops
from rocketpipe.broker.features.popping.revive import Revivals
from rocketpipe.broker.features.popping.revive_log import ReviveLog
from rocketpipe.broker.features.popping.waiting_pops import WaitingPops
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.order import OrderTable
from rocketpipe.model.names import revive_topic


def popping(core: Core) -> Feature:
    """Serve pops, and what follows them.

    Raises:
        StoreError: What was in flight cannot be read.
    """
    config, clock = core.config, core.clock
    orders = core.tables.orders
    revive_log = ReviveLog(
        core.store,
        core.intake,
        core.tables.offsets,
        orders,
        clock,
        topic=revive_topic(config.cluster),
        host=core.store_host,
        counts=core.stats.counts,
    )
    revive_log.recover()
    waiting = WaitingPops(clock, limit=config.max_waiting_pops)

    core.connected.on_left.append(waiting.dismiss)
    core.arrivals.listen(
        lambda topic, queue_id, offset, *_: revive_log.arrived(topic, queue_id, offset),
        topic=revive_topic(config.cluster),
    )
    core.arrivals.listen(
        lambda topic, queue_id, _, code, __, properties: waiting.notify(
            topic, queue_id, code, properties
        ),
        while_=waiting.__len__,
    )
    rules = PopRules(
        broker=config.name,
        retry_first=config.pop_from_retry_percent,
        retry_v2=config.pop_retry_topic_v2,
    )
    revivals = Revivals(
        core.store,
        revive_log,
        core.topic_provider,
        core.tables.groups,
        clock,
        retry_v2=config.pop_retry_topic_v2,
        orders=orders,
        counts=core.stats.counts,
    )
    pops = Pops(
        core.store,
        core.tables.topics,
        revive_log,
        orders,
        clock,
        core.chance,
        rules,
        keep=core.tables.offsets_saved,
        follow=revivals.follow_clock,
    )
    acks = Acks(revive_log, orders, clock, config.name, freed=waiting.wake)
    gate = PopGate(
        permission=config.permission,
        property_filter=config.property_filter,
        max_wait_ms=config.max_suspend_ms,
    )
    ack_handlers = AckHandlers(acks, core.store, core.topic_provider)
    unblocking = _Unblocking(orders, waiting.wake, clock.now_ms)
    return Feature(
        handlers=(
            PopHandlers(
                pops,
                waiting,
                core.topic_provider,
                clock,
                gate,
                core.stats.get,
                core.planner.filters,
            ),
            ack_handlers,
            _assignments(core),
        ),
        loops={
            "revivals": revivals.keep_reviving,
            "waiting pops": partial(waiting.keep_time, unblocking.look),
        },
        unfinished={"unfinishedPops": revive_log.flights.__len__},
        in_flight=revive_log.flights.by_topic,
        families=partial(measures.families, revive_log, core.stats.counts),
        on_close=partial(_close, waiting, core.connected),
        lane=AckLane(ack_handlers, acks),
    )


def _close(waiting: WaitingPops, connected: ClientTable) -> None:
    if waiting.dismiss in connected.on_left:  # a broker that was killed closes what is closed
        connected.on_left.remove(waiting.dismiss)
    waiting.wake_all()


def _assignments(core: Core) -> AssignmentHandlers:
    tables = core.tables
    return AssignmentHandlers(
        core.registrar.readable_queues,
        core.connected,
        tables.modes,
        tables.topics,
        tables.groups,
        tables.modes_saved,
    )


class _Unblocking:
    """Has pops look again when a queue popped in order is free, as its time is over."""

    def __init__(
        self,
        orders: OrderTable,
        wake: Callable[[str, str, int], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._orders = orders
        self._wake = wake
        self._now_ms = now_ms
        self._blocked: dict[tuple[str, str, int], int] = {}
        self._changes = -1
        self._looked_ms = now_ms()

    def look(self) -> None:
        if self._changes != self._orders.changes:
            self._changes = self._orders.changes
            # Also what became free since the last look, however short it was blocked.
            self._blocked = dict(self._orders.blocked(self._looked_ms))
        self._looked_ms = now_ms = self._now_ms()
        for place, free_ms in list(self._blocked.items()):
            if free_ms <= now_ms:
                del self._blocked[place]
                self._wake(*place)
