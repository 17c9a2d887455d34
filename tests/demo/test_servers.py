"""Servers that are killed, and come back where they were with what they had."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

import pytest
from demo.servers import PORTS, Servers, free_addresses

from rocketpipe import Admin, Producer
from rocketpipe.testing import ServersFailed


def test_addresses_are_free_and_below_those_of_outgoing_connections() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = free_addresses(2, random.Random(1))
        again = free_addresses(2, random.Random(1))
    assert len(set(found)) == 2
    assert found == again
    ports = [int(address.rpartition(":")[2]) for address in found]
    assert all(PORTS[0] <= port < PORTS[1] for port in ports)


@pytest.mark.scenario
async def test_what_was_acknowledged_outlives_a_kill_at_the_same_addresses(tmp_path: Path) -> None:
    servers = Servers(tmp_path)
    try:
        await servers.start()
        before = (servers.pid, servers.name_server, servers.broker)
        async with Producer(servers.name_server) as producer:
            for _ in range(20):
                await producer.send("orders", b"one", timeout_ms=30_000)
        await servers.kill()
        await servers.start()
        assert servers.pid != before[0]
        assert (servers.name_server, servers.broker) == before[1:]
        async with Admin(servers.name_server) as admin:
            ends = await admin.offsets.ends("orders")
            assert sum(each.end for each in ends.values()) == 20
    finally:
        servers.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(servers.pid, 0)


@pytest.mark.scenario
async def test_servers_that_do_not_start_are_told_with_their_log(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where a directory is to be")
    with pytest.raises(ServersFailed, match=r"see .*servers\.log"):
        await Servers(tmp_path).start()
    assert "is no directory" in (tmp_path / "servers.log").read_text()
