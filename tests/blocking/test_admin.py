"""Blocking administration: every noun lives as long as the client it belongs to."""

from __future__ import annotations

import pytest

from rocketpipe.blocking import Admin
from rocketpipe.errors import ConnectionLost, InvalidName, SessionClosed

NOWHERE = "127.0.0.1:1"


def test_nouns_are_open_while_the_client_is() -> None:
    admin = Admin(NOWHERE)
    with pytest.raises(SessionClosed, match=r"the admin client is not open: .*'with'"):
        admin.topics.names()
    with admin:
        for ask in (admin.topics.names, admin.brokers.all, admin.groups.names):
            with pytest.raises(ConnectionLost):
                ask()
        with pytest.raises(InvalidName):
            admin.topics.create("a b")
    with pytest.raises(SessionClosed):
        admin.offsets.ends("orders")
