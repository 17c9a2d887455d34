"""How fast blocking sends are from 16 threads, beside 16 asyncio tasks.

Everything runs in one go against the same broker, which has a process of its own:

    16 tasks          Producer.send from 16 tasks, on the kind of loop that blocking clients have
    tasks, batched    the same with automatic batching
    16 threads        blocking.Producer.send from 16 threads
    threads, batched  the same with automatic batching
    16 futures        blocking sends by run_coroutine_threadsafe: what handing over in batches saves
    poll, iterate     messages a second that one thread reads, by the list and one by one

Rounds of all kinds alternate, and the best of each kind counts: other load on the machine then
hits all alike. ``make bench-client BENCH="--rounds 5 --messages 50000"``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from rocketpipe import Producer
from rocketpipe.blocking import Batching, ConsumeFromWhere, PullConsumer
from rocketpipe.blocking import Producer as BlockingProducer
from rocketpipe.testing.servers import serving

TOPIC = "bench"
WORKERS = 16
BODY = bytes(128)


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of the kind that blocking clients run on."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def tasks_rate(name_server: str, messages: int, batching: Batching | None) -> float:
    """Messages a second, from tasks that each wait for their answer."""
    left = messages
    async with Producer(name_server, batching=batching) as producer:
        await producer.send(TOPIC, BODY)

        async def work() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await producer.send(TOPIC, BODY)

        gc.collect()
        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(WORKERS)))
        return messages / (time.perf_counter() - began)


def threads_rate(send: Callable[[], object], messages: int) -> float:
    """Messages a second, from threads that each wait for their answer."""
    send()
    numbers = itertools.count()

    def work() -> None:
        while next(numbers) < messages:
            send()

    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    gc.collect()
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return messages / (time.perf_counter() - began)


def tasks(name_server: str, messages: int, batching: Batching | None = None) -> float:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(tasks_rate(name_server, messages, batching))


def batched_tasks(name_server: str, messages: int) -> float:
    return tasks(name_server, messages, Batching())


def plain(name_server: str, messages: int) -> float:
    with BlockingProducer(name_server) as producer:
        return threads_rate(lambda: producer.send(TOPIC, BODY), messages)


def batched(name_server: str, messages: int) -> float:
    with BlockingProducer(name_server, batching=Batching()) as producer:
        return threads_rate(lambda: producer.send(TOPIC, BODY), messages)


def futures(name_server: str, messages: int) -> float:
    """The plain way: a future, and a wake-up of the loop, for each call."""
    loop = new_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    producer = Producer(name_server)

    def wait(work: object) -> object:
        return asyncio.run_coroutine_threadsafe(work, loop).result()  # type: ignore[arg-type]

    try:
        wait(producer.__aenter__())
        found = threads_rate(lambda: wait(producer.send(TOPIC, BODY)), messages)
        wait(producer.__aexit__(None, None, None))
        return found
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def read_rate(name_server: str, group: str, messages: int, *, singly: bool) -> float:
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    with PullConsumer(name_server, group=group, start=first) as consumer:
        consumer.subscribe(TOPIC)
        consumer.poll()
        read = 0
        began = time.perf_counter()
        if singly:
            for _ in islice(consumer, messages):
                read += 1
        else:
            while read < messages:
                read += len(consumer.poll())
        return read / (time.perf_counter() - began)


def run(name_server: str, rounds: int, messages: int) -> None:
    kinds = {
        "16 tasks": tasks,
        "tasks, batched": batched_tasks,
        "16 threads": plain,
        "threads, batched": batched,
        "16 futures": futures,
    }
    best: dict[str, float] = {}
    for number in range(rounds):
        for name, measure in kinds.items():
            found = measure(name_server, messages)
            best[name] = max(best.get(name, 0), found)
            print(f"round {number + 1}  {name:18} {found:10,.0f} messages/s")
        for name, singly in (("poll", False), ("iterate", True)):
            group = f"{name}-{number}"
            found = read_rate(name_server, group, messages, singly=singly)
            best[name] = max(best.get(name, 0), found)
            print(f"round {number + 1}  {name:18} {found:10,.0f} messages/s")
    print(f"\n{'':20}{'messages/s':>12}{'of 16 tasks':>14}")
    for name, found in best.items():
        share = "" if name in ("poll", "iterate") else f"{found / best['16 tasks']:14.2f}"
        print(f"{name:20}{found:12,.0f}{share}")
    for name, least in (("16 threads", 0.25), ("threads, batched", 0.7)):
        found = best[name] / best["16 tasks"]
        print(
            f"{name}: {found:.2f}, at least {least} {'TOO SLOW' * (found < least) or 'as wanted'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast blocking clients are.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=20_000)
    options, _ = parser.parse_known_args()  # the others are for the asyncio clients' benchmark
    with tempfile.TemporaryDirectory() as scratch, serving(Path(scratch)) as servers:
        run(servers.name_server, options.rounds, options.messages)


if __name__ == "__main__":
    main()
