"""RocketMQ's sample files for masters with slaves, each given to a broker as it is.

Four of them are meant for four machines. On one, each gets a port of its own beside the file; the
port for slaves is the next one by default.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.ports import lasting_ports
from tests.waiting import PATIENCE_S

from rocketpipe import Producer, PullConsumer
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.replicas import ReplicaInfo
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server

pytestmark = pytest.mark.scenario

#: The settings of the files in conf/2m-2s-async and conf/2m-2s-sync of 5.5.0's distribution.
SAMPLE = """
brokerClusterName=DefaultCluster
brokerName={name}
brokerId={number}
deleteWhen=04
fileReservedTime=48
brokerRole={role}
flushDiskType=ASYNC_FLUSH
"""
#: Name, id and role: one half of each folder.
FILES = {
    "2m-2s-async/broker-a": ("broker-a", 0, "ASYNC_MASTER"),
    "2m-2s-async/broker-a-s": ("broker-a", 1, "SLAVE"),
    "2m-2s-sync/broker-b": ("broker-b", 0, "SYNC_MASTER"),
    "2m-2s-sync/broker-b-s": ("broker-b", 1, "SLAVE"),
}


def ports_with_neighbours(count: int) -> list[int]:
    """So many ports, each free with those that a broker takes beside it: for slaves, and VIPs."""
    free = set(lasting_ports(400))
    found: list[int] = []
    for port in sorted(free):
        if {port - 2, port, port + 1} <= free:
            found.append(port)
            free -= {port - 2, port, port + 1}
    return found[:count]


async def await_ready(child: Process) -> None:
    assert child.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        while line := await child.stdout.readline():
            if line.startswith(b"ready "):
                return
    raise AssertionError("it did not start")


@asynccontextmanager
async def started(scratch: Path, name_servers: str) -> AsyncIterator[None]:
    """Run a broker for each file inside the block."""
    children: list[Process] = []
    try:
        ports = ports_with_neighbours(len(FILES))
        for (file, (name, number, role)), port in zip(FILES.items(), ports, strict=True):
            path = scratch / f"{file}.properties"
            path.parent.mkdir(exist_ok=True)
            path.write_text(SAMPLE.format(name=name, number=number, role=role))
            command = [sys.executable, "-m", "rocketpipe.cli.main", "broker", "-c", str(path)]
            command += ["-n", name_servers, "--port", str(port), "--data", str(scratch / file)]
            children.append(
                await asyncio.create_subprocess_exec(
                    *command, "--small-files", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
            )
        for child in children:
            await await_ready(child)
        yield
    finally:
        for child in children:
            child.kill()
            await child.wait()


async def until_followed(admin: Admin) -> list[ReplicaInfo]:
    """Wait until both slaves have all of their masters."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await admin.replicas.all()
            if len(found) == 4 and all(
                each.lag == 0 and each.role is not None for each in found if each.id
            ):
                return found
            await asyncio.sleep(0.05)


async def test_masters_and_slaves_of_the_samples_find_each_other(tmp_path: Path) -> None:
    async with name_server(NamesrvConfig(port=0)) as address, started(tmp_path, address):
        async with Admin(address) as admin, Producer(address) as producer:
            await until_followed(admin)
            await admin.topics.create("orders", queues=2)
            await admin.groups.create("readers")
            sent = [await producer.send("orders", b"%d" % each) for each in range(40)]
            assert {each.queue.broker_name for each in sent} == {"broker-a", "broker-b"}
            assert all(each.durable for each in sent)
            found = await until_followed(admin)
        assert {(each.broker, each.id, each.role) for each in found} == {
            (name, number, "follower" if number else "leader") for name, number, _ in FILES.values()
        }
        assert all(each.follows for each in found if each.id)
        async with PullConsumer(address, group="readers") as consumer:
            await consumer.subscribe("orders")
            got: set[bytes] = set()
            async with asyncio.timeout(PATIENCE_S):
                while len(got) < 40:
                    got.update(each.body for each in await consumer.poll(1000))
