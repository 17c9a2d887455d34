"""Servers in which something has happened, for all tests of a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.console.support.asking import Asker, asking
from tests.console.support.shop import Shop, filled

from rocketpipe.testing.servers import serving


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with serving(tmp_path_factory.mktemp("shop")) as servers:
        yield asyncio.run(filled(servers, orders=20))


@pytest.fixture
async def asker(shop: Shop) -> AsyncIterator[Asker]:
    async with asking(shop.name_server) as found:
        yield found
