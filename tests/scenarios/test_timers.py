"""Messages that show at a moment, with our own client, on a clock that is turned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.scenarios.support.sending_wire import all_bodies

from rocketpipe import Admin, Producer, Session
from rocketpipe.errors import PropertiesError, RequestRejected
from rocketpipe.testing import cluster
from rocketpipe.testing.clock import ManualClock

pytestmark = pytest.mark.scenario

#: Short, as a broker looks at its wheel ten times in each of its seconds.
WHILE_MS = 10_000


async def test_each_shows_at_its_moment_also_over_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with cluster(tmp_path, clock=clock) as servers:
        async with Producer(servers.name_server, clock=clock) as producer:
            now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
            await producer.send("t", b"a second", delay=1)
            await producer.send("t", b"two whiles", delay=timedelta(seconds=20))
            await producer.send("t", b"a moment", deliver_at=now + timedelta(seconds=10))
            await producer.send("t", b"a number", deliver_at=clock.now_ms() + 3 * WHILE_MS)
            await producer.send("t", b"passed", deliver_at=1)
            with pytest.raises(RequestRejected, match="timer message illegal"):
                await producer.send("t", b"too far", delay=timedelta(days=3, seconds=1))
            with pytest.raises(PropertiesError, match="has no zone"):
                await producer.send("t", b"where", deliver_at=datetime(2030, 1, 1))
        assert await all_bodies(servers.broker) == [b"passed"]
        await clock.advance(999)
        assert await all_bodies(servers.broker) == [b"passed"]
        await clock.advance(1)
        assert await all_bodies(servers.broker) == [b"a second", b"passed"]
    await clock.advance(15_000 - 1000)
    async with cluster(tmp_path, clock=clock) as servers:
        await clock.advance(100)
        assert await all_bodies(servers.broker) == [b"a moment", b"a second", b"passed"]
        await clock.advance(4000)
        assert len(await all_bodies(servers.broker)) == 3
        await clock.advance(2000)
        assert b"two whiles" in await all_bodies(servers.broker)
    async with cluster(tmp_path, clock=clock) as servers:
        await clock.advance(WHILE_MS)
        wanted = [b"a moment", b"a number", b"a second", b"passed", b"two whiles"]
        assert await all_bodies(servers.broker) == wanted


async def test_what_waits_is_listed_and_can_be_taken_back(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        cluster(tmp_path, clock=clock) as servers,
        Session(servers.name_server, clock=clock) as session,
        Producer(session) as producer,
        Admin(session) as admin,
    ):
        late = await producer.send("t", b"late", delay=20)
        soon = await producer.send("t", b"soon", deliver_at=clock.now_ms() + WHILE_MS)
        other = await producer.send("u", b"other", delay=5)
        await producer.send("t", b"at once")
        listed = await admin.waiting.timed()
        assert [each.message_id for each in listed] == [
            other.message_id,
            soon.message_id,
            late.message_id,
        ]
        assert listed[1].due_ms == clock.now_ms() + WHILE_MS
        assert listed[2].recall_handle == late.recall_handle
        assert [each.topic for each in await admin.waiting.timed(topic="u")] == ["u"]
        assert len(await admin.waiting.timed(limit=2)) == 2
        assert late.recall_handle is not None
        assert await producer.recall("t", late.recall_handle) == late.message_id
        with pytest.raises(RequestRejected, match="taken back before"):
            await producer.recall("t", late.recall_handle)
        assert [each.topic for each in await admin.waiting.timed()] == ["u", "t"]
        await clock.advance(3 * WHILE_MS)
        assert await all_bodies(servers.broker) == [b"at once", b"soon"]
        assert await admin.waiting.timed() == []
