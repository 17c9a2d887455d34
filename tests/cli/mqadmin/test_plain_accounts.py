"""The original verbs about accounts of 4.9, against real servers that ask who comes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.cli.access.support.guarded import as_root

from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]


@pytest.fixture
def servers(guarded_servers: Servers) -> Servers:
    return guarded_servers


def test_an_account_from_its_creation_to_its_end(
    servers: Servers, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_root(monkeypatch)
    at = ("-b", servers.broker)
    account = ("mqadmin", "updateAclConfig", *at, "-a", "plain-one", "-s", "12345678")
    assert f"to {servers.broker} success" in command(
        *account, "-t", "tA=PUB|SUB,tB=DENY", "-g", "gA=SUB", "-i", "DENY", "-m", "false"
    )
    listed = command("mqadmin", "listAcl", *at, "-s", "plain-one", "--output", "json")
    assert len(json.loads(listed)) == 4
    assert "'pub' is no permission" in command(*account, "-t", "tA=pub", code=1)
    (row,) = json.loads(
        command("mqadmin", "clusterAclConfigVersion", "-c", "DefaultCluster", "--output", "json")
    )
    assert (row["broker"], row["address"]) == ("broker-a", servers.broker)
    white = ("mqadmin", "updateGlobalWhiteAddr", *at, "-g", "10.*")
    assert "nobody is let in by an address alone" in command(*white, code=1)
    assert "success" in command("mqadmin", "deleteAclConfig", *at, "-a", "plain-one")
    assert "is not found" in command("mqadmin", "deleteAclConfig", *at, "-a", "plain-one", code=1)
