"""What it costs to be measured: counting a send, and a scrape of very many topics and groups.

    python -m benchmarks.metrics counting [--sends 40000] [--rounds 7]
    python -m benchmarks.metrics scrape [--topics 10000] [--groups 10000]

Counting: two brokers run at once and get the same sends in turns; one of them has what counts for
metrics taken out. What is printed is the server's own CPU time, the best round of each and the
median of the differences of rounds that followed each other. Scraping: a broker in this process
that has had a message for each topic, and whose groups are each behind in one; CPU time of all of
the text, its size, and that of the longest piece, in which the broker does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.access_control import cpu_s, frames, prepare, send

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.metrics.families import families
from rocketpipe.metrics import pieces
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.groups import GroupList, UpdateAndCreateGroupList
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.protocol.requests.topics import TopicList, UpdateAndCreateTopicList
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing.servers import Servers, serving

_AT_ONCE: Final = 1000
#: Python runs this before anything else of a process: nothing is counted for metrics then.
UNCOUNTED: Final = """\
from rocketpipe.broker.counts import Counts

Counts.stored = Counts.answered = lambda *_, **__: None
"""


@contextmanager
def _uncounted(folder: Path) -> Iterator[None]:
    (folder / "sitecustomize.py").write_text(UNCOUNTED)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(folder) + (f"{os.pathsep}{before}" if before else "")
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def counting(sends: int, rounds: int) -> None:
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpipe-bench-")))
        running: dict[str, Servers] = {}
        for name in ("counted", "uncounted"):
            directory = scratch / name
            directory.mkdir()
            with _uncounted(directory) if name == "uncounted" else ExitStack():
                running[name] = stack.enter_context(serving(directory))
            asyncio.run(prepare(running[name], guarded=False))
        print(
            f"{'µs of the broker a send':24}{'uncounted':>11}{'counted':>9}{'more':>7}{'median':>8}"
        )
        made = frames(100)
        for at_once in (64, 16, 1):
            taken: dict[str, list[float]] = {name: [] for name in running}
            most = sends if at_once > 1 else sends // 4
            for turn in range(rounds):
                for name, servers in sorted(running.items(), reverse=bool(turn % 2)):
                    before = cpu_s(servers.process.pid)
                    send(servers.broker, made, most, at_once)
                    taken[name].append((cpu_s(servers.process.pid) - before) / most * 1e6)
            without, counted = min(taken["uncounted"]), min(taken["counted"])
            pairs = zip(taken["counted"], taken["uncounted"], strict=True)
            middle = median(one - other for one, other in pairs)
            row = f"100 B, {at_once} at a time"
            print(f"{row:24}{without:11.2f}{counted:9.2f}{counted - without:7.2f}{middle:8.2f}")


async def scrape(topics: int, groups: int) -> None:
    seen: list[Core] = []
    with tempfile.TemporaryDirectory(prefix="rocketpipe-bench-") as scratch:
        async with name_server(NamesrvConfig(port=0)) as names:
            store = StoreConfig.embedded(Path(scratch))
            config = BrokerConfig(data=Path(scratch), name_servers=(names,), port=0, store=store)
            async with broker(config, watch=seen.append) as address:
                await _fill(seen[0], address, topics, groups)
                for _ in range(3):
                    _scrape(seen[0], topics, groups)


async def _fill(core: Core, address: str, topics: int, groups: int) -> None:
    named = [f"topic-{number:05}" for number in range(topics)]
    members = [f"group-{number:05}" for number in range(groups)]
    async with Caller() as caller:
        for begin in range(0, topics, _AT_ONCE):
            some = tuple(
                TopicSettings(name=name, read_queues=1, write_queues=1)
                for name in named[begin : begin + _AT_ONCE]
            )
            await caller.call(
                address, UpdateAndCreateTopicList(wanted=TopicList(topics=some)), 120_000
            )
        for begin in range(0, groups, _AT_ONCE):
            made = tuple(GroupSettings(name=name) for name in members[begin : begin + _AT_ONCE])
            await caller.call(
                address, UpdateAndCreateGroupList(wanted=GroupList(groups=made)), 120_000
            )
        for begin in range(0, topics, 64):
            await asyncio.gather(
                *(
                    caller.call(address, _message(name), 120_000)
                    for name in named[begin : begin + 64]
                )
            )
    for number, member in enumerate(members):
        core.tables.offsets.commit(member, named[number % topics], 0, QueueOffset(0))
        core.stats.get(member, named[number % topics], 1, 100)


def _message(topic: str) -> SendMessage:
    return SendMessage(
        producer_group="bench",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties="",
        body=b"x" * 100,
    )


def _scrape(core: Core, topics: int, groups: int) -> None:
    begun, size, lines, longest = time.process_time(), 0, 0, 0.0
    at = time.process_time()
    for piece in pieces(families(core)):
        now = time.process_time()
        longest, at = max(longest, now - at), now
        size += len(piece)
        lines += piece.count("\n")
    taken = time.process_time() - begun
    print(
        f"{topics} topics, {groups} groups: {taken:.2f} s of CPU, {size / 1e6:.1f} MB, "
        f"{lines} lines, longest piece {longest * 1e3:.1f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("part", choices=["counting", "scrape"])
    parser.add_argument("--sends", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=10_000)
    options = parser.parse_args()
    if options.part == "counting":
        counting(options.sends, options.rounds)
    else:
        asyncio.run(scrape(options.topics, options.groups))


if __name__ == "__main__":
    main()
