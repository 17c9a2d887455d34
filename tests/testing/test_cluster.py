"""Servers for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe import Producer
from rocketpipe.errors import ConnectionLost
from rocketpipe.testing import cluster


async def test_it_serves_inside_the_block_and_only_there(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        await producer.send("orders", b"one")
    async with Producer(servers.name_server) as producer:
        with pytest.raises(ConnectionLost, match=servers.name_server):
            await producer.send("orders", b"two")
