"""What workers need at every broker, made at those that answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from rocketpipe import Admin, RocketPipeError
from rocketpipe.integrations.held import is_passing

log = logging.getLogger(__name__)


async def create_everywhere(
    admin: Admin, what: str, create: Callable[..., Awaitable[None]]
) -> None:
    """Create something at each broker; one that is away goes without, if another has it.

    A broker that is away for good is known to NameServers for two minutes. ``create`` is given
    the broker's name as ``broker``, or nothing where there is only one.

    Raises:
        RocketPipeError: If no broker has it, or one refuses.
    """
    clusters = (await admin.brokers.clusters()).values()
    brokers = sorted({broker for brokers in clusters for broker in brokers})
    if len(brokers) < 2:
        await create()
        return
    done = await asyncio.gather(
        *(create(broker=broker) for broker in brokers), return_exceptions=True
    )
    failed = {name: error for name, error in zip(brokers, done, strict=True) if error is not None}
    for name, error in failed.items():
        is_away = isinstance(error, RocketPipeError) and is_passing(error)
        if len(failed) == len(brokers) or not is_away:
            raise error
        log.warning("broker %s goes without %s: %s", name, what, error)
