from __future__ import annotations

import argparse
import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.cli.serving import grpc_option
from rocketpipe.cli.serving.grpc_option import GrpcOption
from rocketpipe.errors import ConfigError, PortUnavailable
from rocketpipe.store.config import StoreConfig


def options(*told: str, **said: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    grpc_option.add_flag(parser, "nowhere")
    return argparse.Namespace(**vars(parser.parse_args(told)), **said)


def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig(data=tmp_path, port=0, store=StoreConfig.embedded(tmp_path))


def test_serve_has_the_port_where_no_address_was_given() -> None:
    usual = grpc_option.wanted(options(namesrv=None, broker=None))
    assert usual is not None
    assert (usual.host, usual.port, usual.asked) == ("127.0.0.1", 8081, False)
    assert grpc_option.wanted(options(namesrv=("127.0.0.1", 0), broker=None)) is None
    assert grpc_option.wanted(options()) is None  # of `broker`
    asked = grpc_option.wanted(options("--grpc", "0.0.0.0:9"))
    assert asked is not None
    assert (asked.host, asked.port, asked.asked) == ("0.0.0.0", 9, True)


def test_strangers_are_not_let_in_by_chance() -> None:
    outside = options("--grpc", "0.0.0.0:9", insecure=False)
    with pytest.raises(ConfigError):
        grpc_option.refuse_strangers(outside, guarded=False)
    grpc_option.refuse_strangers(outside, guarded=True)
    grpc_option.refuse_strangers(options("--grpc", "127.0.0.1:9", insecure=False), guarded=False)


def test_what_is_missing_is_said_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "5.29.3")
    with pytest.raises(ConfigError, match=r"protobuf 5\.29\.3 is too old"):
        GrpcOption("127.0.0.1", 0, asked=True).beside(config(tmp_path))

    def no_version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", no_version)
    with pytest.raises(ConfigError, match="pip install 'protobuf"):
        GrpcOption("127.0.0.1", 0, asked=True).beside(config(tmp_path))
    usual = GrpcOption("127.0.0.1", 0, asked=False)
    usual.beside(config(tmp_path))
    (fact,) = usual.facts()
    assert "not served" in fact.text
    assert usual.ready() == {}


@pytest.mark.scenario
async def test_a_port_that_is_taken_is_done_without_unless_asked_for(tmp_path: Path) -> None:
    first = GrpcOption("127.0.0.1", 0, asked=True)
    one, two, three = (config(tmp_path / name) for name in "abc")
    async with broker(one, beside=first.beside(one)):
        assert first.address is not None
        assert first.ready() == {"grpc": first.address}
        port = int(first.address.rpartition(":")[2])
        usual = GrpcOption("127.0.0.1", port, asked=False)
        async with broker(two, beside=usual.beside(two)):
            (fact,) = usual.facts()
            assert "port is taken" in fact.text
        asked = GrpcOption("127.0.0.1", port, asked=True)
        with pytest.raises(PortUnavailable):
            async with broker(three, beside=asked.beside(three)):
                raise AssertionError
