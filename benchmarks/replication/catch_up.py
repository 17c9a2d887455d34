"""A follower from nothing: how fast a long log becomes its own, and shows there."""

from __future__ import annotations

import time
from typing import Final

from benchmarks.broker.running import ServerFailed
from benchmarks.broker.usage import cpu_ns
from benchmarks.replication.groups import Ground, master_and_slave

CAUGHT_UP: Final = [
    "catching up, bodies of",
    "MB",
    "MB/s",
    "leader, CPU s/GB",
    "follower, CPU s/GB",
]
#: What settings hold a follower back to is not what is measured.
_UNBOUNDED: Final = {"maxHaTransferByteInSecond": 1 << 30}
_TIMEOUT_S: Final = 300
#: To be asked costs the master something too.
_ASK_EVERY_S: Final = 0.05


def catch_up(ground: Ground, body_bytes: int, megabytes: int) -> list[str]:
    """Fill a master's log, give it a slave, and measure until that has everything.

    Raises:
        ServerFailed: It takes too long.
    """
    name = f"catch-up-{body_bytes}"
    master, slave = master_and_slave(ground, name, "async-master", _UNBOUNDED)
    try:
        master.start()
        _until_answers(master.port, ground)
        per_message = body_bytes + 250
        ground.generator.send(
            master.port,
            "batch",
            (megabytes << 20) // per_message,
            body_bytes=body_bytes,
            connections=4,
        )
        status = master.status()
        assert status is not None
        end = status.log_end
        slave.start()
        began, first, before = 0.0, 0, (0, 0)
        until = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < until:
            status = master.status()
            reported = [each.acknowledged for each in status.followers] if status else []
            now = time.monotonic()
            if reported and reported[0] > 0 and not began:
                began, first, before = now, reported[0], (cpu_ns(master.pid), cpu_ns(slave.pid))
            if reported and reported[0] >= end:
                break
            time.sleep(_ASK_EVERY_S)
        else:
            raise ServerFailed(f"the follower had not caught up after {_TIMEOUT_S} s")
        size = (end - first) / 1e6
        used = cpu_ns(master.pid) - before[0], cpu_ns(slave.pid) - before[1]
        row = [f"{body_bytes} B", f"{size:.0f}", f"{size / (now - began):.0f}"]
        row += [f"{each / 1e6 / size:.2f}" for each in used]
        print(f"  {name:<16} {' '.join(row)}", flush=True)
        return row
    finally:
        slave.stop()
        master.stop()


def _until_answers(port: int, ground: Ground) -> None:
    from benchmarks.broker.generator import RunFailed

    until = time.monotonic() + 90
    while True:
        try:
            ground.generator.send(port, "send", 1)
        except RunFailed as error:
            if time.monotonic() > until:
                raise ServerFailed(f"the master did not start: {error}") from error
            time.sleep(0.05)
        else:
            return
