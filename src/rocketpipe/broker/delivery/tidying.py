"""Old files of the log are let go when their time has come."""

from __future__ import annotations

import logging
from typing import Final

from rocketpipe.broker.store_steps import run_steps
from rocketpipe.clock import Clock
from rocketpipe.errors import StoreError
from rocketpipe.store.upkeep.retention import Retention

log = logging.getLogger(__name__)

#: As RocketMQ's brokers do.
TIDY_FIRST_MS: Final = 60_000
TIDY_EVERY_MS: Final = 10_000


async def keep_tidy(retention: Retention, clock: Clock) -> None:
    """Let files go when their time has come, and refuse appends while the disk is full."""
    await clock.sleep(TIDY_FIRST_MS)
    while True:
        try:
            await run_steps(retention.running())
        except StoreError as error:
            log.warning("nothing could be removed reason=%s", error)
        await clock.sleep(TIDY_EVERY_MS)
