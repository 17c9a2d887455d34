"""What a group asks brokers about popped messages, against a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketpipe import Producer, Session
from rocketpipe.client.consumer.group.start import StartFrom
from rocketpipe.client.consumer.handling.handlers import subscription_to
from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.client.consumer.popping.popper import Popper, Source
from rocketpipe.errors import NoRoute, ReceiptExpired
from rocketpipe.model.subscription import ConsumeFromWhere
from rocketpipe.testing import cluster

pytestmark = pytest.mark.scenario

FIRST = StartFrom(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with cluster(tmp_path) as servers, Session(servers.name_server) as shared:
        async with Producer(shared) as producer:
            for number in range(6):
                await producer.send("t", b"%d" % number, order_by="one", tags="AB"[number % 2])
        yield shared


async def pop(popper: Popper, tags: str | None = None) -> list[PoppedMessage]:
    (source,) = await popper.sources("t")
    return await popper.pop(
        source, subscription_to("t", tags=tags), count=32, invisible_ms=60_000, wait_ms=0
    )


async def test_a_popped_message_is_hidden_acknowledged_and_then_unknown(session: Session) -> None:
    popper = Popper(session, "g", FIRST)
    messages = await pop(popper)
    assert len(messages) == 6
    first = messages[0]
    before = first.handle
    await popper.hide(first, 50_000)
    assert first.handle != before
    await popper.ack(messages[1:])
    await popper.ack([first])
    first.handle = before
    with pytest.raises(ReceiptExpired) as expired:
        await popper.hide(first, 1)
    assert expired.value.hint
    assert await pop(popper) == []


async def test_those_of_other_tags_are_not_given(session: Session) -> None:
    popper = Popper(session, "g", FIRST)
    assert [each.body for each in await pop(popper, "B")] == [b"1", b"3", b"5"]
    assert await pop(popper) == []


async def test_it_waits_without_taking(session: Session) -> None:
    popper = Popper(session, "g", FIRST)
    (source,) = await popper.sources("t")
    assert await popper.wait(source, 1000)
    assert len(await pop(popper)) == 6
    assert not await popper.wait(source, 1)


async def test_a_broker_that_is_not_there_is_said_so(session: Session) -> None:
    popper = Popper(session, "g", FIRST)
    with pytest.raises(NoRoute):
        await popper.wait(Source("t", "elsewhere"), 1)
    with pytest.raises(NoRoute):
        await popper.sources("nothing")
