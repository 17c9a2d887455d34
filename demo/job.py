"""The main job: servers, real messages, a Spark count, a verdict.

    1  a NameServer and a broker start in a process of their own
    2  a producer sends orders over RocketMQ's protocol, each keyed by its city
    3  a consumer reads them all
    4  Spark reads them all, through the source ``rocketpipe``, and counts them by key
    5  the three counts are printed beside each other

The exit code is 0 only if they agree. Everything the job writes is in one temporary directory,
which is gone when it ends, however it ends.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from demo.report import report
from rocketpipe import Producer, PullConsumer
from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline import launch
from rocketpipe.testing import servers

TOPIC = "orders"
SENDERS = 64
SEND_TIMEOUT_MS = 30_000  # a demo may run on a machine that is busy with other things
SILENCE_MS = 10_000
CITIES = ("Berlin", "Cairo", "Delhi", "Lagos", "Lima", "Osaka", "Paris", "Quito", "Rome", "Seoul")
LOG_NAME = "demo.log"
LAST_LINES = 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and print what it found; the number is the exit code."""
    parser = argparse.ArgumentParser(
        prog="demo", description="Send messages, consume them, count them in Spark, compare."
    )
    parser.add_argument(
        "--messages", type=_positive, default=10_000, metavar="N", help="how many to send (10,000)"
    )
    expected = parser.parse_args(arguments).messages
    stopped_by = [signal.SIGINT]

    def stop(number: int, frame: object) -> None:
        stopped_by[0] = signal.Signals(number)
        signal.raise_signal(signal.SIGINT)  # which Python, asyncio and Spark know how to leave by

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, stop)
    with tempfile.TemporaryDirectory(prefix="rocketpipe-demo-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        try:
            with logged(scratch):
                return run(expected, scratch)
        except KeyboardInterrupt:
            print("\nInterrupted: the servers are stopped, nothing is left behind.")
            return 128 + stopped_by[0]
        except (RocketPipeError, PySparkException, Py4JError, OSError) as error:
            show_logs(scratch)
            print(f"\nThe demo failed: {error}", file=sys.stderr)
            return 1


def run(expected: int, scratch: Path) -> int:
    """The job, with its files in ``scratch``."""
    launch.prepare_alone()  # a missing Java shows before the work, not after it
    with servers.serving(scratch) as running:
        name_server = running.name_server
        print(
            f"• servers run in process {running.process.pid}: "
            f"NameServer {name_server}, broker {running.broker}",
            flush=True,
        )
        with timed("sent them over RocketMQ's protocol"):
            sent = asyncio.run(send(name_server, expected))
        with timed("consumed them as group 'demo'"):
            consumed = asyncio.run(consume(name_server, expected))
        print("• starting Spark …", flush=True)
        with timed("counted them by key in Spark"):
            counted = count_in_spark(name_server, scratch)
    return report(expected, sent, consumed, counted)


async def send(name_server: str, expected: int) -> Counter[str]:
    """Send orders, each keyed by its city; gives how many of each the broker took."""
    chance = random.Random(2024)
    waiting = [chance.choice(CITIES) for _ in range(expected)]
    sent: Counter[str] = Counter()

    async def work(producer: Producer) -> None:
        while waiting:
            city = waiting.pop()
            body = f"an order from {city}".encode()
            await producer.send(TOPIC, body, tags="order", keys=[city], timeout_ms=SEND_TIMEOUT_MS)
            sent[city] += 1

    print(f"• sending {expected:,} messages to topic {TOPIC!r} …", flush=True)
    try:
        async with Producer(name_server) as producer, asyncio.TaskGroup() as tasks:
            for _ in range(SENDERS):
                tasks.create_task(work(producer))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # one tells enough
    return sent


async def consume(name_server: str, expected: int) -> Counter[str]:
    """Read the topic until everything came, or nothing comes any more."""
    consumed: Counter[str] = Counter()
    async with PullConsumer(name_server, group="demo") as consumer:
        await consumer.subscribe(TOPIC, tags="order")
        while consumed.total() < expected:
            messages = await consumer.poll(timeout_ms=SILENCE_MS)
            if not messages:
                break
            consumed.update(key for message in messages for key in message.keys)
        await consumer.commit()
    return consumed


def count_in_spark(name_server: str, scratch: Path) -> Counter[str]:
    """Count the topic's messages by key, read through the Spark source."""
    with launch.local_spark(scratch, name="rocketpipe-demo") as spark:
        messages = (
            spark.read.format("rocketpipe")
            .option("nameServer", name_server)
            .option("subscribe", TOPIC)
            .load()
        )
        rows = messages.selectExpr("explode(keys) AS key").groupBy("key").count().collect()
        return Counter({row["key"]: row["count"] for row in rows})


@contextmanager
def logged(scratch: Path) -> Iterator[None]:
    """Keep what libraries log off the terminal: py4j has much to say about a Ctrl-C."""
    handler = logging.FileHandler(scratch / LOG_NAME)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Say what was done, and how long it took."""
    start = time.monotonic()
    yield
    print(f"• {what} in {time.monotonic() - start:.1f} s", flush=True)


def show_logs(scratch: Path) -> None:
    """Print how the logs end, before they go with their directory."""
    for name in (servers.LOG_NAME, launch.LOG_NAME, LOG_NAME):
        log = scratch / name
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        if lines:
            print(f"\n--- the end of {name}", *lines[-LAST_LINES:], sep="\n", file=sys.stderr)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)
