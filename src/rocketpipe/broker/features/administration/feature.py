"""What operators ask: how the broker fares, where groups are, who is connected, and cleaning up."""

from __future__ import annotations

from functools import partial

from rocketpipe.broker.core import Core, Feature
from rocketpipe.broker.features.administration.brokers import (
    CleaningHandlers,
    ReadModeHandlers,
    SettingHandlers,
    StatsHandlers,
)
from rocketpipe.broker.features.administration.lag import Progress
from rocketpipe.broker.features.administration.offset_resets import Resets
from rocketpipe.broker.features.administration.progress import ProgressHandlers, QueueHandlers
from rocketpipe.broker.features.administration.read_mode import ReadMode
from rocketpipe.broker.features.administration.resets import CloneHandlers, ResetHandlers
from rocketpipe.broker.features.administration.running_info import ConnectionHandlers, RelayHandlers
from rocketpipe.broker.features.administration.runtime_info import RuntimeInfo


def administration(core: Core) -> Feature:
    """Answer those who look after the broker."""
    tables, store, name = core.tables, core.store, core.config.name
    topics, groups, offsets = tables.topics, tables.groups, tables.offsets
    progress = Progress(store, topics, offsets, core.connected, core.stats, name)
    resets = Resets(store, offsets, core.connected, core.waiting, core.clock)
    runtime = RuntimeInfo(
        store,
        core.retention,
        core.stats,
        core.settings,
        core.clock,
        leads=lambda: core.group.status().leads,
        unfinished=core.unfinished,
    )
    read_mode = ReadMode(store.commit_log, core.clock)
    values = partial(runtime.values, core.visibility, core.waiting, tables.delays)
    return Feature(
        handlers=(
            SettingHandlers(core.settings, core.registrar),
            StatsHandlers(values, core.stats, core.config.cluster, tables),
            CleaningHandlers(store, core.retention, tables),
            ReadModeHandlers(read_mode),
            ProgressHandlers(
                progress, topics, groups, core.connected, core.clock, address=core.address
            ),
            QueueHandlers(store, topics, offsets, core.connected),
            ResetHandlers(resets, store, topics, groups, name),
            CloneHandlers(offsets, topics, progress),
            ConnectionHandlers(core.connected, core.clock),
            RelayHandlers(core.connected, store, topics, groups, name),
        ),
        loops={
            "counts": core.stats.keep_settled,
            "read mode": read_mode.keep_told,
            "resets": resets.keep_bounded,
        },
    )
