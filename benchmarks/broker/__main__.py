"""RocketPipe, Apache RocketMQ, Redis Streams and NATS JetStream under the same load.

All servers run side by side on this machine and are measured in turns, scenario by scenario and
round by round, so that what disturbs the machine disturbs them alike. Prints tables of medians and
writes them, and every sample, to the directory of the report.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.broker.generator import Generator, RunFailed, Unavailable, compiled
from benchmarks.broker.peer import Peer
from benchmarks.broker.peers import PEERS
from benchmarks.broker.report import Footprint, Report, short
from benchmarks.broker.running import Pinning, Server, ServerFailed, running
from benchmarks.broker.scenarios import SCENARIOS, NoSuchScenario, Scenario, choose
from benchmarks.broker.usage import memory, processor

REPORT: Final = Path("out") / "bench-broker.md"
#: A guess, on the safe side, at what a run with every peer writes to the disk.
DISK_BYTES: Final = 40 << 30
QUICK_DISK_BYTES: Final = 5 << 30

Servers = dict[tuple[str, bool], Server]


def main() -> int:
    options = _options()
    try:
        scenarios = choose(options.scenarios, quick=options.quick)
        generator_program = compiled()
    except NoSuchScenario as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except Unavailable as reason:
        print(f"bench: brokers are not measured here: {reason}")
        return 0
    report, peers = _prepared(options, scenarios)
    if not peers:
        print("bench: no server to measure")
        return 1
    pinning = Pinning.of_this_machine()
    generator = Generator(generator_program, pinning.generator)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpipe-bench-")))
        _check_room(scratch, quick=options.quick)
        servers = _started(stack, report, peers, scenarios, scratch, generator, pinning)
        _warm_up(report, servers, scenarios, generator, quick=options.quick)
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", flush=True)
            for scenario in scenarios:
                _measure(report, servers, scenario, generator, options.seconds)
        for (name, sync), server in servers.items():
            footprint = Footprint(sync, server.ready_s, server.idle, memory(server.pid))
            report.footprints.setdefault(name, []).append(footprint)
    text = report.markdown()
    print(f"\n{text}")
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(text)
    options.report.with_suffix(".json").write_text(json.dumps(report.json(), indent=1))
    print(f"written to {options.report}, every sample to {options.report.with_suffix('.json')}")
    return 1 if any(cell.failures for cell in report.cells.values()) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few scenarios, one short round")
    parser.add_argument(
        "--peers",
        default="rocketpipe,apache,redis,nats",
        metavar="NAMES",
        help=f"which servers, separated by commas: {', '.join(PEERS)}",
    )
    parser.add_argument(
        "--scenarios",
        default=[],
        type=lambda text: text.split(","),
        metavar="PATTERNS",
        help="which loads, separated by commas, as in 'send-64x1-*,pull-*'; there are "
        + ", ".join(scenario.name for scenario in SCENARIOS),
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="of each run (2; quick: 1)")
    parser.add_argument("--rounds", type=int, metavar="N", help="of all scenarios (3; quick: 1)")
    parser.add_argument("--report", type=Path, default=REPORT, metavar="FILE")
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    for name in options.peers:
        if name not in PEERS:
            parser.error(f"no server is called {name!r}; there are {', '.join(PEERS)}")
    options.seconds = options.seconds or (1.0 if options.quick else 2.0)
    options.rounds = options.rounds or (1 if options.quick else 3)
    if options.seconds <= 0 or options.rounds <= 0:
        parser.error("--seconds and --rounds are above 0")
    return options


def _prepared(options: argparse.Namespace, scenarios: list[Scenario]) -> tuple[Report, list[Peer]]:
    peers, skipped = [], {}
    for name in options.peers:
        try:
            peers.append(PEERS[name]())
        except Unavailable as reason:
            skipped[name] = str(reason)
            print(f"{name} is left out: {reason}", flush=True)
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    pinned = Pinning.of_this_machine().server
    report = Report(
        machine=f"{len(os.sched_getaffinity(0))} cores of {processor()}, "
        f"{memory_bytes / 2**30:.0f} GiB, Linux {platform.release()}, "
        f"{platform.python_implementation()} {platform.python_version()}",
        method=f"Medians of {options.rounds} runs of {options.seconds:g} s, in turns; "
        "C x W is C connections with W requests on their way on each. "
        + (
            "The load has one core; RocketPipe with one broker and Redis have another, the rest "
            "may use all."
            if pinned
            else "No server is kept to a core."
        ),
        scenarios=scenarios,
        titles={peer.name: peer.title for peer in peers},
        skipped=skipped,
    )
    return report, peers


def _check_room(scratch: Path, *, quick: bool) -> None:
    wanted, free = QUICK_DISK_BYTES if quick else DISK_BYTES, shutil.disk_usage(scratch).free
    if free < wanted:
        print(
            f"bench: {free >> 30} GiB are free where temporary files go and a run may write "
            f"{wanted >> 30}: point TMPDIR to a larger disk if it fails",
            flush=True,
        )


def _started(
    stack: ExitStack,
    report: Report,
    peers: list[Peer],
    scenarios: list[Scenario],
    scratch: Path,
    generator: Generator,
    pinning: Pinning,
) -> Servers:
    """Start each peer, and once more where answers wait for the disk."""
    servers = {}
    for peer in peers:
        for sync in sorted({scenario.sync for scenario in scenarios if peer.serves(scenario)}):
            directory = scratch / f"{peer.name}{'-sync' if sync else ''}"
            directory.mkdir()
            try:
                server = stack.enter_context(
                    running(peer, directory, generator, pinning, sync=sync)
                )
            except ServerFailed as error:
                report.skipped[peer.name] = str(error)
                print(f"{peer.name} is left out: {error}", flush=True)
                continue
            servers[peer.name, sync] = server
            how = ", answers from disk" if sync else ""
            print(f"{peer.title}{how}: ready after {server.ready_s:.2f} s", flush=True)
    return servers


def _warm_up(
    report: Report,
    servers: Servers,
    scenarios: list[Scenario],
    generator: Generator,
    *,
    quick: bool,
) -> None:
    for (_, sync), server in servers.items():
        mine = [each for each in scenarios if each.sync == sync and server.peer.serves(each)]
        seconds = server.peer.warmup_s * (0.5 if quick else 1)
        print(f"{server.peer.title}: warming up", flush=True)
        try:
            server.warm_up(mine, generator, seconds)
        except RunFailed as error:
            # Whether that matters, the runs that count will tell.
            remark = f"{server.peer.title} stumbled while warming up: {error}"
            report.remarks.append(remark)
            print(remark, flush=True)


def _measure(
    report: Report,
    servers: Servers,
    scenario: Scenario,
    generator: Generator,
    seconds: float,
) -> None:
    for (name, sync), server in servers.items():
        if sync != scenario.sync or not server.peer.serves(scenario):
            continue
        cell = report.cell(scenario, name)
        if cell.failures:
            continue
        try:
            sample = server.measure(scenario, generator, seconds)
        except RunFailed as error:
            cell.failures.append(str(error))
            print(f"  {scenario.name:<16} {name:<11} failed: {error}", flush=True)
            continue
        cell.samples.append(sample)
        print(
            f"  {scenario.name:<16} {name:<11} {short(sample.messages_s):>6}/s "
            f"{sample.cpu_us:7.1f} µs {sample.p50_ms:8.2f} / {sample.p99_ms:.1f} ms",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
