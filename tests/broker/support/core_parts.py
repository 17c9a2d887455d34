"""The core of a broker on a real store, that does nothing by itself."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from rocketpipe.broker.assembly import build_core, open_store
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.intake.arrivals import Arrivals
from rocketpipe.clock import Clock
from rocketpipe.model.host import Host
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.testing.clock import ManualClock

ADDRESS = "127.0.0.1:10911"
HOST = Host(bytes((127, 0, 0, 1)), 10911).pack()


@asynccontextmanager
async def built(root: Path, clock: Clock | None = None, **settings: Any) -> AsyncIterator[Core]:
    """Have a core inside the block; it is a replica's if the settings have replicas."""
    given = {"port": 0, "store": StoreConfig.embedded(root), **settings}
    config = BrokerConfig(data=root, **given)
    clock, disk, arrivals = clock or ManualClock(), Disk(), Arrivals()
    replicated = config.replication is not None
    opening = open_store(config, disk, clock, HOST, arrivals, replicated=replicated)
    async with Caller() as caller:
        with closing(opening) as store:
            yield build_core(
                config,
                store,
                address=ADDRESS,
                store_host=HOST,
                clock=clock,
                chance=random.Random(1),
                disk=disk,
                caller=caller,
                arrivals=arrivals,
            )
