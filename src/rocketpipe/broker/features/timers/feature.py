"""Messages that show at any moment, and can be taken back before."""

from __future__ import annotations

from rocketpipe.broker.core import Core, Feature
from rocketpipe.broker.features.timers.handlers import TimerHandlers, TimerStateHandlers
from rocketpipe.broker.features.timers.timers import Timers


def timers(core: Core) -> Feature:
    """Deliver what falls due, and answer those who take messages back."""
    pin = core.retention.hold(core.store.first_offset, "timed messages", yields=True)
    delivery = Timers(core.store, core.intake, core.clock, core.destinations, pin)
    handlers = TimerHandlers(
        core.settings.now, core.intake, core.topic_provider, delivery, core.clock
    )
    core.settings.watch(handlers.reconfigure)
    return Feature(
        handlers=(handlers, TimerStateHandlers(core.store, core.clock)),
        loops={"timed messages": delivery.keep_delivered},
    )
