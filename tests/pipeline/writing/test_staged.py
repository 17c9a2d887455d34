"""Parcels that show with the commit, at a real broker."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest
from tests.client.support.moving_broker import moving_broker
from tests.pipeline.support.sinks import messages_in, read_topic

from rocketpipe.client.producer.staging.stages import Batch
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected
from rocketpipe.pipeline.options.write import WriteOptions
from rocketpipe.pipeline.writing.sender import SendUnit, TaskSender
from rocketpipe.pipeline.writing.staged import StagedSink, application, commit, is_served
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.testing import Cluster

TOPIC = "sink-staged"


def stage(servers: Cluster, batch: Batch, *bodies: bytes) -> tuple[str, dict[str, int]]:
    """One attempt that stages each body: the first alone, the others as batches."""
    session = Session(servers.name_server)
    name = str(uuid.uuid4())
    way = StagedSink(session, "sparks", batch, name)
    with TaskSender(WriteOptions(servers.name_server), session, way) as outlet:
        queue = outlet.queues(TOPIC)[2]
        outlet.send(SendUnit(TOPIC, bodies[0], 1, "A" * 32, 17, "KEYS\x01k\x02"), queue)
        for body in bodies[1:]:
            outlet.send(SendUnit(TOPIC, encode_batch([Entry(0, body, b"")]), 1, "B" * 32, 18))
        outlet.finish()
    return name, dict(way.parts)


def test_what_is_staged_shows_with_its_commit_and_once(servers: Cluster) -> None:
    options, batch = WriteOptions(servers.name_server), Batch("spark", 3)
    loser, winner = (stage(servers, batch, b"alone", b"one", b"two") for _ in range(2))
    assert sum(winner[1].values()) == 3
    assert messages_in(servers.name_server, TOPIC) == []
    assert asyncio.run(commit(options, batch, [winner])) is True
    assert asyncio.run(commit(options, batch, [winner])) is False
    again = stage(servers, batch, b"alone", b"one", b"two")
    assert asyncio.run(commit(options, batch, [again])) is False
    found = messages_in(servers.name_server, TOPIC)
    assert sorted(message.body for message in found) == [b"alone", b"one", b"two"]
    [alone] = [message for message in found if message.body == b"alone"]
    assert (alone.queue_id, alone.keys, alone.born_ms) == (2, ("k",), 17)
    with pytest.raises(RequestRejected, match="there is no stage"):
        asyncio.run(commit(options, Batch("spark", 4), [loser]))


def test_the_name_says_what_is_written_where() -> None:
    query = "3cb1003a-ff6a-4ae6-8cff-a35ef8adfb1e"
    named = [
        application("job", None, "orders"),
        application("job", None, "bills"),
        application("job", None, None),
        application("job", query, "orders"),
        application(None, query, "orders"),
        application("j" * 255, query, "orders"),
        application("j" * 255, query, "bills"),
    ]
    assert named[0] == "job/orders"
    assert len(set(named)) == len(named)
    assert max(map(len, named)) == 255


def test_a_broker_of_ours_serves_it(servers: Cluster) -> None:
    async def ask() -> bool:
        async with Session(servers.name_server) as session:
            return await is_served(WriteOptions(servers.name_server), session)

    assert asyncio.run(ask())


async def test_a_task_goes_on_at_the_next_leader(tmp_path: Path) -> None:
    async with moving_broker(tmp_path, **{TOPIC: 4}) as moving:
        batch, name, options = (
            Batch("spark", 1),
            str(uuid.uuid4()),
            WriteOptions(moving.name_server),
        )
        session = Session(moving.name_server)
        way = StagedSink(session, "sparks", batch, name)
        sender = TaskSender(options, session, way)
        await asyncio.to_thread(sender.__enter__)

        def send(body: bytes) -> None:
            sender.send(SendUnit(TOPIC, encode_batch([Entry(0, body, b"")]), 1, "B" * 32, 18))

        try:
            await asyncio.to_thread(send, b"one")
            await asyncio.to_thread(sender.finish)
            await moving.register(1, "127.0.0.1:1")  # a follower, who stays in the routes
            await moving.stop()
            going_on = asyncio.create_task(moving.start_and_lead())
            for body in (b"two", b"three"):
                await asyncio.to_thread(send, body)
            await asyncio.to_thread(sender.finish)
            await going_on
        finally:
            await asyncio.to_thread(sender.__exit__, None, None, None)
        assert await commit(options, batch, [(name, dict(way.parts))])
        found = await read_topic(moving.name_server, TOPIC)
        assert sorted(each.body for each in found) == [b"one", b"three", b"two"]
