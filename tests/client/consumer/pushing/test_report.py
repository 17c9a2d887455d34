"""What a push consumer tells of itself, from its own parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.client.consumer.support.records import messages, queue, record

from rocketpipe.client.consumer.group.offsets import BrokerOffsets
from rocketpipe.client.consumer.handling.handler_stats import HandlerStats
from rocketpipe.client.consumer.handling.handlers import Handlers, handler, subscription_to
from rocketpipe.client.consumer.outcome import Retry
from rocketpipe.client.consumer.pushing.claims import QueueClaims
from rocketpipe.client.consumer.pushing.held_queue import HeldQueue, Lease
from rocketpipe.client.consumer.pushing.report import PushReport
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.session import Session
from rocketpipe.errors import RecordError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.requests.running import DirectOutcome
from rocketpipe.testing.clock import ManualClock


class Consumer:
    """The parts of a consumer that holds two queues, and says of messages what a test wants."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.session = Session("127.0.0.1:1", clock=self.clock)
        self.counts = HandlerStats(self.clock)
        self.handlers = Handlers(1, "test", self.counts)
        self.handlers.add(handler("t", self.handle, tags=None, sql=None, batch=None))
        self.offsets = BrokerOffsets(self.session, "g")
        self.says: Any = None
        self.held = [HeldQueue(queue(0)), HeldQueue(queue(1, topic="u"), Lease(0))]
        self.report = PushReport(
            self.session,
            self.handlers,
            self.counts,
            cast("QueueClaims", SimpleNamespace(held=self.held)),
            self.offsets,
            [subscription_to("t", tags="A")],
            ordered=False,
            concurrency=7,
        )

    async def handle(self, message: ReceivedMessage) -> Any:
        await self.clock.advance(5)
        if isinstance(self.says, Exception) and not isinstance(self.says, Retry):
            raise self.says
        return self.says


@pytest.fixture
async def consumer() -> Consumer:
    return Consumer()


async def test_queues_are_told_with_what_is_in_hand(consumer: Consumer) -> None:
    consumer.held[0].messages.put(messages(4, 5, 6))
    consumer.offsets.update(queue(0), QueueOffset(4), increase_only=True)
    info = consumer.report.running_info(stacks=False)
    held = info.queues[queue(0)]
    assert (held.cached_msg_min_offset, held.cached_msg_max_offset) == (4, 6)
    assert (held.cached_msg_count, held.commit_offset, held.locked) == (3, 4, False)
    empty = info.queues[queue(1, topic="u")]
    assert (empty.cached_msg_count, empty.commit_offset, empty.locked) == (0, -1, True)
    assert info.properties["PROP_THREADPOOL_CORE_SIZE"] == "7"
    assert info.properties["PROP_NAMESERVER_ADDR"] == "127.0.0.1:1"
    assert [wanted.expression for wanted in info.subscriptions] == ["A"]
    assert info.stacks is None


async def test_what_an_ordered_consumer_has_taken_is_in_hand_too(consumer: Consumer) -> None:
    held = consumer.held[0].messages
    held.put(messages(4, 5, 6))
    held.take(2)
    assert held.ends == (4, 6)
    held.take(1)
    assert held.ends == (4, 6)


async def test_places_are_those_of_one_topic(consumer: Consumer) -> None:
    consumer.offsets.update(queue(0), QueueOffset(4), increase_only=True)
    consumer.offsets.update(queue(1, topic="u"), QueueOffset(5), increase_only=True)
    assert consumer.report.places("t") == {queue(0): 4}
    assert consumer.report.places("none") == {}


@pytest.mark.parametrize(
    ("says", "outcome", "remark"),
    [
        (None, DirectOutcome.CR_SUCCESS, None),
        (False, DirectOutcome.CR_LATER, "the handler returned False"),
        (Retry("soon"), DirectOutcome.CR_LATER, "soon"),
        (KeyError("k"), DirectOutcome.CR_THROW_EXCEPTION, "KeyError: 'k'"),
    ],
)
async def test_a_message_on_demand_is_handled_and_its_fate_told(
    consumer: Consumer, says: Any, outcome: DirectOutcome, remark: str | None
) -> None:
    consumer.says = says
    result = await consumer.report.consume(record(3), "broker-a")
    assert (result.outcome, result.remark, result.spent_ms) == (outcome, remark, 5)
    assert consumer.report.running_info(stacks=False).rates["t"].consume_rt == 5


async def test_what_has_no_handler_or_is_no_record_is_told(consumer: Consumer) -> None:
    bare = PushReport(
        consumer.session,
        Handlers(1, "none"),
        consumer.counts,
        cast("QueueClaims", SimpleNamespace(held=[])),
        consumer.offsets,
        [],
        ordered=True,
        concurrency=1,
    )
    result = await bare.consume(record(3), "broker-a")
    assert result.outcome is DirectOutcome.CR_THROW_EXCEPTION
    assert "no handler for topic 't'" in (result.remark or "")
    with pytest.raises(RecordError):
        await bare.consume(b"nonsense", "broker-a")
