"""Two stores that have to be the same, and everything that leaves something in one.

A log and its queues are compared as files, so it does not matter whose they are. Both brokers may
be running: what they have written, they have written to the same memory as this reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tests.broker.support.replica_group import Running
from tests.compat.support.apache import BROKER

from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.consumer.pulling.loop import pull_request
from rocketpipe.client.consumer.simple import SimpleConsumer
from rocketpipe.client.producer.producer import Producer
from rocketpipe.client.producer.transactions import Decision, Transaction
from rocketpipe.model.message import Message
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.brokers import GetBrokerRuntimeInfo
from rocketpipe.remoting.caller import Caller

PATIENCE_S = 120
ENTRY_BYTES = 20
#: Files so small that there are several, which both brokers are told.
SEGMENT_BYTES = 1 << 20
QUEUE_FILE_BYTES = 600 * ENTRY_BYTES

ORDERS, RETRIED = "orders", "retried"
PLACES, POPS = "places-group", "pops-group"


def log_of(store: Path) -> dict[int, bytes]:
    """The files of a log, by their first offset."""
    return {int(each.name): each.read_bytes() for each in (store / "commitlog").iterdir()}


def queues_of(store: Path) -> dict[str, bytes]:
    """Each queue from its first place in the files that are there, without the unused end."""
    found: dict[str, bytes] = {}
    for directory in sorted((store / "consumequeue").glob("*/*")):
        content = b"".join(each.read_bytes() for each in sorted(directory.iterdir()))
        used = len(content.rstrip(b"\0"))
        if used:
            name = f"{directory.parent.name}/{directory.name}"
            found[name] = content[: -(-used // ENTRY_BYTES) * ENTRY_BYTES]
    return found


def differences(one: Path, other: Path, *, end: int, begin: int = 0) -> list[str]:
    """What is not the same in two stores: bytes of the log up to its end, entries of queues.

    From ``begin`` on: whoever started with the last file has nothing from before.
    """
    said: list[str] = []
    logs = log_of(one), log_of(other)
    for base in sorted(logs[0]):
        if begin <= base < end:
            size = min(end - base, len(logs[0][base]))
            mine, theirs = (log.get(base, b"")[:size] for log in logs)
            if mine != theirs:
                same = next(at for at in range(size) if mine[at : at + 1] != theirs[at : at + 1])
                said.append(f"log file {base} from {base + same} on, of {base + size}")
    mine, theirs = queues_of(one), queues_of(other)
    for name in sorted(mine.keys() | theirs.keys()):
        first, second = (_entries(each.get(name, b""), begin) for each in (mine, theirs))
        if first != second:
            said.append(f"queue {name}: {len(first)} and {len(second)} entries")
    return said


def _entries(queue: bytes, begin: int) -> Mapping[int, bytes]:
    """The entries of a queue that point behind an offset, by that offset."""
    cut = (queue[at : at + ENTRY_BYTES] for at in range(0, len(queue), ENTRY_BYTES))
    entries = {int.from_bytes(each[:8], "big"): each for each in cut if any(each[8:12])}
    # Apache marks the places before the first with entries of the largest size.
    return {
        at: each
        for at, each in entries.items()
        if at >= begin and each[8:12] != b"\x7f\xff\xff\xff"
    }


async def until_copied(master: str, store: Path, slave: Running, *, begin: int = 0) -> None:
    """Wait until a slave of ours has all that a master of Apache's has, which is at an address."""
    left = ["not looked yet"]
    try:
        async with asyncio.timeout(PATIENCE_S), Caller() as caller:
            while left:
                await asyncio.sleep(0.2)
                told = await caller.call(master, GetBrokerRuntimeInfo())
                end = int(told.values.table["commitLogMaxOffset"])
                root = slave.core.store.config.root
                left = [] if slave.log_end == end else [f"it ends at {slave.log_end} of {end}"]
                left = left or differences(store, root, end=end, begin=begin)
    except TimeoutError:
        raise AssertionError(f"the slave differs: {left}") from None


async def check_pulls(one: str, other: str, topic: str, queues: int) -> None:
    """See that two brokers give readers the same bytes."""
    async with Caller() as caller:
        for queue_id in range(queues):
            queue = MessageQueue(topic=topic, broker_name=BROKER, queue_id=queue_id)
            at, count = QueueOffset(0), 0
            while True:
                asked = pull_request("comparers", queue, at, "*", suspend_ms=0)
                first, second = [await caller.call(each, asked) for each in (one, other)]
                assert first.messages == second.messages
                if not first.messages:
                    break
                count += first.next_begin_offset - at
                at = first.next_begin_offset
            assert count > 0


async def send_everything(name_server: str, word: str, *, singles: int = 200) -> None:
    """Send what makes records of each kind: plain, batches, delayed, timed, transactions."""
    async with Producer(name_server, group=f"{word}-makers") as producer:
        for number in range(singles):
            body = f"{word} {number} ".encode() * (1 + number % 40)
            await producer.send(
                ORDERS, body, tags=f"tag-{number % 3}", keys=[f"{word}-{number}", "größe"]
            )
        for size in (2, 7, 30):
            await producer.send_batch(
                [Message(ORDERS, b"%d of a batch" % at) for at in range(size)]
            )
        await producer.send(ORDERS, b"compressed " * 9_000)
        await producer.send("delayed", b"soon", delay_level=1)
        await producer.send("delayed", b"much later", delay_level=18)
        await producer.send("timed", b"soon", delay_ms=1500)
        await producer.send("timed", b"much later", delay_ms=600_000)
        for decision in Decision:

            async def execute(_: Transaction, given: Decision = decision) -> Decision:
                return given

            await producer.send_in_transaction("decided", b"half", execute=execute)


async def consume_some(name_server: str, *, pops: bool = True) -> dict[int, int]:
    """Leave offsets of a group, pop marks and acks if wanted; gives the offsets by queue."""
    async with PullConsumer(name_server, group=PLACES) as consumer:
        await consumer.subscribe(ORDERS)
        seen = 0
        while seen < 100:
            seen += len(await consumer.poll(1000))
        await consumer.commit()
        offsets = {queue.queue_id: int(at) for queue, at in consumer.positions().items()}
    if pops:
        async with SimpleConsumer(name_server, group=POPS) as popping:
            await popping.subscribe(ORDERS)
            popped = await popping.receive(max_messages=10)
            await popping.ack(popped[:5])
    return offsets
