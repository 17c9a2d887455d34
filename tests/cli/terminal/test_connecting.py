"""Tests of which NameServers a command asks."""

from __future__ import annotations

import argparse
import os

import pytest

from rocketpipe.cli.terminal.connecting import DEFAULT, add_flags, name_servers
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.tls_settings import TlsSettings


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


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], None),
        (["--tls"], TlsSettings()),
        (["--ca-file", "ca.pem"], TlsSettings(ca_file="ca.pem")),
    ],
)
def test_flags_for_tls_speak_to_whatever_is_opened(
    monkeypatch: pytest.MonkeyPatch, given: list[str], meant: TlsSettings | None
) -> None:
    monkeypatch.setattr(os, "environ", {})
    parser = argparse.ArgumentParser()
    add_flags(parser)
    parser.parse_args(given)
    assert TlsSettings.of(None, os.environ) == meant
