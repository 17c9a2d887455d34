"""Damaged queues and indexes are put right beside everything else that a broker does."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from rocketpipe.broker.store_steps import run_steps
from rocketpipe.clock import Clock
from rocketpipe.errors import StoreError
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

#: So long after a repair that failed it is taken up again.
AGAIN_MS: Final = 1000


async def keep_repaired(store: MessageStore, clock: Clock) -> None:
    """Put right what is found damaged, as long as this runs; who asks for it asks again."""
    repairs = store.derived.repairs
    found = asyncio.Event()
    repairs.wake = found.set
    try:
        while True:
            if not repairs.is_due:
                await found.wait()
            found.clear()
            try:
                await run_steps(repairs.running())
            except StoreError as error:
                log.warning("a repair failed, and is tried again reason=%s", error)
                await clock.sleep(AGAIN_MS)
    finally:
        repairs.wake = None
