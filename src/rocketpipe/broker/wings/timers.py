"""Messages that show at any moment, and can be taken back before."""

from __future__ import annotations

from rocketpipe.broker.core import Core, Wing
from rocketpipe.broker.delivery.timer import Timers
from rocketpipe.broker.handlers.timers import TimerHandlers


def timers(core: Core) -> Wing:
    """Deliver what falls due, and answer those who take messages back."""
    pin = core.retention.hold(core.store.first_offset, "timed messages", yields=True)
    delivery = Timers(core.store, core.intake, core.clock, core.destinations, pin)
    handlers = TimerHandlers(core.settings.now, core.intake, core.supply, delivery, core.clock)
    core.settings.watch(handlers.reconfigure)
    return Wing(
        handlers=(handlers,),
        loops={"timed messages": delivery.keep_delivered},
    )
