"""What the test kit costs a test: a cluster of its own, a leap in time, a broker that comes back.

    cluster     from nothing to a NameServer and a broker that serve, and back to nothing
    syncing     the same, of servers with a store that syncs: what leaving out the syncs saves
    advance     16 minutes on the clock, with a producer and a consumer open
    restart     the broker stopped in good order and started again
    kill        the broker killed and started again, recovery included

The median of the rounds counts, in wall time and in CPU time of the whole process, which other load
on the machine hardly touches. ``make bench-testkit BENCH="--rounds 50"``.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from rocketpipe.testing import Kit, cluster, kit

Took = tuple[float, float]


def took(work: Callable[[], object]) -> Took:
    """Milliseconds of the wall and of the CPU."""
    wall, busy = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - busy) * 1000


def one_cluster() -> None:
    with tempfile.TemporaryDirectory() as scratch, kit(Path(scratch)):
        pass


def one_that_syncs() -> None:
    async def serve(data: Path) -> None:
        async with cluster(data):
            pass

    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(serve(Path(scratch)))


@contextmanager
def in_use() -> Iterator[Kit]:
    """Servers with a producer, a consumer, and a few messages."""
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        servers = stack.enter_context(kit(Path(scratch)))
        producer = stack.enter_context(servers.blocking.producer())
        for number in range(100):
            producer.send("bench", b"%d" % number)
        consumer = stack.enter_context(servers.blocking.simple_consumer(group="bench"))
        consumer.subscribe("bench")
        consumer.ack(consumer.receive(wait_ms=10_000))
        yield servers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    one_cluster()  # imports, and what is compiled once
    results: dict[str, list[Took]] = {}
    for _ in range(rounds):
        results.setdefault("cluster", []).append(took(one_cluster))
        results.setdefault("syncing", []).append(took(one_that_syncs))
    with in_use() as servers:
        for _ in range(max(3, rounds // 3)):
            results.setdefault("advance", []).append(took(lambda: servers.clock.advance("16m")))
            results.setdefault("restart", []).append(took(servers.restart))
            results.setdefault("kill", []).append(took(servers.kill))
    print(f"{'':10} {'wall ms':>9} {'CPU ms':>9}")
    for name, all_took in results.items():
        wall, busy = (median(column) for column in zip(*all_took, strict=True))
        print(f"{name:10} {wall:9.1f} {busy:9.1f}")


if __name__ == "__main__":
    main()
