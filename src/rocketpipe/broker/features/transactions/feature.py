"""Messages that show when their producer says so: half messages, decisions and checks back."""

from __future__ import annotations

from rocketpipe.broker.core import Core, Feature
from rocketpipe.broker.delivery.deferral import Deferral
from rocketpipe.broker.features.transactions.check_back import CheckBack, ProducerGroups
from rocketpipe.broker.features.transactions.decisions import Decisions
from rocketpipe.broker.features.transactions.handlers import TransactionHandlers
from rocketpipe.broker.features.transactions.open_transactions import OpenTransactions
from rocketpipe.broker.intake import half_messages
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.log.puts import Put


def transactions(core: Core) -> Feature:
    """Decide half messages as their producers say, and ask about those of which they say nothing.

    Raises:
        DiskError: What the last run left open cannot be read.
    """

    def done(offsets: list[QueueOffset]) -> Put:
        key, now_ms = core.stamp.new_key(), core.clock.now_ms()
        return half_messages.done(offsets, key, now_ms, core.store_host)

    waiting = OpenTransactions(core.store, core.tables.offsets)
    most_ms = core.store.config.timer_max_delay_ms
    deferral = Deferral(core.delays, core.clock, most_ms=most_ms)
    decisions = Decisions(
        core.store,
        core.intake,
        core.visibility,
        waiting,
        done=done,
        park=deferral.parked,
        destinations=core.destinations,
    )
    producers = ProducerGroups(core.connected, core.config.name, core.store_host)
    checks = CheckBack(
        core.settings.now,
        core.store,
        waiting,
        decisions,
        core.topic_provider,
        producers.ask,
        core.clock,
    )
    handlers = TransactionHandlers(
        core.settings.now, core.store, core.intake, decisions, core.clock
    )

    def count() -> int:
        waiting.catch_up()
        return len(waiting)

    core.settings.watch(checks.reconfigure)
    core.settings.watch(handlers.reconfigure)
    return Feature(
        handlers=(handlers,),
        loops={"open transactions": checks.keep_asking},
        takes_half=waiting.has_room,
        unfinished={"unfinishedTransactions": count},
    )
