"""Tests of which NameServers a command asks."""

from __future__ import annotations

import pytest

from rocketpipe.cli.terminal.connecting import DEFAULT, name_servers
from rocketpipe.errors import ConfigError


def test_a_flag_is_stronger_than_our_variable_and_that_than_rocketmqs() -> None:
    ours, theirs = {"ROCKETPIPE_NAMESRV": "b:2"}, {"NAMESRV_ADDR": "c:3"}
    assert name_servers("a:1", {**ours, **theirs}) == "a:1"
    assert name_servers(None, {**ours, **theirs}) == "b:2"
    assert name_servers(None, theirs) == "c:3"
    assert name_servers(None, {}) == DEFAULT


def test_a_wrong_one_is_named_by_where_it_was_said() -> None:
    with pytest.raises(ConfigError, match="NAMESRV_ADDR") as refused:
        name_servers(None, {"NAMESRV_ADDR": "no port"})
    assert DEFAULT in str(refused.value)
