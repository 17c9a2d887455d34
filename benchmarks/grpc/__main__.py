"""Our gRPC port and Apache's proxy under the same load, in turns: messages a second, CPU a message.

Ours is one process, the broker's own; Apache's are two, a proxy before a broker, and both are
counted. No process is kept on a core, so that Apache's has all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import statistics
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from benchmarks.broker.usage import cpu_ns
from benchmarks.grpc.loads import GROUP, LOADS, TOPIC, Load, fill, run
from tests.compat.clients.grpc_targets import rocketpipe
from tests.compat.support.apache import NEWEST, find_apache

from rocketpipe import Admin
from rocketpipe.model.topic import MessageType

REPORT: Final = Path("out") / "bench-grpc.md"
#: What is in the topic before receives are measured, a second of measuring.
_TO_RECEIVE: Final = 8000


@dataclass(slots=True)
class Served:
    """A port that is measured, and the processes behind it."""

    title: str
    address: str
    pids: list[int]
    rates: dict[str, list[float]] = field(default_factory=dict)
    costs: dict[str, list[float]] = field(default_factory=dict)


async def main() -> int:
    options = _options()
    seconds = 2.0 if options.quick else options.seconds
    rounds = 1 if options.quick else options.rounds
    async with AsyncExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpipe-bench-")))
        for name in ("ours", "apaches"):
            (scratch / name).mkdir()
        served = [await _ours(stack, scratch / "ours")]
        try:
            served.append(await _apaches(stack, scratch / "apaches"))
        except pytest.skip.Exception as reason:
            print(f"bench: Apache's proxy is not measured: {reason}")
        for each in served:
            await fill(each.address, 32)
            for load in LOADS:  # to warm up
                await run(each.address, load, seconds)
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", flush=True)
            for load in LOADS:
                for each in served:
                    await _measure(each, load, seconds)
    text = _markdown(served)
    print(f"\n{text}")
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(text)
    return 0


async def _measure(served: Served, load: Load, seconds: float) -> None:
    if load.kind == "receive":
        await fill(served.address, int(_TO_RECEIVE * seconds))
    before = sum(map(cpu_ns, served.pids))
    outcome = await run(served.address, load, seconds)
    used = sum(map(cpu_ns, served.pids)) - before
    if outcome.messages:
        served.rates.setdefault(load.name, []).append(outcome.messages / outcome.seconds)
        served.costs.setdefault(load.name, []).append(used / 1000 / outcome.messages)


async def _ours(stack: AsyncExitStack, directory: Path) -> Served:
    command = ["serve", "--data", str(directory / "store"), "--grpc", "127.0.0.1:0"]
    command += ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0"]
    at = stack.enter_context(rocketpipe(directory, *command))
    await _prepare(at["namesrv"])
    return Served("RocketPipe", at["grpc"], [int(at["pid"])])


async def _apaches(stack: AsyncExitStack, directory: Path) -> Served:
    usual = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g")
    apache = dataclasses.replace(find_apache(NEWEST, with_proxy=True), flags=usual)
    names = await stack.enter_async_context(apache.name_server(directory))
    broker = await stack.enter_async_context(
        apache.replica(
            directory,
            names,
            mappedFileSizeCommitLog=1 << 30,
            # It may be slow, but shall not refuse.
            waitTimeMillsInSendQueue=10_000,
            osPageCacheBusyTimeOutMills=10_000,
        )
    )
    await _prepare(names)
    proxy = await stack.enter_async_context(apache.proxy(directory, names, enableBatchAck=True))
    title = f"Apache RocketMQ {NEWEST}: proxy and broker"
    return Served(title, proxy.address, [broker.pid, proxy.pid])


async def _prepare(name_server: str) -> None:
    async with Admin(name_server) as admin:
        await admin.topics.create(TOPIC, queues=8, message_type=MessageType.NORMAL)
        await admin.groups.create(GROUP)


def _markdown(served: list[Served]) -> str:
    titles = [each.title for each in served]
    lines = ["| load | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(titles)]
    for load in LOADS:
        cells = []
        for each in served:
            rates, costs = each.rates.get(load.name), each.costs.get(load.name)
            cells.append(
                f"{statistics.median(rates):,.0f}/s, {statistics.median(costs):,.0f} µs"
                if rates and costs
                else "–"
            )
        lines.append(f"| {load.name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grpc", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
