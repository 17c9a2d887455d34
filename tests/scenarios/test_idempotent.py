"""A handler whose effect happens once, in a consumer that is killed again and again."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.scenarios.support.consuming import PATIENCE_S, create_topic
from tests.scenarios.support.members import both_servers

from rocketpipe import Producer

pytestmark = pytest.mark.scenario

CHILD = """
import asyncio, sys
from rocketpipe import ConsumeFromWhere, PushConsumer
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.idempotent import Idempotent, Sql, SqliteLedger

async def main():
    consumer = PushConsumer(
        sys.argv[1],
        group="billing",
        start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        concurrency=3,
        # Offsets are hardly ever saved, so that each life begins where the last one did.
        tuning=PushTuning(persist_every_ms=600_000),
    )
    once = Idempotent(SqliteLedger(sys.argv[2]), name="billing", key=lambda m: m.keys[0])

    def bill(message):
        return [
            Sql("insert into bills values (?)", (message.keys[0],)),
            Sql("update total set cents = cents + 1"),
        ]

    @consumer.on("orders")
    async def handle(message):
        print("got", message.keys[0], flush=True)
        await once(bill)(message)
        print("done", message.keys[0], flush=True)

    async with consumer:
        await consumer.closed()

asyncio.run(main())
"""


async def test_kill_9_makes_redeliveries_and_none_of_them_counts(tmp_path: Path) -> None:
    chance = random.Random(9)
    path = tmp_path / "bills.db"
    with sqlite3.connect(path) as database:
        database.execute("create table bills (id text)")
        database.execute("create table total (cents integer)")
        database.execute("insert into total values (0)")
    database.close()
    orders = [f"order-{number}" for number in range(40)]
    deliveries: Counter[str] = Counter()
    async with both_servers(tmp_path / "data") as servers:
        await create_topic(servers.broker, "orders", 3)
        async with Producer(servers.name_server) as producer:
            for order in orders:
                await producer.send("orders", b"bill", keys=[order])
                if chance.random() < 0.3:  # a producer that did not hear its answer sends again
                    await producer.send("orders", b"bill", keys=[order])
        done: set[str] = set()

        def note(line: bytes) -> None:
            word, order = line.decode().split()
            if word == "got":
                deliveries[order] += 1
            else:
                done.add(order)

        for life in range(5):
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                CHILD,
                servers.name_server,
                str(path),
                stdout=subprocess.PIPE,
            )
            assert child.stdout is not None
            lines_left = chance.randrange(5, 40)
            async with asyncio.timeout(PATIENCE_S):
                while lines_left > 0 if life < 4 else done != set(orders):
                    note(await child.stdout.readline())
                    lines_left -= 1
            child.send_signal(signal.SIGKILL)
            rest, _ = await child.communicate()
            for line in rest.splitlines(keepends=True):
                if line.endswith(b"\n"):  # the last may have been cut off by the kill
                    note(line)
    with sqlite3.connect(path) as database:
        billed = sorted(row[0] for row in database.execute("select id from bills"))
        ((cents,),) = database.execute("select cents from total")
    database.close()
    assert deliveries.total() > len(orders), "without redeliveries this would show nothing"
    assert billed == sorted(orders)
    assert cents == len(orders)
