"""RocketMQ's official Python client against ours, and what a kill leaves to gRPC clients."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.proxy.support.calling import GrpcClient, message
from tests.waiting import PATIENCE_S, until

from rocketpipe import Admin, Message, Producer, PushConsumer
from rocketpipe.model.topic import MessageType
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.testing import Servers, serving

pytestmark = pytest.mark.scenario

PROGRAM = Path(__file__).parents[1] / "proxy" / "support" / "official_client.py"
TOPICS = {
    "simple": MessageType.NORMAL,
    "sql": MessageType.NORMAL,
    "push": MessageType.NORMAL,
    "fifo": MessageType.FIFO,
    "delayed": MessageType.DELAY,
    "transaction": MessageType.TRANSACTION,
    "house%namespaced": MessageType.NORMAL,
    "mixed": MessageType.NORMAL,
}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    told = tmp_path / "broker.conf"
    told.write_text("transactionTimeOut=500\ntransactionCheckInterval=500\n")
    with serving(tmp_path, ["--grpc", "127.0.0.1:0", "-c", str(told)]) as running:
        yield running


async def official(endpoints: str, home: Path, *scenarios: str, **more: str) -> dict[str, Any]:
    """Run the client as a program of its own: it has threads, and a log in its home."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAM), endpoints, *scenarios),
        stdout=subprocess.PIPE,
        env={**os.environ, "HOME": str(home), **more},
    )
    told, _ = await asyncio.wait_for(child.communicate(), 2 * PATIENCE_S)
    found: dict[str, Any] = {}
    for line in told.decode().splitlines():
        found.update(json.loads(line))
    return found


async def test_the_official_python_client_does_all_that_it_can(
    servers: Servers, tmp_path: Path
) -> None:
    assert servers.grpc is not None
    async with Admin(servers.name_server) as admin:
        for topic, kind in TOPICS.items():
            await admin.topics.create(topic, queues=1, message_type=kind)
        await admin.groups.create("fifo-g", ordered=True)
    taken: list[Message] = []
    consumer = PushConsumer(servers.name_server, group="remoting-g")

    @consumer.on("mixed", tags="t")
    async def note(one: Any) -> None:
        taken.append(one)

    async with Producer(servers.name_server) as producer, consumer:
        for n in range(3):
            await producer.send(Message("mixed", b"from remoting %d" % n))
        wanted = tuple(official_client_scenarios())
        found = await official(servers.grpc, tmp_path, *wanted)
        await until(lambda: taken)
    assert set(found) == set(wanted)
    sent = found["simple"].pop("sent")
    assert found["simple"]["received"] == [
        [f"m{n}", "a", [f"k{n}"], str(n), sent[n]] for n in (0, 2, 4)
    ]
    assert found["sql"] == {"received": ["m4", "m5"]}
    assert found["push"]["done"] == [f"m{n}" for n in range(8)]
    assert found["push"]["failed"] == [["m3", 1], ["m3", 2]]
    assert found["fifo"] == {group: [f"{group}{n}" for n in range(5)] for group in "xyz"}
    assert found["delayed"] == {"body": "later", "in_time": True, "recalled": True}
    assert found["transaction"] == {"received": ["commit", "forgotten"], "asked": ["forgotten"]}
    assert found["namespaced"] == {"body": "inside", "topic": "namespaced"}
    assert found["mixed"] == {"received": [f"from remoting {n}" for n in range(3)]}
    (other,) = taken
    assert (other.body, other.tags, other.keys) == (b"from grpc", "t", ("k",))
    assert other.properties["p"] == "v"


async def test_it_does_so_behind_tls_too_and_checks_the_certificate_that_was_made(
    servers: Servers, tmp_path: Path
) -> None:
    assert servers.grpc is not None
    wanted = ("simple", "push", "transaction")
    async with Admin(servers.name_server) as admin:
        for topic in wanted:
            await admin.topics.create(topic, queues=1, message_type=TOPICS[topic])
    trusted = {
        "OFFICIAL_CLIENT_TLS": "1",
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(tmp_path / "store" / "grpc-tls" / "ca.pem"),
    }
    found = await official(servers.grpc, tmp_path, *wanted, **trusted)
    assert [each[0] for each in found["simple"]["received"]] == ["m0", "m2", "m4"]
    assert found["push"]["done"] == [f"m{n}" for n in range(8)]
    assert found["transaction"] == {"received": ["commit", "forgotten"], "asked": ["forgotten"]}


def official_client_scenarios() -> list[str]:
    """What the program can do, read from it: to import it would start the client's log here."""
    text = PROGRAM.read_text()
    listed = text.partition("for scenario in (")[2].partition(")")[0]
    return [name.strip() for name in listed.split(",") if name.strip()]


async def test_a_kill_in_the_middle_of_a_receive_loses_nothing(tmp_path: Path) -> None:
    topic, group, told = "killed", "killed-g", ["--grpc", "127.0.0.1:0"]
    with serving(tmp_path, told) as first:
        async with Admin(first.name_server) as admin:
            await admin.topics.create(topic, queues=2)
            await admin.topics.create("quiet")
        async with client_of(first) as client:
            sent = {b"%d" % n for n in range(20)}
            for body in sorted(sent):
                assert (await client.send(message(topic, body))).status.code == pb.OK
            held = await client.messages(topic, group, batch=8, invisible_ms=10_000)
            done = held[:4]
            assert (await client.ack(topic, group, *done)).status.code == pb.OK
            waiting = asyncio.create_task(client.messages("quiet", group, polling_ms=20_000))
            await client.messages(topic, group, batch=2, invisible_ms=10_000)
            os.killpg(first.process.pid, signal.SIGKILL)
            first.process.wait()
            with pytest.raises(grpc.aio.AioRpcError):
                await waiting
    with serving(tmp_path, told) as second:
        async with client_of(second) as client:
            seen: set[bytes] = set()
            left = sent - {each.body for each in done}
            async with asyncio.timeout(PATIENCE_S):
                while not seen >= left:
                    found = await client.messages(topic, group, polling_ms=20_000)
                    if found:
                        await client.ack(topic, group, *found)
                    seen |= {each.body for each in found}
    assert seen <= sent


@asynccontextmanager
async def client_of(servers: Servers) -> AsyncIterator[GrpcClient]:
    """A bare client of servers."""
    assert servers.grpc is not None
    async with grpc.aio.insecure_channel(servers.grpc) as channel:
        yield GrpcClient(channel, {"x-mq-client-id": "bare"})
