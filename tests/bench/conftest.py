"""A NameServer and a broker to measure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketpipe.client.admin.admin import Admin
from rocketpipe.testing import Cluster, cluster


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as running:
        yield running


@pytest.fixture
async def admin(servers: Cluster) -> AsyncIterator[Admin]:
    async with Admin(servers.name_server) as admin:
        await admin.topics.create("load", queues=2)
        yield admin
