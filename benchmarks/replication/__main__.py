"""What copies cost: sends with and without replicas, ours and Apache's, in one run.

All groups run side by side and are measured in turns, load by load and round by round. Then a
follower catches up with a long log, and leaders are killed to see how long nothing is taken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from typing import Final

from benchmarks.broker.generator import Generator, RunFailed, Unavailable, compiled
from benchmarks.broker.report import Cell, short, table
from benchmarks.broker.running import ServerFailed
from benchmarks.broker.scenarios import Scenario
from benchmarks.replication.catch_up import CAUGHT_UP, catch_up
from benchmarks.replication.groups import Ground, Group, name_server, running
from benchmarks.replication.kinds import KINDS
from benchmarks.replication.takeover import TAKEN_OVER, taken_over
from benchmarks.replication.targets import TARGETS, targets

from rocketpipe.errors import RocketPipeError
from rocketpipe.testing.ensemble import ensemble

REPORT: Final = Path("out") / "bench-replication.md"
LOADS: Final = tuple(
    Scenario(
        kind="send",
        connections=connections,
        window=window,
        body_bytes=body_bytes,
        quick=body_bytes == 100 and connections > 1,
    )
    for body_bytes in (100, 1024)
    for connections, window in ((1, 1), (64, 1), (16, 16))
)
PARTS: Final = ("sends", "catch-up", "takeover")
QUICK_PARTS: Final = ("sends", "catch-up")


def main() -> int:
    options = _options()
    try:
        program = compiled()
    except Unavailable as reason:
        print(f"bench: replicas are not measured here: {reason}")
        return 0
    lines = [f"# Replicas, rounds of {options.seconds:g} s, medians of {options.rounds}", ""]
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpipe-bench-")))
        elects = "takeover" in options.parts or any("elected" in each for each in options.groups)
        zookeeper = _coordinator(stack, scratch) if elects else ""
        ground = Ground(
            directory=scratch,
            name_server=stack.enter_context(name_server(scratch)),
            zookeeper=zookeeper,
            generator=Generator(program),
        )
        if "sends" in options.parts:
            lines += _sends(ground, options)
        if "catch-up" in options.parts:
            found = [catch_up(ground, size, options.megabytes) for size in (1024, 100)]
            lines += ["", *table(CAUGHT_UP, found)]
        if "takeover" in options.parts and zookeeper:
            rows = [taken_over(ground, ms, options.kills) for ms in (1000, 3000)]
            lines += ["", *table(TAKEN_OVER, rows)]
    text = "\n".join(lines) + "\n"
    print(f"\n{text}")
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(text)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replication", description=__doc__)
    words = {"type": lambda text: text.split(","), "metavar": "NAMES"}
    loads = [each.name for each in LOADS]
    parser.add_argument("--quick", action="store_true", help="a part of it, one short round")
    parser.add_argument("--parts", help=", ".join(PARTS), **words)
    parser.add_argument("--groups", help=", ".join(KINDS), **words)
    parser.add_argument("--loads", help=", ".join(loads), **words)
    parser.add_argument("--seconds", type=float, metavar="S", help="of each run (2; quick: 1)")
    parser.add_argument("--rounds", type=int, metavar="N", help="of all loads (5; quick: 1)")
    parser.add_argument("--megabytes", type=int, help="to catch up with (1024; quick: 64)")
    parser.add_argument("--kills", type=int, default=10, help="of leaders, for each session (10)")
    parser.add_argument("--report", type=Path, default=REPORT, metavar="FILE")
    options = parser.parse_args()
    quick = options.quick
    options.parts = options.parts or (QUICK_PARTS if quick else PARTS)
    options.groups = options.groups or [
        name for name, kind in KINDS.items() if kind.quick or not quick
    ]
    options.loads = options.loads or [each.name for each in LOADS if each.quick or not quick]
    options.seconds = options.seconds or (1.0 if quick else 2.0)
    options.rounds = options.rounds or (1 if quick else 5)
    options.megabytes = options.megabytes or (64 if quick else 1024)
    for given, known in ((options.parts, PARTS), (options.groups, KINDS), (options.loads, loads)):
        for name in given:
            if name not in known:
                parser.error(f"{name!r} is not one of {', '.join(known)}")
    return options


def _coordinator(stack: ExitStack, scratch: Path) -> str:
    directory = scratch / "zookeeper"
    directory.mkdir()
    try:
        return ",".join(stack.enter_context(ensemble(directory)).hosts)
    except RocketPipeError as error:
        print(f"no leader is elected: {error}", flush=True)
        return ""


def _sends(ground: Ground, options: argparse.Namespace) -> list[str]:
    groups: list[Group] = []
    loads = [each for each in LOADS if each.name in options.loads]
    cells = {(load.name, name): Cell() for load in loads for name in options.groups}
    with ExitStack() as stack:
        for name in options.groups:
            kind = KINDS[name]
            try:
                made = kind.made(ground, name)
                group = stack.enter_context(running(name, kind.title, made, ground))
                for load in loads:
                    _run(group, load, ground, kind.warmup_s / len(loads))
            except (Unavailable, ServerFailed, RunFailed) as reason:
                print(f"{name} is left out: {reason}", flush=True)
            else:
                groups.append(group)
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", flush=True)
            for load in loads:
                for group in groups:
                    _measure(group, load, ground, options.seconds, cells[load.name, group.name])
    head = ["sends/s (leader's µs + followers' µs; ms to the answer, p50 / p99)"]
    head += [group.title for group in groups]
    rows = [
        [load.title, *(_text(cells[load.name, group.name]) for group in groups)] for load in loads
    ]
    foreign = Cell([each for cell in cells.values() for each in cell.samples])
    cores = foreign.median(attrgetter("foreign_cores")) or 0.0
    lines = [*table(head, rows), "", f"Other programs kept {cores:.2f} cores busy meanwhile."]
    if found := list(targets(cells, loads)):
        lines += ["", *table(TARGETS, found)]
    return lines


def _run(group: Group, load: Scenario, ground: Ground, seconds: float):  # type: ignore[no-untyped-def]
    return ground.generator.measure(
        load,
        port=group.leader.port,
        protocol="send",
        pid=group.leader.pid,
        replicas=group.pids[1:],
        seconds=max(0.5, seconds),
    )


def _measure(group: Group, load: Scenario, ground: Ground, seconds: float, cell: Cell) -> None:
    try:
        sample = _run(group, load, ground, seconds)
    except RunFailed as error:
        cell.failures.append(str(error))
        print(f"  {load.name:<16} {group.name:<11} failed: {error}", flush=True)
        return
    cell.samples.append(sample)
    print(
        f"  {load.name:<16} {group.name:<11} {short(sample.messages_s):>6}/s "
        f"{sample.cpu_us:6.1f} + {sample.replicas_us:5.1f} µs "
        f"{sample.p50_ms:7.2f} / {sample.p99_ms:.1f} ms  others {sample.foreign_cores:.2f}",
        flush=True,
    )


def _text(cell: Cell) -> str:
    rate = cell.median(attrgetter("messages_s"))
    if rate is None:
        return "failed" if cell.failures else "–"
    figures = [cell.median(attrgetter(each)) for each in ("cpu_us", "replicas_us", "p50_ms")]
    late = cell.median(attrgetter("p99_ms"))
    return f"{short(rate)} ({figures[0]:.1f} + {figures[1]:.1f}; {figures[2]:.2f} / {late:.1f})"


if __name__ == "__main__":
    sys.exit(main())
