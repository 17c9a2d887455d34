"""Records of the timer topic, as a wheel is shown them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.timers.entry import out_ms
from rocketpipe.store.timers.wheel import TimerWheel
from rocketpipe.testing.simulation.disk import SimDisk

ROOT: Final = Path("/store")
NOW_MS: Final = 1_700_000_000_000
EVER: Final = 1 << 60
DAY_MS: Final = 86_400_000


def new_disk(seed: int = 0) -> SimDisk:
    disk = SimDisk(seed=seed)
    disk.make_directory(ROOT)
    return disk


def new_wheel(disk: SimDisk) -> TimerWheel:
    return TimerWheel(disk, OpenFiles(disk, 8), ROOT / "timer")


def properties(deliver_ms: int, key: str = "u1", topic: str = "orders", **more: str | int) -> bytes:
    named = {
        "TIMER_DELIVER_MS": deliver_ms,
        "UNIQ_KEY": key,
        "TIMER_OUT_MS": out_ms(deliver_ms),
        "REAL_TOPIC": topic,
        "REAL_QID": 0,
        **more,
    }
    return "".join(f"{name}\x01{value}\x02" for name, value in named.items()).encode()


def park(
    wheel: TimerWheel, deliver_ms: int, at: int = 0, key: str = "u1", **more: str | int
) -> None:
    text = properties(deliver_ms, key, **more)
    wheel.observe(TIMER_TOPIC, text, LogOffset(at), 100, QueueOffset(at // 100), NOW_MS)


def deliver(
    wheel: TimerWheel, deliver_ms: int, at: int, key: str = "u1", **more: str | int
) -> None:
    text = properties(deliver_ms, key, TIMER_DEQUEUE_MS=deliver_ms + 5, **more)
    wheel.observe("orders", text, LogOffset(at), 100, QueueOffset(0), deliver_ms + 5)


def recall(wheel: TimerWheel, deliver_ms: int, at: int, key: str = "u1", **more: str | int) -> None:
    text = properties(deliver_ms, key, TIMER_DEL_UNIQKEY=f"orders+{key}", **more)
    wheel.observe(TIMER_TOPIC, text, LogOffset(at), 100, QueueOffset(at // 100), NOW_MS)


def origin(deliver_ms: int, at: int) -> str:
    return f"{deliver_ms}+{at}"


def waiting(wheel: TimerWheel) -> list[int]:
    return [timed.log_offset for timed in wheel.pending(0, EVER)]
