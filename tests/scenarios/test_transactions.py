"""Transactions with our own client, from the send to the consumer, on a clock that is turned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.scenarios.support.sending_wire import all_bodies
from tests.waiting import PATIENCE_S

from rocketpipe import Admin, Decision, Producer, Session
from rocketpipe.model.names import CHECK_MAX_TIME_TOPIC
from rocketpipe.record.codec import RecordView
from rocketpipe.testing import Cluster, cluster
from rocketpipe.testing.clock import ManualClock

pytestmark = pytest.mark.scenario

ROUND_MS = 30_000
CHECKS = 15


class Witness:
    """What a producer's check was asked, and what it said."""

    def __init__(self, decision: Decision = Decision.UNKNOWN) -> None:
        self.decision = decision
        self.asked: asyncio.Queue[RecordView] = asyncio.Queue()

    async def check(self, message: RecordView) -> Decision:
        self.asked.put_nowait(message)
        return self.decision

    async def next(self) -> RecordView:
        async with asyncio.timeout(PATIENCE_S):
            return await self.asked.get()


@asynccontextmanager
async def producing(
    servers: Cluster, clock: ManualClock, witness: Witness | None = None
) -> AsyncIterator[Producer]:
    """A producer of the group, that the broker knows."""
    check = witness.check if witness else None
    async with Session(servers.name_server, clock=clock) as session:
        async with Producer(session, group="shop", check=check) as producer:
            await session.routes.get("TBW102")
            await session.beat()
            yield producer


async def test_the_block_decides_and_each_message_shows_once_or_never(tmp_path: Path) -> None:
    clock = ManualClock()
    async with cluster(tmp_path, clock=clock) as servers, producing(servers, clock) as producer:
        async with producer.transaction("t", b"left normally", keys=["k"], tags="A") as begun:
            assert begun.sent is not None
            assert await all_bodies(servers.broker) == []
        with pytest.raises(LookupError):
            async with producer.transaction("t", b"left by an error"):
                raise LookupError
        async with producer.transaction("t", b"rolled back by hand") as begun:
            begun.rollback()

        async def execute(_: object) -> Decision:
            return Decision.COMMIT

        given = await producer.send_in_transaction("t", b"executed", execute=execute)
        assert given is Decision.COMMIT
        assert await all_bodies(servers.broker) == [b"executed", b"left normally"]
        async with Admin(servers.name_server) as admin:
            assert await admin.waiting.transactions() == []


async def test_the_whole_schedule_of_checks_and_what_is_left_at_its_end(tmp_path: Path) -> None:
    clock, witness = ManualClock(), Witness()
    async with (
        cluster(tmp_path, clock=clock) as servers,
        producing(servers, clock, witness) as producer,
        Session(servers.name_server, clock=clock) as session,
        Admin(session) as admin,
    ):
        begun_ms = clock.now_ms()
        async with producer.transaction("t", b"open") as begun:
            begun.unknown()
        for number in range(1, CHECKS + 1):
            await clock.advance(ROUND_MS)
            asked = await witness.next()
            assert asked.message_id == begun.message_id
            assert (asked.topic, asked.body) == ("t", b"open")
            (listed,) = await admin.waiting.transactions()
            assert (listed.checks, listed.group, listed.topic) == (number, "shop", "t")
            assert (listed.message_id, listed.age_ms) == (
                begun.message_id,
                clock.now_ms() - begun_ms,
            )
        await clock.advance(ROUND_MS)
        async with asyncio.timeout(PATIENCE_S):
            while await admin.waiting.transactions():
                pass
        assert await all_bodies(servers.broker, CHECK_MAX_TIME_TOPIC, 1) == [b"open"]
        await clock.advance(3 * ROUND_MS)
        assert witness.asked.empty()
        assert await all_bodies(servers.broker) == []


@pytest.mark.parametrize("decision", [Decision.COMMIT, Decision.ROLLBACK])
async def test_a_producer_that_is_gone_is_asked_through_another_of_its_group(
    tmp_path: Path, decision: Decision
) -> None:
    clock, witness = ManualClock(), Witness(decision)
    async with cluster(tmp_path, clock=clock) as servers:
        async with producing(servers, clock) as gone:
            async with gone.transaction("t", b"inherited") as begun:
                begun.unknown()
        async with producing(servers, clock, witness), Admin(servers.name_server) as admin:
            await clock.advance(ROUND_MS)
            assert (await witness.next()).message_id == begun.message_id
            async with asyncio.timeout(PATIENCE_S):
                while await admin.waiting.transactions():
                    pass
            wanted = [b"inherited"] if decision is Decision.COMMIT else []
            assert await all_bodies(servers.broker) == wanted
            await clock.advance(3 * ROUND_MS)
            assert witness.asked.empty()


async def test_a_broker_that_starts_anew_knows_what_is_open(tmp_path: Path) -> None:
    clock, witness = ManualClock(), Witness()
    async with (
        cluster(tmp_path, clock=clock) as servers,
        producing(servers, clock, witness) as producer,
    ):
        async with producer.transaction("t", b"decided"):
            pass
        async with producer.transaction("t", b"open") as begun:
            begun.unknown()
        await clock.advance(ROUND_MS)
        await witness.next()
    witness.decision = Decision.COMMIT
    async with (
        cluster(tmp_path, clock=clock) as servers,
        producing(servers, clock, witness),
        Admin(servers.name_server) as admin,
    ):
        (listed,) = await admin.waiting.transactions()
        assert (listed.message_id, listed.checks) == (begun.message_id, 1)
        await clock.advance(ROUND_MS)
        asked = await witness.next()
        assert asked.properties["TRANSACTION_CHECK_TIMES"] == "2"
        async with asyncio.timeout(PATIENCE_S):
            while await admin.waiting.transactions():
                pass
        assert await all_bodies(servers.broker) == [b"decided", b"open"]
