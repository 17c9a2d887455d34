"""Replies to questions, from whoever consumed them to whoever asked."""

from __future__ import annotations

from rocketpipe.broker.core import Core, Feature
from rocketpipe.broker.features.replies.handlers import ReplyHandlers


def replies(core: Core) -> Feature:
    """Push replies to the producers that wait for them."""
    handlers = ReplyHandlers(
        core.config, core.address, core.intake, core.connected, core.stamp, core.clock
    )
    return Feature(handlers=(handlers,))
