"""Messages that show at any moment, and can be taken back before."""

from __future__ import annotations

from functools import partial

from rocketpipe.broker.core import Core, Feature
from rocketpipe.broker.features.timers import measures
from rocketpipe.broker.features.timers.handlers import TimerHandlers, TimerStateHandlers
from rocketpipe.broker.features.timers.timers import Timers
from rocketpipe.model.names import TIMER_TOPIC


def timers(core: Core) -> Feature:
    """Deliver what falls due, and answer those who take messages back."""
    pin = core.retention.hold(core.store.first_offset, "timed messages", yields=True)
    counts = core.stats.counts
    delivery = Timers(core.store, core.intake, core.clock, core.destinations, pin, counts)
    handlers = TimerHandlers(
        core.settings.now, core.intake, core.topic_provider, delivery, core.clock
    )
    core.settings.watch(handlers.reconfigure)
    core.arrivals.listen(
        lambda *arrival: measures.count_waiting(core, arrival[5], arrival[4]), topic=TIMER_TOPIC
    )
    return Feature(
        handlers=(handlers, TimerStateHandlers(core.store, core.clock)),
        loops={"timed messages": delivery.keep_delivered},
        families=partial(measures.families, core),
    )
