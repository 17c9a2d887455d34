"""Parcels to a real broker, as any producer's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.pipeline.support.sinks import messages_in

from rocketpipe import Producer
from rocketpipe.client.session import Session
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.options.write import WriteOptions
from rocketpipe.pipeline.writing.direct import DirectSink, shown
from rocketpipe.pipeline.writing.sender import SendUnit, TaskSender
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.testing import Cluster


def test_batches_and_single_messages_are_stored(servers: Cluster) -> None:
    session = Session(servers.name_server)
    way = DirectSink(session, "sparks")
    batch = encode_batch([Entry(0, b"one", b"TAGS\x01t\x02"), Entry(0, b"two", b"")])
    with TaskSender(WriteOptions(servers.name_server), session, way) as outlet:
        outlet.send(SendUnit("sink-direct", memoryview(batch), 2, "A" * 32, 17))
        outlet.finish()
        queue = outlet.queues("sink-direct")[1]
        outlet.send(SendUnit("sink-direct", b"alone", 1, "B" * 32, 18, "KEYS\x01k\x02"), queue)
        outlet.finish()
    found = {message.body: message for message in messages_in(servers.name_server, "sink-direct")}
    assert set(found) == {b"one", b"two", b"alone"}
    assert found[b"one"].tags == "t"
    assert found[b"one"].born_ms == 17
    assert (found[b"alone"].queue_id, found[b"alone"].keys) == (1, ("k",))
    assert way.unsure == 0
    ends = {each.queue_id: end for each, end in way.ends.items()}
    assert sum(ends.values()) == 3
    assert ends[1] >= 1


def test_what_waits_for_its_moment_is_not_waited_for(servers: Cluster) -> None:
    session = Session(servers.name_server)
    way = DirectSink(session, "sparks")
    with TaskSender(WriteOptions(servers.name_server), session, way) as outlet:
        outlet.send(
            SendUnit("sink-late", b"later", 1, "C" * 32, 17, "KEYS\x01k\x02DELAY\x0118\x02")
        )
        moment = f"__STARTDELIVERTIME\x01{session.clock.now_ms() + 3_600_000}\x02"
        outlet.send(SendUnit("sink-late", b"then", 1, "E" * 32, 17, f"KEYS\x01k\x02{moment}"))
        outlet.finish()
        assert way.ends == {}
        outlet.send(SendUnit("sink-late", b"now", 1, "D" * 32, 17, "KEYS\x01DELAY\x02"))
        outlet.finish()
    assert list(way.ends.values()) == [1]


async def test_rows_are_waited_for_until_they_show(
    servers: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = asyncio.Semaphore(0)
    look = Session.ends_of

    async def counted(session: Session, queue: MessageQueue, address: Any = None) -> Any:
        found = await look(session, queue, address)
        looks.release()
        return found

    monkeypatch.setattr(Session, "ends_of", counted)
    async with Producer(servers.name_server) as producer:
        first = await producer.send("sink-awaited", b"one")
        waiting = asyncio.create_task(
            shown(servers.name_server, {first.queue: first.queue_offset + 2})
        )
        for _ in range(3):
            await looks.acquire()
        assert not waiting.done()
        await producer.send("sink-awaited", b"two", queue=first.queue)
    assert await waiting
    assert not caplog.records
    assert not await shown(servers.name_server, {first.queue: 9}, patience_ms=0)
    nowhere = MessageQueue(topic="sink-nowhere", broker_name="broker-a", queue_id=0)
    assert not await shown(servers.name_server, {nowhere: 1}, patience_ms=0)
    assert "rows are stored but do not show yet queues=1" in caplog.text
