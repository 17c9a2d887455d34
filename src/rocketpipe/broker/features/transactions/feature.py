"""Messages that show when their producer says so: half messages, decisions and checks back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from rocketpipe.broker.core import Core, Feature
from rocketpipe.broker.counts import Counts
from rocketpipe.broker.delivery.deferral import Deferral
from rocketpipe.broker.features.transactions.check_back import CheckBack, ProducerGroups
from rocketpipe.broker.features.transactions.decisions import Decisions
from rocketpipe.broker.features.transactions.handlers import TransactionHandlers
from rocketpipe.broker.features.transactions.open_transactions import OpenTransactions, Outcome
from rocketpipe.broker.intake import half_messages
from rocketpipe.broker.intake.half_messages import Half
from rocketpipe.clock import Clock
from rocketpipe.metrics import Distribution, Family, Kind, Series
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
        ended=partial(_count_end, core.stats.counts, core.clock),
    )
    may_decide = {} if core.gate is None else {"may_decide": core.gate.may_publish}
    producers = ProducerGroups(core.connected, core.config.name, core.store_host, **may_decide)
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
        families=partial(_families, waiting, core.stats.counts),
    )


def _count_end(counts: Counts, clock: Clock, half: Half, outcome: Outcome) -> None:
    if outcome is Outcome.COMMITTED:
        counts.committed(half.topic, clock.now_ms() - half.born_ms)
    elif outcome is Outcome.ROLLED_BACK:
        counts.rolled_back(half.topic)


def _families(
    waiting: OpenTransactions, counts: Counts, named: Mapping[str, str]
) -> Iterator[Family]:
    """What is told of transactions."""
    waiting.catch_up()
    yield Family(
        "rocketmq_half_messages",
        Kind.GAUGE,
        "Messages of transactions that nobody has decided.",
        (Series(n, {**named, "topic": topic}) for topic, n in waiting.by_topic().items()),
    )
    ends = list(counts.commits())
    yield Family(
        "rocketmq_commit_messages_total",
        Kind.COUNTER,
        "Transactions that were committed.",
        (Series(sum(spread.counts), {**named, "topic": topic}) for topic, spread in ends),
    )
    yield Family(
        "rocketmq_rollback_messages_total",
        Kind.COUNTER,
        "Transactions that were rolled back.",
        (Series(n, {**named, "topic": topic}) for topic, n in counts.rollbacks()),
    )
    yield Family(
        "rocketmq_finish_message_latency_milliseconds",
        Kind.HISTOGRAM,
        "Seconds from the birth of a message to its commit; RocketMQ's name says milliseconds.",
        (
            Distribution(spread.bounds, spread.counts, spread.total, {**named, "topic": topic})
            for topic, spread in ends
        ),
    )
