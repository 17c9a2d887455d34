"""``rocketpipe proxy`` before a cluster: killed in the middle, and among thousands in silence."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from tests.compat.clients.grpc_targets import rocketpipe
from tests.proxy.support.calling import GrpcClient, message
from tests.waiting import PATIENCE_S

from rocketpipe import Admin
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.testing import cluster

pytestmark = pytest.mark.scenario

SILENT = 2000


@asynccontextmanager
async def client_of(address: str) -> AsyncIterator[GrpcClient]:
    async with grpc.aio.insecure_channel(address) as channel:
        yield GrpcClient(channel, {"x-mq-client-id": "tester"})


async def test_a_killed_proxy_loses_nothing_and_another_goes_on(tmp_path: Path) -> None:
    topic, group = "killed", "killed-g"
    async with cluster(tmp_path / "data") as servers, Admin(servers.name_server) as admin:
        await admin.topics.create(topic, queues=2)
        await admin.topics.create("quiet")
        told = ["proxy", "-n", servers.name_server, "--data", str(tmp_path)]
        told += ["--grpc", "127.0.0.1:0"]
        loop = asyncio.get_running_loop()
        first = rocketpipe(tmp_path, *told)
        at = await loop.run_in_executor(None, first.__enter__)
        sent = {b"%d" % number for number in range(12)}
        async with client_of(at["grpc"]) as client:
            for body in sorted(sent):
                assert (await client.send(message(topic, body))).status.code == pb.OK
            held = await client.messages(topic, group, batch=6, invisible_ms=10_000)
            done = held[:3]
            assert (await client.ack(topic, group, *done)).status.code == pb.OK
            waiting = asyncio.create_task(client.messages("quiet", group, polling_ms=20_000))
            await client.messages(topic, group, batch=2, invisible_ms=10_000)
            os.kill(int(at["pid"]), signal.SIGKILL)
            with pytest.raises(grpc.aio.AioRpcError):
                await waiting
        await loop.run_in_executor(None, first.__exit__, None, None, None)
        second = rocketpipe(tmp_path, *told)
        at = await loop.run_in_executor(None, second.__enter__)
        try:
            async with client_of(at["grpc"]) as client:
                seen: set[bytes] = set()
                left = sent - {each.body for each in done}
                async with asyncio.timeout(PATIENCE_S):
                    while not seen >= left:
                        found = await client.messages(topic, group, polling_ms=20_000)
                        if found:
                            await client.ack(topic, group, *found)
                        seen |= {each.body for each in found}
                assert seen <= sent
        finally:
            await loop.run_in_executor(None, second.__exit__, None, None, None)


async def test_thousands_who_say_nothing_keep_nobody_from_being_served(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4 * SILENT:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4 * SILENT), hard))
    loop = asyncio.get_running_loop()
    async with cluster(tmp_path / "data") as servers, Admin(servers.name_server) as admin:
        await admin.topics.create("t")
        told = ["proxy", "-n", servers.name_server, "--data", str(tmp_path)]
        running = rocketpipe(tmp_path, *told, "--grpc", "127.0.0.1:0")
        at = await loop.run_in_executor(None, running.__enter__)
        try:
            host, _, port = at["grpc"].rpartition(":")
            silent = [await asyncio.open_connection(host, int(port)) for _ in range(SILENT)]
            async with client_of(at["grpc"]) as client:
                for _ in range(20):
                    assert (await client.send(message("t"))).status.code == pb.OK
            for reader, writer in silent:  # each is sent away in time
                assert await reader.read() == b""
                writer.close()
        finally:
            await loop.run_in_executor(None, running.__exit__, None, None, None)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
