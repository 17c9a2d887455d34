"""The load generator against other people's servers, where they can be had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.broker.generator import Generator, Unavailable, compiled
from benchmarks.broker.peers import PEERS
from benchmarks.broker.running import Pinning, running
from benchmarks.broker.scenarios import Kind, Scenario

pytestmark = pytest.mark.compat

KINDS: dict[str, list[Kind]] = {
    "redis": ["send", "stream"],
    "nats": ["send", "stream"],
    "kafka": ["send", "batch", "pull", "stream"],
    "apache": ["send", "batch", "pull", "pop", "popbatch", "delay", "timer", "stream"],
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_load_gives_a_figure(name: str, tmp_path: Path) -> None:
    try:
        generator, peer = Generator(compiled()), PEERS[name]()
    except Unavailable as reason:
        pytest.skip(str(reason))
    whole = Scenario(kind="send", connections=8, window=1, body_bytes=100, groups=2, rate=200.0)
    loads = [replace(whole, kind=kind) for kind in KINDS[name]]
    with running(peer, tmp_path, generator, Pinning(), sync=False) as server:
        server.fill(loads, generator)
        for load in loads:
            assert server.measure(load, generator, 2.0, 0.0).messages_s > 0, load.kind
        server.kill()
