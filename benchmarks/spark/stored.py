"""Stores that the benchmarks read: the same rows in a few queues, or in many."""

from __future__ import annotations

import json
from pathlib import Path

from rocketpipe.clock import SystemClock
from rocketpipe.model.host import Host
from rocketpipe.pipeline.log.directory import LogDirectory
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore

TOPIC = "bench"
QUEUES = 4
TAGS = ("created", "paid", "shipped", "cancelled")


def fill(root: Path, rows: int, queues: int = QUEUES) -> float:
    """Write a store; gives the mean size of a record."""
    host = Host.parse("127.0.0.1:10911").pack()
    store = MessageStore.open(
        StoreConfig.embedded(
            root, segment_bytes=1 << 28, queue_file_bytes=6_000_000 if queues <= 16 else 200_000
        ),
        disk=Disk(),
        clock=SystemClock(),
        store_host=host,
    )
    for first in range(0, rows, 500):
        numbers = range(first, min(first + 500, rows))
        store.append([[_message(number, host, queues)] for number in numbers])
        store.dispatch()
    store.close()
    (root / "config").mkdir(exist_ok=True)
    table = {
        TOPIC: {"topicName": TOPIC, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
    }
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    with LogDirectory(root) as directory:
        ends = [directory.ends(TOPIC, number)[1] for number in range(queues)]
        total = sum(directory.queue(TOPIC, n).bytes_of(0, ends[n]) for n in range(queues))
    assert sum(ends) == rows
    return total / rows


def _message(number: int, host: bytes, queues: int) -> Put:
    names = f"KEYS\x01order-{number}\x02TAGS\x01{TAGS[number % len(TAGS)]}\x02"
    return Put(
        topic=TOPIC,
        queue_id=number // 50 % queues,
        body=b'{"id":%d,"p":%d.5}' % (number, number % 977),
        properties=f"{names}UNIQ_KEY\x017F0000012A9FDEAD{number:016X}\x02".encode(),
        flag=0,
        sys_flag=0,
        born_ms=1_700_000_000_000 + number,
        born_host=host,
    )
