"""A broker to send real requests to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.protocol.request import Request
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing import Cluster, cluster

Ask = Callable[[Request[Any]], Awaitable[Any]]


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as running:
        yield running


@pytest.fixture
async def ask(servers: Cluster) -> AsyncIterator[Ask]:
    """Ask the broker, over a socket."""
    async with Caller() as caller:

        async def call(request: Request[Any]) -> Any:
            return await caller.call(servers.broker, request)

        yield call
