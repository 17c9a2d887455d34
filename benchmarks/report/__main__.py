"""RocketPipe and others under one load, as a page: ``make bench-report``.

Servers run side by side on this machine and are measured in turns, row by row and round by round.
Every sample is kept as soon as it is there; the page and its plots are made from the samples, at
the end of a run, after an interruption, or once more with ``--page-only``.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.broker.generator import Generator, Unavailable, compiled
from benchmarks.broker.peer import Peer
from benchmarks.broker.peers import PEERS
from benchmarks.broker.running import Pinning
from benchmarks.broker.usage import processor
from benchmarks.report.growing import measure_logs
from benchmarks.report.measuring import Bench, Pace, measure_loads, measure_starts
from benchmarks.report.page import write_page
from benchmarks.report.rows import PARTS, ROWS, NoSuchRow, Row, choose, log_rows
from benchmarks.report.samples import Entrant, Samples

PAGE: Final = Path("docs") / "benchmarks.md"
SAMPLES: Final = Path("out") / "bench-report.json"

QUICK: Final = Pace(seconds=0.4, before_s=0.2, rounds=1, warmup=0.25)
MIDDLE: Final = Pace(seconds=1.0, before_s=0.3, rounds=1, warmup=0.5)
FULL: Final = Pace(seconds=1.2, before_s=0.3, rounds=3, warmup=1.0)


def main() -> int:
    options = _options()
    if options.page_only:
        write_page(Samples.load(options.samples), options.page)
        print(f"written to {options.page}, from {options.samples}")
        return 0
    try:
        rows = choose(options.rows, [*ROWS, *log_rows(options.logs)])
        program = compiled()
    except NoSuchRow as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except Unavailable as reason:
        print(f"bench: nothing is measured here: {reason}")
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers are not left behind
    pinning = Pinning.of_this_machine()
    samples = _begun(options, rows)
    peers = _peers(options.peers, samples)
    bench = Bench(
        samples=samples,
        path=options.samples,
        generator=Generator(program, pinning.generator),
        pinning=pinning,
        pace=options.pace,
    )
    try:
        _measure(bench, peers, rows)
    except KeyboardInterrupt:
        bench.remark("The run was interrupted: what it had measured until then is here.")
        print("\nbench: interrupted; the page has what there is", flush=True)
    samples.options["took_s"] = round(time.time() - options.began)
    samples.save(options.samples)
    write_page(samples, options.page)
    print(f"written to {options.page}, every sample to {options.samples}")
    return 0


def _measure(bench: Bench, peers: list[Peer], rows: list[Row]) -> None:
    for part in PARTS:
        mine = [row for row in rows if row.part == part]
        if not mine:
            continue
        if part == "start":
            measure_starts(bench, peers, mine)
        elif part == "log":
            measure_logs(bench, peers, mine)
        else:
            measure_loads(bench, peers, mine, part)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="every row once, briefly")
    length.add_argument("--middle", action="store_true", help="every row once, for a second")
    parser.add_argument(
        "--peers",
        default=list(PEERS),
        type=lambda text: text.split(","),
        metavar="NAMES",
        help=f"which servers, separated by commas: {', '.join(PEERS)}",
    )
    parser.add_argument(
        "--rows",
        default=[],
        type=lambda text: text.split(","),
        metavar="PATTERNS",
        help="which lines, separated by commas, as in 'send-64x1-*,pull-*'; there are "
        + ", ".join(row.name for row in ROWS)
        + ", and log-GB and recovery-GB",
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="of each run (1.2; quick: 0.4)")
    parser.add_argument("--rounds", type=int, metavar="N", help="of all rows (3; else 1)")
    parser.add_argument(
        "--logs",
        type=_sizes,
        metavar="GB",
        help="sizes of logs, as in 1,10,30, while the disk has room (1; middle: 0.3; quick: 0.1)",
    )
    parser.add_argument("--samples", type=Path, default=SAMPLES, metavar="FILE")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE")
    parser.add_argument(
        "--page-only", action="store_true", help="measure nothing: the page from the samples"
    )
    options = parser.parse_args()
    for name in options.peers:
        if name not in PEERS:
            parser.error(f"no server is called {name!r}; there are {', '.join(PEERS)}")
    usual, log = (QUICK, 0.1) if options.quick else (MIDDLE, 0.3) if options.middle else (FULL, 1.0)
    options.logs = options.logs or [log]
    options.pace = Pace(
        seconds=options.seconds or usual.seconds,
        before_s=usual.before_s,
        rounds=options.rounds or usual.rounds,
        warmup=usual.warmup,
    )
    options.began = time.time()
    return options


def _sizes(text: str) -> list[float]:
    sizes = [float(size) for size in text.split(",")]
    if not all(0 < size <= 1000 for size in sizes):
        raise ValueError("sizes are above 0 and at most 1000 GB")
    return sizes


def _begun(options: argparse.Namespace, rows: list[Row]) -> Samples:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Samples(
        machine=f"{len(os.sched_getaffinity(0))} cores of {processor()}, "
        f"{memory_bytes / 2**30:.0f} GiB, Linux {platform.release()}, "
        f"{platform.python_implementation()} {platform.python_version()}",
        begun=time.strftime("%Y-%m-%d", time.gmtime()),
        options={
            "seconds": options.pace.seconds,
            "rounds": options.pace.rounds,
            "quick": options.quick,
            "disk_free_gb": shutil.disk_usage(tempfile.gettempdir()).free // 1_000_000_000,
            "pinned": bool(Pinning.of_this_machine().server),
        },
        titles={row.name: row.title for row in rows},
    )


def _peers(names: list[str], samples: Samples) -> list[Peer]:
    """Those that can be had; of the others, why not."""
    peers = []
    for name in names:
        try:
            peer = PEERS[name]()
        except Unavailable as reason:
            samples.missing[name] = str(reason)
            print(f"{name} is not reached: {reason}", flush=True)
            continue
        peers.append(peer)
        samples.entrants[name] = Entrant(
            title=peer.title,
            durability=peer.durability.usual,
            sync=peer.durability.sync,
            one_core=peer.one_core,
        )
    return peers


if __name__ == "__main__":
    sys.exit(main())
