"""Ten thousand gRPC clients that are there and say little: what they cost a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
from tests.proxy.support.calling import GrpcClient, message, subscribing
from tests.waiting import PATIENCE_S

from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.testing import Servers, serving

pytestmark = [pytest.mark.scenario, pytest.mark.soak]

CLIENTS = 10_000
CONNECTIONS = 20
#: For one client with its stream and its settings; measured were 10 KiB.
MOST_KIB = 24


def resident_kib(servers: Servers) -> int:
    status = Path(f"/proc/{servers.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


async def test_ten_thousand_idle_telemetry_streams_have_a_stated_memory(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, ["--grpc", "127.0.0.1:0"]) as servers:
        assert servers.grpc is not None
        channels = [
            grpc.aio.insecure_channel(servers.grpc, options=[("grpc.use_local_subchannel_pool", 1)])
            for _ in range(CONNECTIONS)
        ]
        first = GrpcClient(channels[0], {"x-mq-client-id": "first"})
        answer = await first.send(message("not-there"))
        assert answer.status.code == pb.TOPIC_NOT_FOUND
        before_kib = resident_kib(servers)
        streams = []
        for at in range(0, CLIENTS, 100):
            some = [
                GrpcClient(channels[n % CONNECTIONS], {"x-mq-client-id": f"idle-{n}"})
                for n in range(at, at + 100)
            ]
            async with asyncio.timeout(PATIENCE_S):
                opened = await asyncio.gather(
                    *(each.settled(subscribing(f"g{n % 50}", "t")) for n, each in enumerate(some))
                )
            assert all(told.status.code == pb.OK for _, told in opened)
            streams += [stream for stream, _ in opened]
        each_kib = (resident_kib(servers) - before_kib) / CLIENTS
        print(f"{CLIENTS} streams on {CONNECTIONS} connections: {each_kib:.1f} KiB each")  # noqa: T201
        # Who works is served beside them.
        assert (await first.send(message("not-there"))).status.code == pb.TOPIC_NOT_FOUND
        assert each_kib < MOST_KIB
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*(channel.close() for channel in channels))
