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


def processes(pid: int, proc: Path = PROC) -> list[int]:
    """A process and those that it started, and they, as far as they run."""
    found = [pid]
    for each in found:  # it grows meanwhile
        try:
            threads = list((proc / str(each) / "task").iterdir())
        except FileNotFoundError:
            continue
        for thread in threads:
            try:
                found += map(int, (thread / "children").read_text().split())
            except (FileNotFoundError, ProcessLookupError):  # it ended in between
                continue
    return found


def cpu_ns(pid: int, proc: Path = PROC) -> int:
    """CPU time of all threads that a process and its children have now, in nanoseconds.

    The time of threads that have ended is not in it: the servers measured keep theirs.
    """
    total = 0
    for each in processes(pid, proc):
        for thread in (proc / str(each) / "task").iterdir():
            try:
                total += int((thread / "schedstat").read_text().split()[0])
            except (FileNotFoundError, ProcessLookupError):  # it ended in between
                continue
    return total


def memory(pid: int, proc: Path = PROC) -> Memory:
    """What a process and its children have in memory."""
    kilobytes = {"VmRSS": 0, "VmHWM": 0, "RssAnon": 0}
    for each in processes(pid, proc):
        for line in (proc / str(each) / "status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in kilobytes:
                kilobytes[name] += int(rest.split()[0])
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
