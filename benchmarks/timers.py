"""Plain sends to a broker at which many messages wait for their time, beside one where none does.

filling    messages that wait, appended to a store, and its opening afterwards
saving     what one save does on the store's thread, and beside it
sending    latency of single plain sends at a fixed rate, and the resident size of the broker

The brokers take turns, a slice of the sends each, so that a machine that is busy with other things
slows all of them alike: what counts is one beside the other.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from rocketpipe import Producer, Session
from rocketpipe.clock import SystemClock
from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore

HOST = bytes(8)
BODY = bytes(100)
BATCH = 256
HOUR_MS = 3_600_000


def timed(number: int, now_ms: int) -> Put:
    """A message that is due between an hour and two days from now."""
    deliver_ms = now_ms + HOUR_MS + number * 7919 % (47 * HOUR_MS)
    said = {
        "TIMER_DELIVER_MS": deliver_ms,
        "UNIQ_KEY": f"7F00000100002A9FDEADBEEF{number:08d}",
        "TIMER_OUT_MS": (deliver_ms - 1) // 1000 * 1000,
        "REAL_TOPIC": "bench",
        "REAL_QID": 0,
    }
    return Put(
        topic=TIMER_TOPIC,
        queue_id=0,
        body=BODY,
        properties="".join(f"{name}\x01{value}\x02" for name, value in said.items()).encode(),
        flag=0,
        sys_flag=0,
        born_ms=now_ms,
        born_host=HOST,
    )


def fill(root: Path, count: int) -> None:
    """Have so many messages wait in a new store, and tell how that went."""
    config = StoreConfig(root=root, segment_bytes=64 << 20)
    clock = SystemClock()

    def opened() -> MessageStore:
        return MessageStore.open(config, disk=Disk(), clock=clock, store_host=HOST, threads=False)

    began = time.perf_counter()
    store = opened()
    now_ms = clock.now_ms()
    for start in range(0, count, BATCH):
        some = range(start, min(count, start + BATCH))
        store.append([[timed(number, now_ms)] for number in some])
        store.dispatch()
    filled = time.perf_counter()
    store.close()
    closed = time.perf_counter()
    store = opened()
    again = time.perf_counter()
    here: list[float] = []
    aside: list[float] = []
    for number in range(5):
        store.append([[timed(count + number, now_ms)]])
        store.derived.dispatcher.run()
        start_s = time.perf_counter()
        portion = store.derived.timer.begin_sync()
        here.append(time.perf_counter() - start_s)
        portion.now()
        aside.append(time.perf_counter() - start_s)
    store.close()
    print(
        f"{count:>9} wait: filled in {filled - began:.1f} s, closed in {closed - filled:.1f} s, "
        f"opened in {again - closed:.2f} s; a save takes {1e3 * sorted(here)[2]:.2f} ms on the "
        f"loop, {1e3 * sorted(aside)[2]:.1f} ms in all (the worst of five {1e3 * max(here):.2f}, "
        f"{1e3 * max(aside):.1f})",
        flush=True,
    )


class Served:
    """A broker in a process of its own, and what its sends took."""

    def __init__(self, root: Path, count: int) -> None:
        self.count = count
        arguments = ["serve", "--data", str(root), "--broker", "127.0.0.1:0"]
        code = "import sys; from rocketpipe.cli.main import main; sys.exit(main())"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments, "--namesrv", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        ready = next(line for line in self._process.stdout if line.startswith("ready"))
        found = re.search(r"namesrv[= ](\S+?:\d+)", ready)
        assert found is not None, ready
        self.name_servers = found[1]
        self.took_ms: list[float] = []

    def resident_mb(self) -> float:
        """How much memory it has."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found is not None
        return int(found[1]) / 1024

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()

    async def send(self, seconds: float, rate: int) -> None:
        """Send one message after the other, and note what each took."""
        async with Session(self.name_servers) as session, Producer(session) as producer:
            await producer.send("bench", BODY)
            end = time.perf_counter() + seconds
            while (began := time.perf_counter()) < end:
                await producer.send("bench", BODY)
                took = time.perf_counter() - began
                self.took_ms.append(1e3 * took)
                await asyncio.sleep(max(0, 1 / rate - took))

    def report(self) -> str:
        """What its sends took."""
        took = sorted(self.took_ms)

        def at(part: float) -> float:
            return took[min(len(took) - 1, int(part * len(took)))]

        return (
            f"{self.count:>9} wait: {len(took)} sends, p50 {at(0.5):.2f} ms, p99 {at(0.99):.2f} ms,"
            f" p99.9 {at(0.999):.2f} ms, worst {took[-1]:.1f} ms; {self.resident_mb():.0f} MB"
        )


def main() -> None:
    """Fill stores, then send to brokers on them in turns."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--waiting", default="0,100000,1000000", help="how many are to wait")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=11, help="of a turn: a save is every 5 s")
    parser.add_argument("--rate", type=int, default=400, help="sends a second")
    options = parser.parse_args()
    with ExitStack() as ending:
        directory = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="timers-")))
        counts = [int(count) for count in options.waiting.split(",")]
        for count in counts:
            fill(directory / str(count), count)
        os.sync()
        served = [Served(directory / str(count), count) for count in counts]
        for each in served:
            ending.callback(each.stop)
        for _ in range(options.turns):
            for each in served:
                asyncio.run(each.send(options.seconds, options.rate))
        for each in served if options.turns else ():
            print(each.report(), flush=True)


if __name__ == "__main__":
    main()
