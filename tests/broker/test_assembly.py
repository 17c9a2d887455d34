"""A role's features can be built on a core, taken down without a trace, and built again."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from rocketpipe.broker.assembly import build_core, open_store
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.intake.arrivals import Arrivals
from rocketpipe.broker.roles.duties import FEATURES, background, role
from rocketpipe.model.host import Host
from rocketpipe.protocol.requests.popping import PopMessage
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.protocol.requests.transactions import EndTransaction
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.testing.clock import ManualClock


@asynccontextmanager
async def built(root: Path) -> AsyncIterator[Core]:
    config = BrokerConfig(data=root, port=0, store=StoreConfig.embedded(root))
    clock, disk, arrivals = ManualClock(), Disk(), Arrivals()
    host = Host(bytes((127, 0, 0, 1)), 10911).pack()
    async with Caller() as caller:
        with closing(open_store(config, disk, clock, host, arrivals)) as store:
            yield build_core(
                config,
                store,
                address="127.0.0.1:10911",
                store_host=host,
                clock=clock,
                chance=random.Random(1),
                disk=disk,
                caller=caller,
                arrivals=arrivals,
            )


def traces(core: Core) -> tuple[object, ...]:
    """All that a feature leaves in a core when it is built."""
    pins = {(pin.owner, pin.offset) for pin in core.pins._pins}
    return (
        list(core.arrivals._listeners),
        list(core.settings._watchers),
        set(core.settings._watched),
        pins,
    )


async def test_a_role_is_taken_down_without_a_trace_and_built_again(tmp_path: Path) -> None:
    async with built(tmp_path) as core:
        before = traces(core)
        for _ in range(2):
            with role(core) as serving:
                assert traces(core) != before
                assert len(serving.features) == len(FEATURES)
                for request in (SendMessage, PopMessage, EndTransaction):
                    assert set(request.codes) <= serving.router.codes
                assert "open transactions" in background(core, serving)
            assert traces(core) == before


async def test_no_two_loops_have_one_name(tmp_path: Path) -> None:
    async with built(tmp_path) as core:
        with role(core) as serving:
            of_features = [name for feature in serving.features for name in feature.loops]
            assert len(of_features) == len(set(of_features))
            own = set(background(core, serving)) - set(of_features)
            assert {"retention", "dispatch", "repairs", "queue locks"} <= own
