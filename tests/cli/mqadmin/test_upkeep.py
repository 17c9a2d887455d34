"""Clearing away by the original verbs, against real servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario


@pytest.mark.parametrize("verb", ["cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"])
def test_brokers_clear_away_what_they_are_told_to(
    servers: Servers, command: Callable[..., str], verb: str
) -> None:
    assert command("mqadmin", verb) == "success\n"
    assert command("mqadmin", verb, "-b", servers.broker) == "success\n"
    assert "no broker at 'nobody'" in command("mqadmin", verb, "-b", "nobody", code=2)
