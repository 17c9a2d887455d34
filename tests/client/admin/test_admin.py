"""One face for all that operators do."""

from __future__ import annotations

import pytest

from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.session import Session
from rocketpipe.errors import ConnectionLost
from rocketpipe.testing import Cluster


async def test_it_stands_alone_or_shares_a_session(servers: Cluster, session: Session) -> None:
    async with Admin(servers.name_server) as alone:
        assert await alone.topics.names() == []
    async with Admin(session) as sharing:
        assert await sharing.topics.names() == []
    assert session.is_open


async def test_after_its_block_it_asks_nobody(servers: Cluster) -> None:
    async with Admin(servers.name_server) as admin:
        pass
    with pytest.raises(ConnectionLost, match="closed already"):
        await admin.topics.names()


def test_what_is_no_list_of_name_servers_is_refused() -> None:
    with pytest.raises(ValueError, match="not host:port"):
        Admin("nowhere")
