"""A NameServer and a broker, and whoever looks after them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.fleet import Fleet
from rocketpipe.client.session import Session
from rocketpipe.testing import Cluster, cluster


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as running:
        yield running


@pytest.fixture
async def session(servers: Cluster) -> AsyncIterator[Session]:
    async with Session(servers.name_server) as session:
        yield session


@pytest.fixture
def fleet(session: Session) -> Fleet:
    return Fleet(session)


@pytest.fixture
async def admin(session: Session) -> AsyncIterator[Admin]:
    async with Admin(session) as admin:
        yield admin
