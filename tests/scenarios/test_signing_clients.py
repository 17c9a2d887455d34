"""Our own clients with credentials, against servers that ask for them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.scenarios.test_access_control import Place, place

from rocketpipe import Admin, Message, Producer, PullConsumer, PushConsumer, Session, SimpleConsumer
from rocketpipe.auth.credentials import Credentials
from rocketpipe.errors import AccessDenied

__all__ = ["place"]


def session(place: Place, by: Credentials) -> Session:
    return Session(place.name_server, access_key=by.access_key, secret_key=by.secret)


async def test_producers_and_consumers_sign_whatever_they_ask(place: Place) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    reader = await place.user("reader", Topic="orders:Sub", Group="*:Sub")
    async with session(place, writer) as mine, Producer(mine, group="pg") as producer:
        for number in range(20):
            await producer.send("orders", b"%d" % number, tags="a")
        await producer.send_batch([Message("orders", b"b1"), Message("orders", b"b2")])
        await producer.send("orders", b"x" * 100_000)  # compressed
    got: set[bytes] = set()
    enough = asyncio.Event()

    async def handle(message: object) -> None:
        got.add(message.body)  # type: ignore[attr-defined]
        if len(got) == 23:
            enough.set()

    async with session(place, reader) as theirs:
        consumer = PushConsumer(theirs, group="push", start="first")
        consumer.subscribe("orders", handle)
        async with consumer:
            await asyncio.wait_for(enough.wait(), 30)
        async with PullConsumer(theirs, group="pull", start="first") as puller:
            await puller.subscribe("orders")
            pulled = 0
            while pulled < 23:
                pulled += len(await puller.poll(timeout_ms=5000))
        async with SimpleConsumer(theirs, group="simple", start="first") as simple:
            await simple.subscribe("orders")
            received = await simple.receive(max_messages=4, wait_ms=5000)
            for message in received:
                await simple.ack(message)
    assert received


async def test_who_may_not_is_told_who_and_what(place: Place) -> None:
    writer = await place.user("writer", Topic="orders:Pub")
    async with session(place, writer) as mine, Producer(mine, group="pg") as producer:
        await producer.send("orders", b"x")
        with pytest.raises(AccessDenied) as error:
            await producer.send("other", b"x")
    assert (error.value.user, error.value.resource) == ("writer", "Topic:other")
    assert "rocketpipe acl grant writer --topic other" in error.value.hint
    wrong = Credentials("writer", place.core.gate.users.get("root").secret)  # type: ignore[union-attr]
    async with session(place, wrong) as mine, Producer(mine, group="pg") as producer:
        with pytest.raises(AccessDenied, match="User:writer"):
            await producer.send("orders", b"x")


async def test_the_environment_says_who_it_is(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.user("writer", Topic="orders:Pub")
    key = tmp_path / "writer.key"
    key.write_text("the-secret-of-writer\n")
    async with Producer(place.name_server, group="pg") as producer:
        with pytest.raises(AccessDenied) as error:
            await producer.send("orders", b"x")
    assert "ROCKETPIPE_ACCESS_KEY" in error.value.hint
    monkeypatch.setenv("ROCKETPIPE_ACCESS_KEY", "writer")
    monkeypatch.setenv("ROCKETPIPE_SECRET_KEY_FILE", str(key))
    async with Producer(place.name_server, group="pg") as producer:
        await producer.send("orders", b"x")


async def test_an_operator_administers(place: Place) -> None:
    root = Credentials("root", place.core.gate.users.get("root").secret)  # type: ignore[union-attr]
    async with session(place, root) as mine, Admin(mine) as admin:
        await admin.topics.create("made", queues=2)
        assert "made" in await admin.topics.names()
