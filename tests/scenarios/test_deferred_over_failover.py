"""What a broker keeps for later, when another one leads by then: half messages, delays, timers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.support.elected_group import ElectedGroup, elected_group
from tests.scenarios.support.sending_wire import all_messages
from tests.waiting import PATIENCE_S, until

from rocketpipe import Decision, Producer, Session
from rocketpipe.clock import SystemClock
from rocketpipe.errors import RequestRejected
from rocketpipe.record.codec import RecordView

pytestmark = pytest.mark.scenario

CLOCK = SystemClock()


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[ElectedGroup]:
    async with elected_group(tmp_path) as made:
        yield made


async def shown(group: ElectedGroup, count: int) -> Counter[bytes]:
    """What the leader shows of the topic, once it is that many messages or more."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            leader = group.replicas[await group.leader()]
            found = Counter(each.body for each in await all_messages(leader.address))
            if found.total() >= count:
                return found
            await asyncio.sleep(0.02)


class Witness:
    """Decides what it is asked about, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def check(self, message: RecordView) -> Decision:
        self.asked.append(message.body)
        return Decision.ROLLBACK if message.body.startswith(b"no") else Decision.COMMIT


async def test_transactions_are_decided_once_whoever_leads(group: ElectedGroup) -> None:
    leader = await group.three(transaction_check_every_ms=300, transaction_timeout_ms=600_000)
    witness = Witness()
    async with (
        Session(group.name_server, timeout_ms=10_000) as session,
        Producer(session, group="shop", timeout_ms=10_000, check=witness.check) as producer,
    ):
        async with producer.transaction("t", b"committed before"):
            pass
        async with producer.transaction("t", b"rolled back before") as begun:
            begun.rollback()
        for body in (b"open", b"not to be"):
            async with producer.transaction("t", body, immunity_s=1) as begun:
                begun.unknown()
        async with producer.transaction("t", b"committed behind"):
            leader = await group.lose(leader)
        async with producer.transaction("t", b"rolled back behind") as begun:
            leader = await group.lose(leader)
            begun.rollback()
        await session.beat()
        await until(lambda: {b"open", b"not to be"} <= set(witness.asked))
        want = Counter([b"committed before", b"open", b"committed behind"])
        assert await shown(group, 3) == want
        await group.in_sync(1, 2, 3)
        await group.lose(leader)
        assert await shown(group, 3) == want


async def test_what_waits_shows_once_and_never_early(group: ElectedGroup) -> None:
    leader = await group.three()
    async with Producer(group.name_server, timeout_ms=10_000) as producer:
        due_ms: dict[bytes, int] = {}
        for number in range(40):
            body, at_ms = b"timer %d" % number, CLOCK.now_ms() + 1000 + 50 * number
            await producer.send("t", body, deliver_at=at_ms)
            due_ms[body] = at_ms
        for number in range(10):
            body = b"level %d" % number
            due_ms[body] = CLOCK.now_ms() + 1000
            await producer.send("t", body, delay_level=1)
        # One that would show while the others do, and two that can be asked about at leisure.
        soon, late, later = [
            (await producer.send("t", b"recalled", delay=delay)).recall_handle or ""
            for delay in (2, 600, 600)
        ]
        await producer.recall("t", soon)
        await producer.recall("t", late)
        leader = await group.lose(leader)
        with pytest.raises(RequestRejected, match="taken back before"):
            await producer.recall("t", late)
        await producer.recall("t", later)
        await group.in_sync(1, 2, 3)
        await group.lose(leader)
        assert await shown(group, 50) == Counter(due_ms.keys())
        messages = await all_messages(group.replicas[await group.leader()].address)
    assert [each.body for each in messages if each.stored_ms < due_ms[each.body]] == []
