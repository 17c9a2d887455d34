"""Sends that show all at once, or never: of our own, for sinks that count each row once."""

from __future__ import annotations

from rocketpipe.broker.core import Core, Feature
from rocketpipe.broker.delivery.deferral import Deferral
from rocketpipe.broker.features.staging.asking import StageAsking
from rocketpipe.broker.features.staging.handlers import StagingHandlers
from rocketpipe.broker.features.staging.messages import StagedMessages
from rocketpipe.broker.features.staging.records import LEDGER_QUEUE
from rocketpipe.broker.features.staging.stages import StageTable
from rocketpipe.broker.features.staging.staging import Staging
from rocketpipe.model.names import STAGING_TOPIC
from rocketpipe.store.log.puts import Put


def staging(core: Core) -> Feature:
    """Take parts, and show what is committed, also what the last run had not shown yet.

    Raises:
        DiskError: What the last run left cannot be read.
    """

    def own(body: bytes) -> Put:
        return Put(
            topic=STAGING_TOPIC,
            queue_id=LEDGER_QUEUE,
            body=body,
            properties=b"",
            flag=0,
            sys_flag=0,
            born_ms=core.clock.now_ms(),
            born_host=core.store_host,
        )

    config = core.settings.now
    messages = StagedMessages(
        core.stamp,
        Deferral(
            core.delays,
            core.clock,
            most_ms=core.store.config.timer_max_delay_ms,
            waiting=core.store.derived.timer,
            most_waiting=core.store.config.max_waiting_timers,
        ),
        config.max_message_bytes,
        unlimited=Deferral(core.delays, core.clock, most_ms=None),
    )
    kept = Staging(
        core.store,
        core.visibility,
        core.retention,
        core.clock,
        StageTable(config.max_staged_bytes),
        expiry_ms=config.staged_expiry_ms,
        ledger_ms=config.staged_ledger_ms,
        messages=messages,
        own=own,
        destinations=core.destinations,
    )
    handlers = StagingHandlers(config, core.intake, core.topic_provider, kept, messages)
    core.settings.watch(handlers.reconfigure)
    asking = StageAsking(
        kept,
        core.caller,
        core.clock,
        config.name,
        config.name_servers,
        expiry_ms=config.staged_expiry_ms,
    )
    return Feature(
        handlers=(handlers,),
        loops={"staged sends": kept.keep_going, "prepared sends": asking.keep_asking},
        unfinished={"unfinishedStages": kept.book.unfinished},
    )
