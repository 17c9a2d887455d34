"""Work that runs beside a block and ends with it.

A ``TaskGroup`` would wrap whatever the block raises in an exception group; here the block's own
error comes out as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)


@asynccontextmanager
async def running(work: Coroutine[object, object, None], name: str) -> AsyncIterator[None]:
    """Run ``work`` inside the block; it is cancelled, and waited for, when the block ends."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_report)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("background work failed name=%s", task.get_name(), exc_info=error)
