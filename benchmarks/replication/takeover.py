"""Leaders killed under load: how long nothing is acknowledged, as a producer of ours sees it."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.broker.running import ServerFailed
from benchmarks.replication.groups import Ground, Group, elected, running

from rocketpipe import Producer
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.message import Message

TAKEN_OVER: Final = ["takeover, session", "kills", "p50, s", "p99, s", "most, s"]
_TOPIC: Final = "BenchTopic"
_TIMEOUT_S: Final = 60


def taken_over(ground: Ground, session_ms: int, kills: int) -> list[str]:
    """Kill the leader of three replicas again and again.

    Raises:
        ServerFailed: Nobody takes over, or one does not come back.
    """
    name = f"takeover-{session_ms}"
    replicas = elected(ground, name, 3, session_ms=session_ms)
    with running(name, name, replicas, ground) as group:
        gaps = []
        for _ in range(kills):
            gaps.append(asyncio.run(_gap(ground, group)))
            print(f"  {name:<16} {gaps[-1]:.2f} s", flush=True)
            group.leader.start()
            group.find_leader(ground.generator, followers=2)
    figures = *percentiles(gaps), max(gaps)
    return [f"{session_ms / 1000:g} s", str(kills), *(f"{each:.2f}" for each in figures)]


def percentiles(gaps: Sequence[float]) -> tuple[float, float]:
    """What half of them, and what 99 of a hundred, do not exceed."""
    hundredths = statistics.quantiles(gaps, n=100, method="inclusive")
    return hundredths[49], hundredths[98]


async def _gap(ground: Ground, group: Group) -> float:
    """Send one message after the other, kill the leader, and say when the next is acknowledged."""
    async with Producer(ground.name_server) as producer:
        for _ in range(20):
            await producer.send(Message(topic=_TOPIC, body=b"before"))
        group.leader.kill()
        began = time.monotonic()
        while time.monotonic() < began + _TIMEOUT_S:
            try:
                await producer.send(Message(topic=_TOPIC, body=b"behind"))
            except RocketPipeError:
                await asyncio.sleep(0.01)
            else:
                return time.monotonic() - began
    raise ServerFailed(f"nobody has taken over within {_TIMEOUT_S} s")
