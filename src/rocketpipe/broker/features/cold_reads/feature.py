"""Groups that read old messages are held back, where an operator wants it."""

from __future__ import annotations

from rocketpipe.broker.core import Core, Feature
from rocketpipe.broker.features.cold_reads.handlers import ColdReadHandlers


def cold_reads(core: Core) -> Feature:
    """Answer who sets limits; pulls keep to them by themselves."""
    core.settings.watch(
        core.cold.reconfigure, "cold_flow_control", "cold_group_bytes", "cold_total_bytes"
    )
    return Feature(handlers=(ColdReadHandlers(core.cold),))
