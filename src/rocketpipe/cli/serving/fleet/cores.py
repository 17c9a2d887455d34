"""Which processor cores there are for brokers, and which broker gets which.

A broker works on one core at a time. One that stays on a core finds there what it needs, and none
of its kind in its way; two threads of one core are the last to be shared out. Where there are more
brokers than cores, the system decides.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_CPUS: Final = Path("/sys/devices/system/cpu")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUP: Final = Path("/proc/self/cgroup")


def allowed() -> list[int]:
    """The cores that this process may use, by number; empty where the platform does not say."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return []


def usable() -> int:
    """How many cores' worth of work this process can have done: allowed ones, less a quota."""
    count = len(allowed()) or os.cpu_count() or 1
    quota = _quota(_CGROUPS, _OWN_CGROUP)
    return count if quota is None else max(1, min(count, int(quota)))


def placement(count: int, cores: Sequence[int], cpus: Path = _CPUS) -> list[int | None]:
    """A core for each of so many brokers; None leaves it to the system."""
    if not cores or count > len(cores):
        return [None] * count
    first: list[int] = []
    second: list[int] = []
    seen = set[str]()
    for core in cores:
        siblings = _siblings(core, cpus)
        (second if siblings in seen else first).append(core)
        seen.add(siblings)
    return list[int | None]([*first, *second][:count])


def keep_on(process: int, core: int | None) -> None:
    """Have a process, and the threads that it will start, stay on a core."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # it has just ended, or the core is no longer ours: no matter
            os.sched_setaffinity(process, {core})


def _siblings(core: int, cpus: Path) -> str:
    """What the threads of one core have in common; of a core that says nothing, itself."""
    try:
        return (cpus / f"cpu{core}" / "topology" / "thread_siblings_list").read_text().strip()
    except OSError:
        return str(core)


def _quota(cgroups: Path, own: Path) -> float | None:
    """How many cores' time this process's control groups grant it; None for no limit."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    found = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            directory = cgroups / path.strip("/")
            while directory.is_relative_to(cgroups):
                found.append(_limit(directory / "cpu.max"))
                directory = directory.parent
        elif "cpu" in controllers.split(","):
            found.append(_limit_v1(cgroups / "cpu" / path.strip("/")))
            found.append(_limit_v1(cgroups / "cpu"))
    return min((each for each in found if each is not None), default=None)


def _limit(path: Path) -> float | None:
    try:
        quota, period = path.read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _limit_v1(directory: Path) -> float | None:
    try:
        quota = int((directory / "cpu.cfs_quota_us").read_text())
        return quota / int((directory / "cpu.cfs_period_us").read_text()) if quota > 0 else None
    except (OSError, ValueError):
        return None
