"""A replica in a process of its own that does nothing but keep its role, and says what it does.

    python holder.py HOSTS CLUSTER ID SESSION_MS

Each line it prints is ``<what> <epoch> <seconds of the monotonic clock>``.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from rocketpipe.broker.replication.role import RoleKeeper
from rocketpipe.clock import SystemClock
from rocketpipe.coordination.coordinator import Leader, Leadership, Member
from rocketpipe.coordination.zookeeper import ZkCoordinator

PATIENCE_S = 60


class Saying:
    """Duties that are lines on standard output."""

    def __init__(self, id_: int) -> None:
        self.id = id_
        self.epoch = 0
        self.keeper: RoleKeeper | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def say(self, what: str) -> None:
        print(what, self.epoch, time.monotonic(), flush=True)  # noqa: T201

    def member(self) -> Member:
        return Member(
            id=self.id,
            address=f"replica-{self.id}",
            ha_address=f"replica-{self.id}-ha",
            last_epoch=self.epoch,
        )

    async def follow(self, leader: Leader | None) -> None:
        self.epoch = leader.epoch if leader is not None else self.epoch
        self.say(f"follows-{leader.id if leader else None}")

    def stop_following(self) -> None:
        self.say("closed")

    async def lead(self, lead: Leadership) -> None:
        self.epoch = lead.leader.epoch
        self.say("leads")
        self._tasks.append(asyncio.create_task(self._grow(lead)))

    async def _grow(self, lead: Leadership) -> None:
        """Whoever is there is in sync: there is no log to be behind with."""
        assert self.keeper is not None
        while self.keeper.leader == lead.leader:
            present = frozenset(self.keeper.state.members)
            if self.keeper.role == "leading" and present - self.keeper.state.in_sync:
                await self.keeper.change_in_sync(present)
                self.say(f"set-{'-'.join(map(str, sorted(present)))}")
            await asyncio.sleep(0.02)

    def step_down(self, reason: str) -> None:
        self.say("stepped-down")


async def hold(hosts: str, cluster: str, id_: int, session_ms: int) -> None:
    clock = SystemClock()
    coordinator = ZkCoordinator(
        hosts.split(","), cluster, "group", session_ms=session_ms, clock=clock
    )
    await coordinator.start()
    duties = Saying(id_)
    keeper = duties.keeper = RoleKeeper(coordinator, duties, clock, Random(id_), me=id_)
    await keeper.run()


class Holder:
    """Such a process, from outside."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._said = b""

    @property
    def lines(self) -> list[str]:
        """What it has said so far, whole lines only."""
        return self._said.decode().rpartition("\n")[0].splitlines()

    def wait_for(self, what: str) -> tuple[int, float]:
        """The epoch and the time of the first such line."""
        until = time.monotonic() + PATIENCE_S
        while True:
            for line in self.lines:
                word, epoch, seconds = line.split()
                if word == what:
                    return int(epoch), float(seconds)
            assert self.listen(until - time.monotonic()), f"{what} was not said: {self.lines}"

    def listen(self, most_s: float) -> bool:
        """Take in what it says next; False if it ended, or says nothing for so long."""
        assert self.process.stdout is not None
        said, _, _ = select.select([self.process.stdout], [], [], max(0.0, most_s))
        data = os.read(self.process.stdout.fileno(), 65_536) if said else b""
        self._said += data
        return bool(data)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> float:
        """When it was killed."""
        at = time.monotonic()
        self.process.kill()
        self.process.wait()
        return at


@contextmanager
def holder(hosts: Sequence[str], cluster: str, id_: int, session_ms: int) -> Iterator[Holder]:
    command = [sys.executable, str(Path(__file__)), ",".join(hosts), cluster, str(id_)]
    with subprocess.Popen([*command, str(session_ms)], stdout=subprocess.PIPE) as process:
        try:
            yield Holder(process)
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
