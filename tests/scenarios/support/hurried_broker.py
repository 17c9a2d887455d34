"""A broker on a hurried clock in a process of its own, which a test may kill and start again.

    python -m tests.scenarios.support.hurried_broker 127.0.0.1:9876 10911 /var/lib/broker

It prints a line when it is ready, and stops in good order when its input ends.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.guarded import join
from tests.ports import lasting_ports
from tests.scenarios.support.hurried_clock import HurriedClock
from tests.scenarios.support.scenario_clients import PATIENCE_S, ROOT

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.store.config import StoreConfig


class HurriedBroker:
    """Starts one, always at the same port and with the same data."""

    def __init__(self, name_servers: str, data: Path) -> None:
        self._arguments = (name_servers, str(lasting_ports(1)[0]), str(data))
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it serves."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.scenarios.support.hurried_broker", *self._arguments),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            assert await self._process.stdout.readline() == b"ready\n"

    async def kill(self) -> None:
        """kill -9, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.communicate()

    async def stop(self) -> None:
        """Stop it in good order."""
        process, self._process = self._process, None
        assert process is not None
        async with asyncio.timeout(PATIENCE_S):
            await process.communicate(b"")
        assert process.returncode == 0


async def serve(name_servers: str, port: int, data: Path) -> None:
    config = BrokerConfig(
        data=data,
        name_servers=(name_servers,),
        port=port,
        register_every_ms=10_000,
        transaction_check_every_ms=10_000,
        store=StoreConfig.embedded(data),
    )
    async with broker(config, clock=HurriedClock()):
        print("ready", flush=True)  # noqa: T201 - the test waits for it
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    join()
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
