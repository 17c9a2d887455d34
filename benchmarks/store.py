"""The store beside bare loops that do the least such a store could: ratios of one run.

append     64-record batches of 1 KB, against crc32, three pack_into and one pwrite a batch
dispatch   the same batches right after their append, with a unique key alone and with all names
recovery   the scan of a log, against unpack and crc32 over the same bytes
queues     an append to one of 10,000 queues, against always the same one
reading    32 messages of 1 KB, against pread of the same bytes
closing    of a store with 10,000 new queues
memory     resident size while a log grows (--memory GIGABYTES)

What is compared takes turns, and the median of the turns' ratios counts: a machine that is busy
with other things then slows both sides alike.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from zlib import crc32

from rocketpipe.clock import SystemClock
from rocketpipe.model.host import Host
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.end import walk_to_end
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore

HOST = Host.parse("127.0.0.1:10911").pack()
BODY = os.urandom(1024)
BATCH = 64
ROUNDS = 7
HEAD = struct.Struct(">iiiii")
MIDDLE = struct.Struct(">qqiq8s")
TAIL = struct.Struct(">q8siqi")


def put(number: int, *, queues: int = 4, topic: str = "bench") -> Put:
    """A message as a Java producer would send it."""
    names = f"KEYS\x01k{number}\x02TAGS\x01Tag{'ABCD'[number % 4]}\x02"
    unique = f"UNIQ_KEY\x017F00000100002A9FDEADBEEF{number:08d}\x02WAIT\x01true\x02"
    return Put(
        topic=topic,
        queue_id=number % queues,
        body=BODY,
        properties=(names + unique).encode(),
        flag=0,
        sys_flag=0,
        born_ms=1_700_000_000_000,
        born_host=HOST,
    )


def unique_key(number: int) -> bytes:
    """Properties of a message with nothing but what every producer sets."""
    return f"UNIQ_KEY\x017F00000100002A9FDEADBEEF{number:08d}\x02WAIT\x01true\x02".encode()


def open_store(root: Path, **changes: object) -> MessageStore:
    settings: dict[str, object] = {"segment_bytes": 256 << 20, "queue_file_bytes": 6_000_000}
    settings |= {"index_slots": 500_000, "index_entries": 2_000_000, "unflushed_bytes": 1 << 40}
    settings |= changes
    config = StoreConfig(root=root, **settings)  # type: ignore[arg-type]
    # Without its threads: the bare loops neither sync nor make files ahead.
    return MessageStore.open(
        config, disk=Disk(), clock=SystemClock(), store_host=HOST, threads=False
    )


def cpu_s(work: Callable[[], None]) -> float:
    """CPU seconds that a piece of work takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(
    bare: Callable[[], None], ours: Callable[[], None], rounds: int = ROUNDS
) -> tuple[float, float, float]:
    """Median CPU seconds of both, which take turns, and the median of how they compare."""
    bare()
    ours()
    pairs = [(cpu_s(bare), cpu_s(ours)) for _ in range(rounds)]
    least, taken = zip(*pairs, strict=True)
    ratio = statistics.median(one / other for one, other in pairs)
    return statistics.median(least), statistics.median(taken), ratio


def bench_append(root: Path) -> None:
    batches = 200
    groups = [[put(number)] for number in range(BATCH)]
    file = os.open(root / "bare", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(file, 0, 256 << 20)
    position = 0

    def bare() -> None:
        nonlocal position
        for _ in range(batches):
            buffer = bytearray(BATCH * 1300)
            at = 0
            for _ in range(BATCH):
                HEAD.pack_into(buffer, at, 1300, -626843481, crc32(BODY) & 0x7FFFFFFF, 0, 0)
                MIDDLE.pack_into(buffer, at + 20, at, at, 0, at, HOST)
                TAIL.pack_into(buffer, at + 56, at, HOST, 0, 0, 1024)
                buffer[at + 88 : at + 88 + 1024] = BODY
                at += 1300
            os.pwrite(file, buffer, position)
            position = (position + at) % (200 << 20)

    store = open_store(root / "append")

    def ours() -> None:
        for _ in range(batches):
            store.append(groups)

    least, taken, ratio = compare(bare, ours)
    store.dispatch()
    store.close()
    os.close(file)
    count = batches * BATCH
    print(
        f"append    {taken / count * 1e6:6.2f} µs a record, bare loop {least / count * 1e6:.2f}: "
        f"{ratio:.2f}x of it (at least 0.5)"
    )


def bench_dispatch(root: Path) -> None:
    batches = 100
    for name in ("one key", "all names"):
        store = open_store(root / f"dispatch-{name}")
        puts = [put(number) for number in range(batches * BATCH)]
        if name == "one key":
            puts = [each._replace(properties=unique_key(n)) for n, each in enumerate(puts)]
        groups = [
            [[each] for each in puts[first : first + BATCH]] for first in range(0, len(puts), BATCH)
        ]
        times = []
        for _ in range(ROUNDS):
            taken = 0.0
            for group in groups:
                store.append(group)
                taken += cpu_s(lambda: store.dispatch() and None)  # noqa: B023 - called at once
            times.append(taken / len(puts))
        bound = " (at most 10)" if name == "one key" else ""
        print(f"dispatch  {statistics.median(times) * 1e6:6.2f} µs a message, {name}{bound}")
        store.close()


def bench_recovery(root: Path) -> None:
    records = 100_000
    store = open_store(root / "recovery")
    for first in range(0, records, BATCH):
        store.append([[put(number)] for number in range(first, first + BATCH)])
    store.dispatch()
    first_offset, end = store.first_offset, store.positions.written
    path = root / "recovery" / "commitlog" / f"{0:020d}"
    data = path.read_bytes()[:end]

    def bare() -> None:
        at = 0
        unpack = struct.Struct(">iiiiiqqiq8sq8siqi").unpack_from
        while at < end:
            head = unpack(data, at)
            crc32(memoryview(data)[at + 88 : at + 88 + head[14]])
            at += head[0]

    def ours() -> None:
        assert walk_to_end(store.commit_log, first_offset).end == end

    least, taken, ratio = compare(bare, ours)
    print(
        f"recovery  {records / taken:,.0f} records/s, bare walk {records / least:,.0f}: "
        f"{ratio:.2f}x of it (at least 0.6)"
    )
    wanted = 200

    def bare_reads() -> None:
        file = os.open(path, os.O_RDONLY)
        size = data and struct.unpack_from(">i", data)[0]
        for number in range(wanted):
            at = number * 4 * size
            for _ in range(32):
                os.pread(file, size, at)
                at += size * 4
        os.close(file)

    def our_reads() -> None:
        for number in range(wanted):
            result = store.read("bench", 0, QueueOffset(number), max_count=32)
            assert result.count == 32

    least, taken, ratio = compare(bare_reads, our_reads)
    print(
        f"reading   {taken / wanted * 1e6:6.1f} µs for 32 messages, bare pread "
        f"{least / wanted * 1e6:.1f}: {ratio:.2f}x of it (at least 0.25)"
    )
    store.close()


def bench_queues(root: Path) -> None:
    batches = 60
    for deferred in (False, True):
        work = {}
        stores = {}
        for queues in (1, 10_000):
            store = open_store(root / f"queues-{queues}-{deferred}", queue_file_bytes=60_000)
            groups = [
                [[put(batch * BATCH + n, queues=queues)] for n in range(BATCH)]
                for batch in range(batches)
            ]
            stores[queues] = store
            work[queues] = partial(append_all, store, groups, deferred=deferred)
        one, many, ratio = compare(work[1], work[10_000])
        count = batches * BATCH
        name = "deferred" if deferred else "immediate"
        bound = " (at most 1.5)" if deferred else ""
        print(
            f"queues    dispatch {name:<9}: {many / count * 1e6:5.1f} µs with 10,000 queues, "
            f"{one / count * 1e6:5.1f} with one: {1 / ratio:.2f}x{bound}"
        )
        for store in stores.values():
            store.abandon()


def append_all(store: MessageStore, groups: list[list[list[Put]]], *, deferred: bool) -> None:
    """Append and dispatch, batch by batch or all at the end."""
    for group in groups:
        store.append(group)
        if not deferred:
            store.dispatch()
    store.dispatch()


def bench_closing(root: Path) -> None:
    queues = 10_000
    store = open_store(root / "closing", queue_file_bytes=60_000)
    for first in range(0, queues, BATCH):
        store.append([[put(n, queues=queues)] for n in range(first, first + BATCH)])
    store.dispatch()
    start = time.monotonic()
    store.close()
    print(f"closing   {time.monotonic() - start:6.2f} s with 10,000 new queues")


def bench_memory(root: Path, gigabytes: float) -> None:
    store = open_store(root / "memory")
    groups = [[put(number)] for number in range(BATCH)]
    goal = gigabytes * (1 << 30)
    step = goal / 8
    while store.positions.written < goal:
        store.append(groups)
        if store.behind_bytes > 8 << 20:
            store.dispatch()
        if store.positions.written >= step:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            resident = pages * resource.getpagesize() / (1 << 20)
            print(f"memory    {step / (1 << 30):.1f} GB written: {resident:.0f} MB resident")
            step += goal / 8
    store.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", type=float, default=0, metavar="GIGABYTES")
    options = parser.parse_args()
    gc.freeze()
    with tempfile.TemporaryDirectory(prefix="rocketpipe-bench-") as directory:
        root = Path(directory)
        bench_append(root)
        bench_dispatch(root)
        bench_recovery(root)
        bench_queues(root)
        bench_closing(root)
        if options.memory:
            bench_memory(root, options.memory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
