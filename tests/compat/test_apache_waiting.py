"""Open transactions and timed messages, handed from our broker to Apache's and back again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.compat.support.apache import BROKER, CLUSTER, Apache
from tests.compat.test_apache_store import settings
from tests.scenarios.support.sending_wire import all_bodies

from rocketpipe import Admin, Decision, Producer, Session
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.record.codec import RecordView
from rocketpipe.store.config import StoreConfig

pytestmark = pytest.mark.compat

PATIENCE_S = 60
CHECK_MS = 1000


class Witness:
    """Says of a transaction what its body asks for, once it may."""

    def __init__(self) -> None:
        self.may_say: set[bytes] = set()
        self.asked: Counter[bytes] = Counter()

    def check(self, message: RecordView) -> Decision:
        self.asked[message.body] += 1
        if message.body not in self.may_say:
            return Decision.UNKNOWN
        return Decision.COMMIT if b"commit" in message.body else Decision.ROLLBACK

    async def until_asked(self, *bodies: bytes) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while any(not self.asked[body] for body in bodies):  # noqa: ASYNC110 - nobody tells when
                await asyncio.sleep(0.05)


@asynccontextmanager
async def producing(name_servers: str, witness: Witness) -> AsyncIterator[Producer]:
    async with Session(name_servers) as session:
        async with Producer(session, group="shop", check=witness.check) as producer:
            await session.routes.get("TBW102")
            await session.beat()
            yield producer


async def leave_open(producer: Producer, *bodies: bytes) -> None:
    for body in bodies:
        async with producer.transaction("t", body) as begun:
            begun.unknown()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - nobody tells when
            await asyncio.sleep(0.05)


def shows(address: str, *bodies: bytes) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return set(bodies) <= set(await all_bodies(address))

    return holds


def nothing_is_open(admin: Admin) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return not await admin.waiting.transactions()

    return holds


async def test_what_waits_at_one_broker_is_decided_and_delivered_by_the_other(
    apache: Apache, tmp_path: Path
) -> None:
    store = StoreConfig(
        root=tmp_path / "store",
        segment_bytes=1 << 20,
        queue_file_bytes=8000,
        index_slots=50,
        index_entries=200,
        timer_log_bytes=1 << 20,
    )
    witness = Witness()
    async with name_server(NamesrvConfig(port=0)) as name_servers:
        ours = BrokerConfig(
            data=store.root,
            name=BROKER,
            cluster=CLUSTER,
            name_servers=(name_servers,),
            port=0,
            store=store,
            transaction_timeout_ms=CHECK_MS,
            transaction_check_every_ms=CHECK_MS,
            transaction_check_max=1000,
        )
        async with broker(ours), producing(name_servers, witness) as producer:
            async with producer.transaction("t", b"ours, decided"):
                pass
            async with producer.transaction("t", b"ours, dropped") as begun:
                begun.rollback()
            await leave_open(producer, b"ours, commit", b"ours, drop")
            await witness.until_asked(b"ours, commit", b"ours, drop")
            await producer.send("t", b"ours, timed", delay=3)
            taken_back = await producer.send("t", b"ours, taken back", delay=8)
            assert taken_back.recall_handle is not None
            await producer.recall("t", taken_back.recall_handle)

        witness.asked.clear()
        theirs = apache.broker(
            tmp_path,
            name_servers,
            transactionTimeOut=CHECK_MS,
            transactionCheckInterval=CHECK_MS,
            transactionCheckMax=1000,
            # Else it asks about what it has decided itself, and commits it twice.
            transactionOpBatchInterval=100,
            **settings(store),
        )
        async with theirs as address, producing(name_servers, witness) as producer:
            witness.may_say |= {b"ours, commit", b"ours, drop"}
            await witness.until_asked(b"ours, commit", b"ours, drop")
            await until(shows(address, b"ours, decided", b"ours, commit", b"ours, timed"))
            async with producer.transaction("t", b"theirs, decided"):
                pass
            await leave_open(producer, b"theirs, commit", b"theirs, drop")
            await witness.until_asked(b"theirs, commit", b"theirs, drop")
            await producer.send("t", b"theirs, timed", delay=8)

        witness.asked.clear()
        witness.may_say |= {b"theirs, commit", b"theirs, drop"}
        async with (
            broker(ours) as address,
            producing(name_servers, witness),
            Admin(name_servers) as admin,
        ):
            await witness.until_asked(b"theirs, commit", b"theirs, drop")
            await until(shows(address, b"theirs, timed", b"theirs, commit"))
            await until(nothing_is_open(admin))
            assert await all_bodies(address) == [
                b"ours, commit",
                b"ours, decided",
                b"ours, timed",
                b"theirs, commit",
                b"theirs, decided",
                b"theirs, timed",
            ]
            assert set(witness.asked) == {b"theirs, commit", b"theirs, drop"}
