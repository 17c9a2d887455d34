"""A broker killed while queues are consumed in order: each has the owner it had, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.support.asking import joining
from tests.faults.support.broker_process import Broker

from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.clients import LockBatch, QueueClaim, UnlockBatch
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing.servers import serving

pytestmark = pytest.mark.scenario


def claim(client_id: str, *queue_ids: int) -> QueueClaim:
    return QueueClaim(
        consumer_group="g",
        client_id=client_id,
        queues=tuple(
            MessageQueue(topic="t", broker_name="broker-a", queue_id=each) for each in queue_ids
        ),
    )


async def locked(broker: Broker, client_id: str, *queue_ids: int) -> list[int]:
    await broker.ask(joining("g", client_id))
    reply = await broker.ask(LockBatch(claim=claim(client_id, *queue_ids)))
    return [queue.queue_id for queue in reply.locked.queues]


async def test_whoever_asks_first_after_a_kill_gets_no_queue_that_is_anothers(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as servers:
        async with Caller() as caller:
            broker = Broker(caller, servers.broker)
            await broker.send("t", 0, b"0")
            assert await locked(broker, "a", 0, 1, 2) == [0, 1, 2]
            await broker.ask(UnlockBatch(claim=claim("a", 2)))
            assert await locked(broker, "b", 3) == [3]
            servers.process.kill()
        assert servers.process.wait() == -9
    for _ in range(2):  # the second time behind a clean stop
        with serving(tmp_path) as servers:
            async with Caller() as caller:
                broker = Broker(caller, servers.broker)
                assert await locked(broker, "b", 0, 1, 2, 3) == [2, 3]
                assert await locked(broker, "a", 0, 1) == [0, 1]
