"""A broker with a gRPC port, and a client of it, for all tests of a file."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.proxy.support.calling import GrpcClient, World, grpc_world

from rocketpipe.proxy.config import ProxyConfig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    proxy = ProxyConfig(min_polling_ms=1)  # so that who finds nothing hears of it soon
    async with grpc_world(tmp_path_factory.mktemp("grpc"), proxy=proxy) as running:
        yield running


@pytest.fixture
def client(world: World) -> GrpcClient:
    return world.client
