"""Old files of the log are let go when their time has come."""

from __future__ import annotations

import logging
from typing import Final

from rocketpipe.broker.store_steps import run_steps
from rocketpipe.clock import Clock
from rocketpipe.errors import StoreError
from rocketpipe.store.upkeep.retention import Retention

log = logging.getLogger(__name__)

#: As RocketMQ's brokers do. But whether the disk is full is asked from the start on: a broker that
#: is started again and again would fill it to the last byte else.
TIDY_FIRST_MS: Final = 60_000
TIDY_EVERY_MS: Final = 10_000


async def keep_tidy(retention: Retention, clock: Clock) -> None:
    """Let files go when their time has come, and refuse appends while the disk is full."""
    passed_ms = 0
    while True:
        try:
            if passed_ms < TIDY_FIRST_MS:
                retention.heed_room()
            else:
                await run_steps(retention.running())
        except StoreError as error:
            log.warning("nothing could be removed reason=%s", error)
        await clock.sleep(TIDY_EVERY_MS)
        passed_ms += TIDY_EVERY_MS
