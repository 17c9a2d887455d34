"""Sends that observers are told of, at a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rocketpipe import Message, Producer, Session, SimpleConsumer
from rocketpipe.client.observers import Observer, Receiving, Sending
from rocketpipe.testing import cluster

pytestmark = pytest.mark.scenario


class Stamping(Observer):
    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []
        self.received = 0

    @contextmanager
    def sending(self, what: Sending) -> Iterator[None]:
        what.messages[:] = [replace(each, properties={"by": "us"}) for each in what.messages]
        yield
        self.told.append((len(what.messages), len(what.results)))

    @contextmanager
    def receiving(self, what: Receiving) -> Iterator[None]:
        yield
        self.received += len(what.messages)


async def test_every_kind_of_send_carries_what_an_observer_adds(tmp_path: Path) -> None:
    stamping = Stamping()
    async with (
        cluster(tmp_path) as servers,
        Session(servers.name_server, observers=[stamping]) as session,
        Producer(session) as producer,
    ):
        await producer.send("orders", b"one", order_by="a")
        await producer.send_batch([Message("orders", b"two"), Message("orders", b"three")])
        await producer.send_oneway("orders", b"four")
        async with producer.transaction("orders", b"five"):
            pass
        async with SimpleConsumer(session, group="shop") as consumer:
            await consumer.subscribe("orders")
            found: dict[bytes, str] = {}
            while len(found) < 5:
                for message in await consumer.receive():
                    found[message.body] = message.properties["by"]
    assert set(found.values()) == {"us"}
    assert stamping.told == [(1, 1), (2, 2), (1, 0), (1, 0)]
    assert stamping.received >= 5
