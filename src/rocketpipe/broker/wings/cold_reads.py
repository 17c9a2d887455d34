"""Groups that read old messages are held back, where an operator wants it."""

from __future__ import annotations

from rocketpipe.broker.core import Core, Wing
from rocketpipe.broker.handlers.cold_reads import ColdReadHandlers


def cold_reads(core: Core) -> Wing:
    """Answer who sets limits; pulls keep to them by themselves."""
    core.settings.watch(
        core.cold.reconfigure, "cold_flow_control", "cold_group_bytes", "cold_total_bytes"
    )
    return Wing(handlers=(ColdReadHandlers(core.cold),))
