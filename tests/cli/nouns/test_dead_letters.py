"""``rocketpipe dlq`` against real servers: from given up to replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rocketpipe import DEAD_LETTER, PullConsumer, PushConsumer, ReceivedMessage
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]


async def give_up(name_server: str, count: int) -> None:
    """Have group ``shop`` give up so many messages of ``orders``."""
    consumer = PushConsumer(name_server, group="shop")
    seen: list[str] = []
    enough = asyncio.Event()

    @consumer.on("orders")
    async def refuse(message: ReceivedMessage) -> object:
        seen.append(message.message_id)
        if len(seen) >= count:
            enough.set()
        return DEAD_LETTER

    async with consumer:
        await asyncio.wait_for(enough.wait(), 60)


async def consumed(name_server: str, topic: str, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async with PullConsumer(name_server, group="reader") as consumer:
        await consumer.assign(await consumer.queues_of(topic))
        await consumer.seek_to_begin()
        while len(found) < count:
            found += await consumer.poll(timeout_ms=10_000)
    return found


def test_dead_letters_are_shown_and_replayed_once(
    servers: Servers, command: Command, answer: Answer
) -> None:
    assert answer("dlq", "list") == []
    for verb in (("show", "shop"), ("replay", "shop", "--all", "--yes")):
        assert "no group 'shop'" in command("dlq", *verb, code=1)
    command("topic", "create", "orders", "-q", "1")
    command("group", "create", "shop")
    assert answer("dlq", "show", "shop") == []
    command("offsets", "reset", "shop", "orders", "--to", "earliest", "--yes")
    sent = [
        *answer("message", "send", "orders", "order 1", "--tag", "paid", "--key", "A1"),
        *answer("message", "send", "orders", "order 2", "--property", "colour=red"),
    ]
    asyncio.run(give_up(servers.name_server, 2))

    assert answer("dlq", "list") == [{"group": "shop", "letters": 2, "replayed": 0}]
    letters = answer("dlq", "show", "shop")
    assert {each["body"] for each in letters} == {"order 1", "order 2"}
    assert {each["origin"] for each in letters} == {"orders"}
    assert [each["replayed"] for each in letters] == [False, False]

    plan = answer("dlq", "replay", "shop", "--all", "--dry-run")
    assert [each["plan"] for each in plan] == ["would be replayed"] * 2
    assert "not confirmed" in command("dlq", "replay", "shop", "--all", code=1)
    assert "no dead letter nobody" in command("dlq", "replay", "shop", "--id", "nobody", code=2)

    (first,) = answer("dlq", "replay", "shop", "--id", sent[0]["message_id"], "--yes")
    assert first["outcome"] == "replayed"
    outcomes = {
        each["message_id"]: each["outcome"]
        for each in answer("dlq", "replay", "shop", "--all", "-y")
    }
    assert outcomes == {
        sent[0]["message_id"]: "replayed before",
        sent[1]["message_id"]: "replayed",
    }
    shown = command("dlq", "replay", "shop", "--all", "--to-topic", "--yes")
    assert shown.endswith("0 replayed, 2 replayed before, 0 failed\n")
    assert [each["replayed"] for each in answer("dlq", "show", "shop")] == [True, True]

    again = asyncio.run(consumed(servers.name_server, "%RETRY%shop", 2))
    assert {each.body for each in again} == {b"order 1", b"order 2"}
    assert {each.topic for each in again} == {"orders"}
    assert [each.reconsume_times for each in again] == [0, 0]
    (red,) = [each for each in again if each.body == b"order 2"]
    assert red.properties["colour"] == "red"
    assert "DLQ_REASON" not in red.properties

    assert answer("dlq", "list") == [{"group": "shop", "letters": 2, "replayed": 2}]
    assert {"level": "ok", "detail": "2, all replayed"}.items() <= doctors_word(answer).items()
    asked = "2 dead letters of group 'shop', of which 0 were not replayed"
    assert command("dlq", "purge", "shop", "--dry-run") == f"would be purged: {asked}\n"
    assert "not confirmed" in command("dlq", "purge", "shop", code=1)
    assert command("dlq", "purge", "shop", "--yes") == f"purged: {asked}\n"
    assert answer("dlq", "list") == answer("dlq", "show", "shop") == []
    assert doctors_word(answer)["detail"] == "none"
    assert "no group 'nobody'" in command("dlq", "purge", "nobody", "--yes", code=1)

    answer("message", "send", "orders", "order 3")
    asyncio.run(give_up(servers.name_server, 3))  # with the two replays
    assert answer("dlq", "list") == [{"group": "shop", "letters": 3, "replayed": 0}]
    assert "dlq replay shop --all" in doctors_word(answer)["remedy"]


def doctors_word(answer: Answer) -> dict[str, str]:
    (found,) = [each for each in answer("doctor") if each["what"] == "dead letters of shop"]
    return dict(found)
