"""The original verbs about what NameServers keep, against real servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpipe.blocking import Admin
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]


def test_a_value_is_kept_and_let_go_of(servers: Servers, command: Command) -> None:
    where = ("-s", "ROCKETPIPE_STAGE_HOMES", "-k", "nightly-report")
    said = command("mqadmin", "updateKvConfig", *where, "-v", "broker-a")
    assert said == "create or update kv config to namespace success.\n"
    with Admin(servers.name_server) as admin:
        assert admin.name_servers.get("ROCKETPIPE_STAGE_HOMES", "nightly-report") == "broker-a"
        said = command("mqadmin", "deleteKvConfig", *where)
        assert said == "delete kv config from namespace success.\n"
        assert admin.name_servers.get("ROCKETPIPE_STAGE_HOMES", "nightly-report") is None
