"""A broker killed in the middle of popping: acknowledged never again, everything else again.

``ROCKETPIPE_KILLS`` says how often.
"""

from __future__ import annotations

import asyncio
import os
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.faults.support.broker_process import FINISH_S, Broker, Scenario, live_and_die

from rocketpipe.client.consumer.popped import PoppedMessage, popped
from rocketpipe.clock import SystemClock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.names import revive_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import GetMaxOffset
from rocketpipe.protocol.requests.popping import AckMessage, ChangeInvisibleTime, PopMessage
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing.servers import serving

KILLS = max(2, int(os.environ.get("ROCKETPIPE_KILLS", "20")) // 10)
TOPIC = "t"
GROUP = "g"
COUNT = 8
#: Longer than a life, so that nothing is shown again before the broker is back.
INVISIBLE_MS = 3_600_000


class Pops(Scenario):
    """Each worker sends, pops, and acknowledges half; a few are shown again at once."""

    span = (20, 80)

    def __init__(self, *, ordered: bool) -> None:
        self._ordered = ordered
        self._numbers = count()
        self._sent: set[bytes] = set()
        self._acked: set[bytes] = set()
        #: What a worker asked to be done with, and heard nothing of: either may be true.
        self._unsure: set[bytes] = set()
        self._twice: list[bytes] = []
        self._held: dict[bytes, PoppedMessage] = {}
        self._lost_answers = 0

    async def step(self, broker: Broker, worker: int) -> None:
        body = b"%d" % next(self._numbers)
        await broker.send(TOPIC, worker, body)
        self._sent.add(body)
        queue_id = worker if self._ordered else -1
        for message in await self._pop(broker, queue_id):
            if self._ordered or int(message.body) % 2:
                await self._ack(broker, message)
            elif int(message.body) % 8 == 0:
                await self._show(broker, message)
        self.progress += 1

    async def _pop(self, broker: Broker, queue_id: int, wait_ms: int = 0) -> list[PoppedMessage]:
        self._lost_answers += 1
        reply = await broker.ask(
            PopMessage(
                consumer_group=GROUP,
                topic=TOPIC,
                queue_id=queue_id,
                max_msg_nums=COUNT,
                invisible_time=INVISIBLE_MS,
                poll_time=wait_ms,
                born_time=SystemClock().now_ms(),
                init_mode=0,
                order=self._ordered,
            )
        )
        self._lost_answers -= 1
        messages = popped(reply, TOPIC, "broker-a") if reply.code == 0 else []
        self._held.update((each.body, each) for each in messages)
        self._twice += [each.body for each in messages if each.body in self._acked]
        return messages

    async def _ack(self, broker: Broker, message: PoppedMessage) -> None:
        self._unsure.add(message.body)
        await broker.ask(AckMessage(**_named(message)))
        self._acked.add(message.body)
        self._unsure.discard(message.body)

    async def _show(self, broker: Broker, message: PoppedMessage) -> None:
        try:
            await broker.ask(ChangeInvisibleTime(**_named(message), invisible_time=0))
        except RequestRejected as error:
            if error.code != ResponseCode.NO_MESSAGE:
                raise

    async def check(self, broker: Broker) -> None:
        assert not self._twice, "acknowledged, and given again"

    async def finish(self, broker: Broker) -> None:
        """Receipts are good after all those kills, and what was not acknowledged comes again."""
        left = self._sent - self._acked - self._unsure
        for body in left & self._held.keys():
            if self._ordered:
                await self._ack(broker, self._held[body])
            else:
                await self._show(broker, self._held[body])
        found: set[bytes] = set()
        for queue_id in range(4) if self._ordered else [-1]:
            empty = 0
            while empty < 3:  # what comes again is not looked at by every pop
                messages = await self._pop(broker, queue_id, 300)
                empty = 0 if messages else empty + 1
                for message in messages:
                    found.add(message.body)
                    if self._ordered:
                        await self._ack(broker, message)
        await self.check(broker)
        if self._ordered:
            return  # what a lost answer gave holds up its queue until its time is over
        missing = left - found - self._acked
        # Those in answers that a kill cut off are hidden still, and nobody has their receipts.
        assert len(missing) <= COUNT * self._lost_answers
        assert not missing & self._held.keys()


def _named(message: PoppedMessage) -> dict[str, Any]:
    handle = message.handle
    return {
        "consumer_group": GROUP,
        "topic": handle.retry.topic(TOPIC, GROUP),
        "queue_id": handle.queue_id,
        "extra_info": str(handle),
        "offset": QueueOffset(handle.queue_offset or 0),
    }


@pytest.mark.scenario
@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "in order"])
async def test_what_was_acknowledged_is_never_given_again(tmp_path: Path, *, ordered: bool) -> None:
    await live_and_die(tmp_path, Pops(ordered=ordered), KILLS)


@pytest.mark.scenario
async def test_a_new_groups_first_pop_comes_again_though_the_broker_is_killed_at_once(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as servers:
        async with Caller() as caller:
            broker = Broker(caller, servers.broker)
            await broker.send(TOPIC, 0, b"0")
            reply = await broker.ask(_ask_for("brand-new", 1_000))
            servers.process.kill()
            assert [each.body for each in popped(reply, TOPIC, "broker-a")] == [b"0"]
        assert servers.process.wait() == -9
    with serving(tmp_path) as servers:
        async with Caller() as caller:
            broker = Broker(caller, servers.broker)
            async with asyncio.timeout(FINISH_S):
                while await _notes(broker) < 2:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.05)
            reply = await broker.ask(_ask_for("brand-new", 1_000))
            while reply.code != ResponseCode.SUCCESS:
                reply = await broker.ask(_ask_for("brand-new", 1_000))
            assert [each.body for each in popped(reply, TOPIC, "broker-a")] == [b"0"]


async def _notes(broker: Broker) -> int:
    """How many notes of pops there are; the second one is the end of the first."""
    topic = revive_topic("DefaultCluster")
    ends = [await broker.ask(GetMaxOffset(topic=topic, queue_id=each)) for each in range(8)]
    return sum(each.offset for each in ends)


def _ask_for(group: str, invisible_ms: int) -> PopMessage:
    return PopMessage(
        consumer_group=group,
        topic=TOPIC,
        queue_id=-1,
        max_msg_nums=COUNT,
        invisible_time=invisible_ms,
        poll_time=1_000,
        born_time=SystemClock().now_ms(),
        init_mode=0,
    )
