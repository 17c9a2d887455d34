"""A cluster in which something has happened: what the console's pages are shown with."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

from tests.waiting import PATIENCE_S

from rocketpipe import (
    DEAD_LETTER,
    Admin,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from rocketpipe.client.producer.transactions import Decision
from rocketpipe.testing.servers import Servers

#: Names and bodies that someone might send who means no good.
HOSTILE = '<img src=x onerror="document.title=1">'


@dataclass(frozen=True)
class Shop:
    """What was made: the NameServer, and a message that was traced."""

    name_server: str
    traced_id: str


async def filled(servers: Servers | str, *, orders: int = 60) -> Shop:
    """Have topics, groups, dead letters, delayed and half messages, and a trace."""
    name_server = servers if isinstance(servers, str) else servers.name_server
    async with Admin(name_server) as admin:
        for topic, queues in (("orders", 4), ("payments", 2), ("refunds", 1)):
            await admin.topics.create(topic, queues=queues, if_missing=True)
        for group in ("billing", "audit", "shop"):
            await admin.groups.create(group, if_missing=True)
        async with Producer(name_server, trace=True) as producer:
            traced = await producer.send("payments", b'{"payment": 1}', keys=["P1"], tags="paid")
            for number in range(orders):
                body = json.dumps({"order": number, "total": number * 1.25, "who": "Ünal 王"})
                await producer.send(
                    "orders",
                    body.encode(),
                    tags="paid" if number % 3 else "open",
                    keys=[f"A{number}"],
                    properties={"total": str(number), "note": HOSTILE},
                )
            await producer.send("orders", HOSTILE.encode(), keys=["XSS"], tags="open")
            await producer.send("orders", bytes(range(256)), keys=["BIN"], tags="open")
            await producer.send(Message("orders", b"later", delay_ms=3_600_000, keys=["L1"]))
        await _left_open(name_server)
        for topic in ("orders", "payments"):
            await admin.offsets.move_to_ends("billing", topic, newest=False)
            await admin.offsets.move_to_ends("audit", topic, newest=True)
        await admin.offsets.move_to_ends("shop", "orders", newest=False)
    await _given_up(name_server, 5)
    return Shop(name_server, traced.message_id)


async def _left_open(name_server: str) -> None:
    async with (
        Producer(name_server, group="tellers", check=lambda _: Decision.UNKNOWN) as producer,
        producer.transaction("payments", b"half", keys=["H1"]) as begun,
    ):
        begun.unknown()


async def _given_up(name_server: str, count: int) -> None:
    consumer = PushConsumer(name_server, group="shop", trace=True)
    seen: list[str] = []
    enough = asyncio.Event()

    @consumer.on("orders")
    async def refuse(message: ReceivedMessage) -> object:
        seen.append(message.message_id)
        if len(seen) >= count:
            enough.set()
        return DEAD_LETTER if len(seen) <= count else None

    async with consumer:
        async with asyncio.timeout(PATIENCE_S):
            await enough.wait()
