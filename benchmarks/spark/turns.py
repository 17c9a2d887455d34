"""What work costs: CPU and wall-clock time of cases that are run in turns."""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")

#: Gives the seconds that some process has used so far.
Meter = Callable[[], float]


@dataclass
class Seen:
    """What one case took in each of its rounds, in seconds."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    #: Of one process among all, as a broker.
    one: list[float] = field(default_factory=list)

    @property
    def cpu_s(self) -> float:
        return min(self.cpu)

    @property
    def wall_s(self) -> float:
        return min(self.wall)

    @property
    def one_s(self) -> float:
        return min(self.one)


class Processes:
    """CPU time of everything below this process, looked at now and then.

    Spark's workers come and go, and nobody is told what one used that has gone: so what was seen of
    each last is kept. This process itself only waits, and is left out.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], float] = {}
        self._below = {os.getpid()}
        self._stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.cpu_s()

    def close(self) -> None:
        """Look no more."""
        self._stop.set()

    def cpu_s(self) -> float:
        """Seconds that all of them have used."""
        for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):  # noqa: PTH208 - names do
            with contextlib.suppress(OSError):
                text = Path("/proc", name, "stat").read_text()
                fields = text[text.rindex(")") + 2 :].split()
                if int(fields[1]) in self._below:
                    self._below.add(int(name))
                    # A number may be given again, but not with the same start.
                    self._seen[int(name), fields[19]] = sum(map(int, fields[11:13])) / TICKS
        return sum(self._seen.copy().values())


def in_turns(
    cases: Mapping[str, Callable[[], object]], rounds: int, one: Meter | None = None
) -> dict[str, Seen]:
    """Run each once to warm up, then all in turns, so that a cold JIT favours none."""
    processes = Processes()
    seen = {name: Seen() for name in cases}
    meters: Iterable[Meter] = (processes.cpu_s, time.perf_counter, one or (lambda: 0.0))
    for turn in range(rounds + 1):
        for name, work in cases.items():
            before = [meter() for meter in meters]
            work()
            took = [meter() - start for meter, start in zip(meters, before, strict=True)]
            if turn:
                for figures, value in zip(
                    (seen[name].cpu, seen[name].wall, seen[name].one), took, strict=True
                ):
                    figures.append(value)
    processes.close()
    return seen


def ratio(these: Iterable[float], those: Iterable[float]) -> float:
    """The median of what is found round by round, of runs that followed each other."""
    return statistics.median(a / b for a, b in zip(these, those, strict=True))


def told(what: str, found: float, limit: float, *, at_most: bool, unit: str = "x") -> None:
    """Print what was found beside what was asked for."""
    holds = found <= limit if at_most else found >= limit
    sign = "≤" if at_most else "≥"
    print(f"{what:52}{found:8.2f}{unit}{sign:>3}{limit:g}  {'holds' if holds else 'MISSED'}")


def peak_mb() -> tuple[int, int, int]:
    """The most memory that a Python worker of Spark's, this process and its JVM ever had resident.

    Of workers it is that of those which are there still.
    """
    worker = java = 0
    for pid, command in _below(os.getpid()):
        with contextlib.suppress(OSError):
            if b"java" in command:
                java = max(java, _resident_mb(pid))
            elif b"pyspark" in command:
                worker = max(worker, _resident_mb(pid))
    return worker, _resident_mb(os.getpid()), java


def _below(pid: int) -> Iterator[tuple[int, bytes]]:
    """Each process that one has started, and those that these have, with its command."""
    with contextlib.suppress(OSError):  # it may end meanwhile
        for thread in Path("/proc", str(pid), "task").iterdir():
            for child in (thread / "children").read_text().split():
                yield int(child), Path("/proc", child, "cmdline").read_bytes()
                yield from _below(int(child))


def _resident_mb(pid: int) -> int:
    status = Path("/proc", str(pid), "status").read_text()
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) // 1024 if lines else 0
