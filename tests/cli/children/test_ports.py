"""Ports for child processes."""

from __future__ import annotations

import socket

import pytest

from rocketpipe.cli.children import ports
from rocketpipe.cli.children.ports import LastingPorts
from rocketpipe.errors import ConfigError

HOST = "127.0.0.1"


def test_none_is_given_twice_and_each_is_below_those_that_systems_hand_out() -> None:
    found = LastingPorts(HOST)

    given = [next(found) for _ in range(20)]

    assert len(set(given)) == 20
    assert all(11_000 <= port < 32_000 for port in given)


def test_what_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    first = next(LastingPorts(HOST))
    monkeypatch.setattr(ports, "_FIRST_PORT", first)
    monkeypatch.setattr(ports, "_END_PORT", first + 1)

    assert next(LastingPorts(HOST)) == first
    with pytest.raises(ConfigError, match="is free"):
        next(LastingPorts(HOST, [first]))
    with socket.create_server((HOST, first)), pytest.raises(ConfigError, match="is free"):
        next(LastingPorts(HOST))
