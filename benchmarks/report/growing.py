"""What a log costs that has grown: sends to it, and the start after a kill -9."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.broker.generator import RunFailed
from benchmarks.broker.peer import Peer
from benchmarks.broker.running import Server, ServerFailed, running
from benchmarks.report.measuring import LEAST_WARMUP_S, Bench, figures_of, scratch, told
from benchmarks.report.rows import LARGE, Row

GB: Final = 1_000_000_000
#: A message of 1 KB with its properties, as RocketMQ stores it.
STORED_BYTES: Final = 1220
#: What queues, index and the runs themselves take beside a log, by its size and at least.
BESIDE: Final = 0.3
SPARE: Final = 4 * GB


def measure_logs(bench: Bench, peers: Sequence[Peer], rows: Sequence[Row]) -> None:
    """Let the log of each server grow from size to size, by itself on the disk."""
    for peer in peers:
        if "batch" in peer.protocols and peer.name != "limit":
            with scratch() as directory:
                _grow(bench, peer, rows, directory)


def _grow(bench: Bench, peer: Peer, rows: Sequence[Row], directory: Path) -> None:
    filled = 0.0
    sizes = sorted({float(row.name.partition("-")[2]) for row in rows})
    for size in sizes:
        mine = {row.name.partition("-")[0]: row for row in rows if row.name.endswith(f"-{size:g}")}
        wanted, free = (
            (size - filled) * GB * (1 + BESIDE) + SPARE,
            shutil.disk_usage(directory).free,
        )
        if free < wanted:
            for row in mine.values():
                bench.fail(row, peer, f"not run: {free // GB} GB free, {wanted / GB:.0f} wanted")
            return
        try:
            with running(peer, directory, bench.generator, bench.pinning, sync=False) as server:
                _fill(bench, server, size - filled)
                filled = size
                if "log" in mine:
                    _measure(bench, server, mine["log"])
                server.kill()
            if "recovery" in mine:
                _recover(bench, peer, mine["recovery"], directory)
        except (RunFailed, ServerFailed) as error:
            for row in mine.values():
                bench.fail(row, peer, error)
            return


def _fill(bench: Bench, server: Server, gigabytes: float) -> None:
    count = int(gigabytes * GB / STORED_BYTES)
    print(f"{server.peer.title}: {count:,} messages into the log", flush=True)
    bench.generator.send(
        server.ports,
        server.peer.protocols["batch"],
        count,
        body_bytes=LARGE,
        topic="BenchLog",
        connections=8,
    )


def _measure(bench: Bench, server: Server, row: Row) -> None:
    assert row.load is not None
    before_s = server.peer.warmup_s * bench.pace.warmup / 2
    server.measure(row.load, bench.generator, max(LEAST_WARMUP_S, before_s), 0.0)
    for _ in range(bench.pace.rounds):
        sample = server.measure(row.load, bench.generator, bench.pace.seconds, bench.pace.before_s)
        bench.keep(row, server.peer, figures_of(sample), told(sample))


def _recover(bench: Bench, peer: Peer, row: Row, directory: Path) -> None:
    with running(peer, directory, bench.generator, bench.pinning, sync=False) as server:
        took = round(server.ready_s, 3)
        server.kill()  # what it has is thrown away
    bench.keep(row, peer, {"seconds": took}, f"ready after {took:.2f} s")
