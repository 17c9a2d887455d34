"""What a process has used, from Linux's /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")

#: Of the numbers behind "cpu" in /proc/stat: user, nice, system; irq and softirq. Not idle, not
#: waiting for a disk, not stolen.
_BUSY: Final = (0, 1, 2, 5, 6)


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory in bytes: all of it now, the most there ever was, and what no file backs."""

    resident: int
    peak: int
    anonymous: int


def cpu_ns(pid: int, proc: Path = PROC) -> int:
    """CPU time of all threads that a process has now, in nanoseconds.

    The time of threads that have ended is not in it: the servers measured keep theirs.
    """
    total = 0
    for thread in (proc / str(pid) / "task").iterdir():
        try:
            total += int((thread / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):  # it ended in between
            continue
    return total


def memory(pid: int, proc: Path = PROC) -> Memory:
    """What a process has in memory."""
    lines = (proc / str(pid) / "status").read_text().splitlines()
    kilobytes = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(":") for line in lines)
        if name in {"VmRSS", "VmHWM", "RssAnon"}
    }
    return Memory(
        resident=kilobytes["VmRSS"] << 10,
        peak=kilobytes["VmHWM"] << 10,
        anonymous=kilobytes["RssAnon"] << 10,
    )


def busy_ns(proc: Path = PROC) -> int:
    """CPU time that the whole machine has been busy, in nanoseconds."""
    numbers = (proc / "stat").read_text().splitlines()[0].split()[1:]
    ticks = sum(int(numbers[at]) for at in _BUSY)
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def processor(proc: Path = PROC) -> str:
    """The name of the machine's processor, as far as it says one."""
    for line in (proc / "cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return "an unnamed processor"
