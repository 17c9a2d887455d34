"""Batches that show all at once, or never, with real servers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from tests.pipeline.support.sinks import read_topic

from rocketpipe import Producer
from rocketpipe.blocking import Producer as BlockingProducer
from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.client.producer.staging.stages import Batch, Committer, StageWriter
from rocketpipe.client.session import Session
from rocketpipe.errors import BatchMismatch, RequestRejected
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server as namesrv
from rocketpipe.protocol.requests.staging import (
    CommitStages,
    PrepareStages,
    Share,
    StageList,
    write_plan,
)
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.store.config import StoreConfig
from rocketpipe.testing import cluster

pytestmark = pytest.mark.scenario


async def test_a_batch_shows_at_the_end_of_its_block_and_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer(servers.name_server) as producer:
        async with producer.staged("billing", 7) as batch:
            for number in range(2000):
                await batch.send(
                    "bills", b"%04d" % number, keys=[f"k{number}"], order_by=number % 10
                )
            await batch.send("bills", b"%04d" % 2000, tags="last")
            assert await read_topic(servers.name_server, "bills") == []
        assert batch.was_committed is False
        found = await read_topic(servers.name_server, "bills")
        assert sorted(int(message.body) for message in found) == list(range(2001))
        for queue_id in range(4):
            numbers = [int(m.body) for m in found if m.queue_id == queue_id and m.tags is None]
            for key in range(10):
                ordered = [number for number in numbers if number % 10 == key]
                assert ordered == sorted(ordered)
        async with producer.staged("billing", 7) as again:
            for number in reversed(range(2000)):
                await again.send(
                    "bills", b"%04d" % number, keys=[f"k{number}"], order_by=number % 10
                )
            await again.send("bills", b"%04d" % 2000, tags="last")
        assert again.was_committed is True
        async with producer.staged("billing", 7, on_repeat="skip") as other:
            await other.send("bills", b"not a second time")
        assert other.was_committed is True
        with pytest.raises(BatchMismatch, match=r"2001 messages to bills then, 1 messages to bu"):
            async with producer.staged("billing", 7) as wrong:
                await wrong.send("bugs", b"not under this name")
        assert await read_topic(servers.name_server, "bugs") == []
        with pytest.raises(ValueError, match=r"on_repeat 'never': "):
            producer.staged("billing", 7, on_repeat="never")  # type: ignore[arg-type]
        with suppress(LookupError):
            async with producer.staged("billing", 8) as failing:
                await failing.send("bills", b"never")
                raise LookupError
        assert failing.was_committed is None
        async with producer.staged("billing", 9):
            pass
        assert len(await read_topic(servers.name_server, "bills")) == 2001


async def test_only_the_stages_named_show_and_the_others_of_the_batch_are_gone(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as servers, Session(servers.name_server) as session:
        batch = Batch("job", 0)
        route = await session.routes.get_for_send("named")
        queue = route.writable_queues("named")[1]
        address = session.leader_of(queue, route)
        winner, loser = (StageWriter(session, "g", batch) for _ in range(2))
        for writer, body in ((winner, b"kept"), (loser, b"dropped")):
            ticket = writer.ticket(queue)
            part = encode_batch([Entry(0, body, b"")])
            await writer.put(ticket, part, 1, address, 3000)
            await writer.put(ticket, part, 1, address, 3000)  # as after an answer that got lost
        committer = Committer(session, "g", 3000)
        assert await committer.is_served()
        home = queue.broker_name
        with pytest.raises(RequestRejected, match="has 1 parts here, not 2"):
            await committer.commit(batch, {home: {winner.name: 2}})
        with pytest.raises(RequestRejected, match="no stage 'nobody'"):
            await committer.commit(batch, {home: {winner.name: 1, "nobody": 1}})
        assert await committer.commit(batch, {home: {winner.name: 1}}) is True
        assert await committer.commit(batch, {home: {winner.name: 1}}) is False
        assert await committer.commit(batch, {home: {loser.name: 1}}) is False
        found = await read_topic(servers.name_server, "named")
        assert [(message.body, message.queue_id) for message in found] == [(b"kept", 1)]
        late = StageWriter(session, "g", batch)
        await late.put(late.ticket(queue), encode_batch([Entry(0, b"x", b"")]), 1, address, 3000)
        assert late.committed_at == {home}
        bad = StageWriter(session, "g", Batch("a\x01b", 0))
        with pytest.raises(RequestRejected, match="has 1 to 255 characters"):
            await bad.put(bad.ticket(queue), encode_batch([Entry(0, b"x", b"")]), 1, address, 3000)


async def test_threads_stage_too(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers:

        def work() -> tuple[bool | None, bool | None]:
            with BlockingProducer(servers.name_server) as producer:
                with producer.staged("threads", 0) as first:
                    first.send("woven", b"x")
                with producer.staged("threads", 0) as second:
                    second.send("woven", b"x")
            return first.was_committed, second.was_committed

        assert await asyncio.to_thread(work) == (False, True)
        found = await read_topic(servers.name_server, "woven")
        assert [message.body for message in found] == [b"x"]


async def test_a_batch_at_two_brokers_is_completed_as_it_was_decided(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(namesrv(NamesrvConfig(port=0)))
        for name in ("broker-a", "broker-b"):
            config = BrokerConfig(
                name=name,
                port=0,
                data=tmp_path / name,
                name_servers=(name_server,),
                store=StoreConfig.embedded(tmp_path / name),
            )
            await stack.enter_async_context(broker(config))
        session = await stack.enter_async_context(Session(name_server))
        route = await session.routes.get_for_send("spread")
        queues = {queue.broker_name: queue for queue in route.writable_queues("spread")}
        assert set(queues) == {"broker-a", "broker-b"}

        async def stage(batch: Batch, body: bytes, *brokers: str) -> StageWriter:
            writer = StageWriter(session, "g", batch)
            for name in brokers:
                ticket = writer.ticket(queues[name])
                part = encode_batch([Entry(0, body, b"")])
                await writer.put(ticket, part, 1, session.leader_of(queues[name], route), 3000)
            return writer

        batch = Batch("app", 0)
        first = await stage(batch, b"first", "broker-a", "broker-b")
        committer = Committer(session, "g", 3000)
        # The driver dies between the two brokers: the second never heard of it.
        decided = write_plan({"broker-b": Share(stages={first.name: 1})})
        await session.caller.call(
            session.leader_of(queues["broker-a"], route),
            CommitStages(
                producer_group="g",
                application="app",
                batch=0,
                named=StageList(stages={first.name: 1}, plan=decided),
            ),
        )
        assert len(await read_topic(name_server, "spread")) == 1
        # It does all of it again, and this time all of it goes to the second broker.
        again = await stage(batch, b"again", "broker-b", "broker-b")
        plan = {name: {again.name: parts} for name, parts in again.parts.items()}
        assert await committer.commit(batch, plan) is False
        found = await read_topic(name_server, "spread")
        assert [message.body for message in found] == [b"first", b"first"]


async def test_a_broker_that_was_away_finds_out_what_was_decided(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(namesrv(NamesrvConfig(port=0)))

        def config(name: str) -> BrokerConfig:
            return BrokerConfig(
                name=name,
                port=0,
                data=tmp_path / name,
                name_servers=(name_server,),
                store=StoreConfig.embedded(tmp_path / name),
                staged_expiry_ms=1000,
            )

        await stack.enter_async_context(broker(config("broker-a")))
        session = await stack.enter_async_context(Session(name_server))
        async with broker(config("broker-b")):
            route = await session.routes.get_for_send("away")
            queues = {queue.broker_name: queue for queue in route.writable_queues("away")}
            writer = StageWriter(session, "g", Batch("app", 0))
            where = {name: session.leader_of(queue, route) for name, queue in queues.items()}
            for name, queue in queues.items():
                part = encode_batch([Entry(0, name.encode(), b"")])
                await writer.put(writer.ticket(queue), part, 1, where[name], 3000)
            prepare = PrepareStages(
                producer_group="g",
                application="app",
                batch=0,
                home="broker-a",
                named=StageList(stages={writer.name: 1}, token="t"),
            )
            await session.caller.call(where["broker-b"], prepare)
        # The writer gets as far as the broker that decides, and is never seen again.
        commit = CommitStages(
            producer_group="g",
            application="app",
            batch=0,
            named=StageList(
                stages={writer.name: 1},
                plan=write_plan({"broker-b": Share(stages={writer.name: 1})}),
                token="t",
            ),
        )
        await session.caller.call(where["broker-a"], commit)
        assert [message.body for message in await read_topic(name_server, "away")] == [b"broker-a"]
        async with broker(config("broker-b")):
            found = await read_topic(name_server, "away")
            async with asyncio.timeout(60):
                while len(found) < 2:
                    found = await read_topic(name_server, "away")
            assert sorted(message.body for message in found) == [b"broker-a", b"broker-b"]
