"""Clients that are opened and closed by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rocketpipe import Admin, Producer, PullConsumer, PushConsumer, Session, SimpleConsumer
from rocketpipe.client.lifetime import Lifetime
from rocketpipe.errors import SessionClosed

NOWHERE = "127.0.0.1:1"


def pushing(session: Session) -> PushConsumer:
    consumer = PushConsumer(session, group="g")
    consumer.subscribe("orders", lambda message: None)
    return consumer


MAKERS: dict[str, Callable[[Session], Any]] = {
    "producer": Producer,
    "admin": Admin,
    "pull": lambda session: PullConsumer(session, group="g"),
    "simple": lambda session: SimpleConsumer(session, group="g"),
    "push": pushing,
    "session": lambda session: session,
}


@pytest.mark.parametrize("kind", MAKERS)
async def test_what_is_opened_by_hand_is_closed_by_hand_however_often(kind: str) -> None:
    session = Session(NOWHERE)
    client: Lifetime = MAKERS[kind](session)
    await client.close()
    for _ in range(2):
        assert not client.is_open
        assert await client.open() is client
        assert client.is_open
        await asyncio.gather(client.close(), client.close())
        await client.close()
        assert not session.is_open


async def test_a_closed_producer_says_so() -> None:
    producer = await Producer(NOWHERE).open()
    await producer.close()
    with pytest.raises(SessionClosed):
        await producer.send("orders", b"x")


@pytest.mark.parametrize("kind", MAKERS)
def test_a_block_of_the_other_face_is_told_which_one_it_is(kind: str) -> None:
    client: Any = MAKERS[kind](Session(NOWHERE))
    with pytest.raises(TypeError, match="say `async with`; rocketpipe"):
        with client:
            pass
