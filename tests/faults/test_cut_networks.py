"""A leader whose cable is pulled, in network namespaces: for `make soak`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.cli.cluster.support.running import require_zookeeper, wait_until
from tests.faults.support.elected_processes import Load, check_kept, everything
from tests.faults.support.namespaces import network
from tests.waiting import PATIENCE_S

from rocketpipe import Admin, Producer
from rocketpipe.client.admin.replicas import ReplicaInfo
from rocketpipe.coordination.zookeeper_server import mode_of
from rocketpipe.errors import RocketPipeError

pytestmark = [pytest.mark.scenario, pytest.mark.soak]

CUT_S = 60
REPLICAS = 3
SENDER = "tests.faults.support.local_sender"
ROOT = Path(__file__).parents[2]
OURS = (sys.executable, "-m", "rocketpipe.cli.main")


@contextmanager
def process(command: Sequence[str], log: Path) -> Iterator[None]:
    """Run a program for the length of the block; ``log`` has what it says."""
    with log.open("wb") as file, log.with_suffix(".err").open("wb") as errors:
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield
        finally:
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


async def replicas(admin: Admin, holds: Callable[[list[ReplicaInfo]], object]) -> list[ReplicaInfo]:
    """What NameServers and brokers say of the group, once that holds."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                rows = await admin.replicas.all()
            except RocketPipeError:
                rows = []
            if holds(rows):
                return rows
            await asyncio.sleep(0.2)


def whole(rows: list[ReplicaInfo]) -> bool:
    return len(rows) == REPLICAS and all(row.in_sync for row in rows)


async def test_a_leader_whose_cable_is_pulled_acknowledges_nothing(tmp_path: Path) -> None:
    require_zookeeper()
    with ExitStack() as stack:
        net = stack.enter_context(network(REPLICAS))
        name_server, zookeeper = f"{net.host}:9876", f"{net.host}:2181"
        conf = tmp_path / "all.conf"
        conf.write_text("zookeeperSessionTimeout=1000\n")
        ours = {
            "zookeeper": ["cluster", "zookeeper", "--port", "2181", "--data", f"{tmp_path}/zk"],
            "namesrv": ["namesrv", "--port", "9876"],
        }
        for name, words in ours.items():
            command = [*OURS, *words, "--bind", net.host, "--insecure"]
            stack.enter_context(process(command, tmp_path / f"{name}.log"))
        wait_until(lambda: mode_of(2181, host=net.host))
        for number in range(1, REPLICAS + 1):
            command = [
                *(*net.inside(number), *OURS, "broker", "-n", name_server, "--name", "broker-a"),
                *("--zookeeper", zookeeper, "--bind", net.address(number), "--insecure"),
                *("--profile", "dev", "-c", str(conf), "--data", f"{tmp_path}/broker-{number}"),
            ]
            stack.enter_context(process(command, tmp_path / f"broker-{number}.log"))
        async with Admin(name_server) as admin, Producer(name_server) as producer:
            leader = (await replicas(admin, whole))[0].address
            number = int(leader.partition(":")[0].rpartition(".")[2])
            load = Load(producer)
            async with load.under_way():
                heard = tmp_path / "heard.log"
                sender = [*net.inside(number), sys.executable, "-m", SENDER, leader]
                with process(sender, heard):
                    wait_until(heard.read_text)
                    await load.goes_on()
                    net.cut(number)
                    cut_s = time.monotonic()
                    await asyncio.sleep(CUT_S)
                    await load.goes_on()
                net.heal(number)
                rows = await replicas(admin, whole)
                await load.goes_on()
            found = await everything(rows[0].address)
    before, behind = [], {}
    for line in heard.read_text().splitlines():
        sent_s, number, said = line.split(maxsplit=2)
        if float(sent_s) < cut_s:
            before.append(said)
        else:
            behind[f"local {number}".encode()] = said
    assert "0" in before
    assert "0" not in behind.values()
    assert behind.keys().isdisjoint(found.values())
    check_kept(found, load.acked)
