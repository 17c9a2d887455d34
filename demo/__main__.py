"""The main job: servers in a process of their own, real messages, a Spark count, a verdict.

Run it by ``make demo``. It exits with 0 only if every count agrees with what was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from rocketpipe import Producer, PullConsumer
from rocketpipe.pipeline import launch

TOPIC = "orders"
MESSAGES = 10_000
SENDERS = 64
CITIES = ("Berlin", "Cairo", "Delhi", "Lagos", "Lima", "Osaka", "Paris", "Quito", "Rome", "Seoul")


def main() -> int:
    """Run the job and print what it found; the number is the exit code."""
    with tempfile.TemporaryDirectory(prefix="rocketpipe-demo-") as directory:
        with serving(Path(directory) / "store") as name_server:
            with timed(f"sent {MESSAGES:,} messages to topic {TOPIC!r}"):
                sent = asyncio.run(send(name_server))
            with timed("consumed them as group 'demo'"):
                consumed = asyncio.run(consume(name_server, sum(sent.values())))
            with timed("counted them by key in Spark"):
                counted = count_in_spark(name_server)
    return report(sent, consumed, counted)


@contextlib.contextmanager
def serving(data: Path) -> Iterator[str]:
    """NameServer and broker as a child process; gives the NameServer's address."""
    command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--data", str(data)]
    command += ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            ready = child.stdout.readline()
            if not ready.startswith("ready "):
                assert child.stderr is not None
                raise SystemExit(f"the servers did not start:\n{child.stderr.read()}")
            addresses = dict(word.split("=", 1) for word in ready.split()[1:])
            print(f"• servers ready in process {child.pid}: {ready.removeprefix('ready ').strip()}")
            yield addresses["namesrv"]
        finally:
            child.terminate()
            child.communicate(timeout=10)


async def send(name_server: str) -> Counter[str]:
    """Send orders, each keyed by its city; returns how many of each."""
    chance = random.Random(2024)
    waiting = [chance.choice(CITIES) for _ in range(MESSAGES)]
    sent: Counter[str] = Counter()

    async def work(producer: Producer) -> None:
        while waiting:
            city = waiting.pop()
            await producer.send(TOPIC, f"an order from {city}".encode(), tags="order", keys=[city])
            sent[city] += 1

    async with Producer(name_server) as producer, asyncio.TaskGroup() as tasks:
        for _ in range(SENDERS):
            tasks.create_task(work(producer))
    return sent


async def consume(name_server: str, expected: int) -> Counter[str]:
    """Read the topic until everything came, or nothing comes any more."""
    consumed: Counter[str] = Counter()
    async with PullConsumer(name_server, group="demo") as consumer:
        await consumer.subscribe(TOPIC, tags="order")
        while consumed.total() < expected:
            messages = await consumer.poll(timeout_ms=5_000)
            if not messages:
                break
            consumed.update(key for message in messages for key in message.keys)
        await consumer.commit()
    return consumed


def count_in_spark(name_server: str) -> Counter[str]:
    """Count the topic's messages by key, read through the Spark source."""
    launch.prepare()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("rocketpipe-demo")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        messages = (
            spark.read.format("rocketpipe")
            .option("nameServer", name_server)
            .option("subscribe", TOPIC)
            .load()
        )
        rows = messages.selectExpr("explode(keys) AS key").groupBy("key").count().collect()
        return Counter({row["key"]: row["count"] for row in rows})
    finally:
        spark.stop()


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Say what was done, and how long it took."""
    start = time.monotonic()
    yield
    print(f"• {what} in {time.monotonic() - start:.1f} s", flush=True)


def report(sent: Counter[str], consumed: Counter[str], counted: Counter[str]) -> int:
    """Print the three counts side by side, and whether they agree."""
    print(f"\n{'key':<10}{'sent':>10}{'consumed':>10}{'Spark':>10}")
    for key in sorted({*sent, *consumed, *counted}):
        same = sent[key] == consumed[key] == counted[key]
        row = f"{key:<10}{sent[key]:>10,}{consumed[key]:>10,}{counted[key]:>10,}"
        print(row if same else f"{row}   ← differs")
    totals = (sent.total(), consumed.total(), counted.total())
    print(f"{'total':<10}" + "".join(f"{total:>10,}" for total in totals))
    agree = sent == consumed == counted and sent.total() == MESSAGES
    print("\nEvery count agrees." if agree else "\nThe counts differ: see the marked rows.")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
