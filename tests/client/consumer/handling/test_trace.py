"""What is told of a handler's calls."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rocketpipe.client.consumer.handling.handlers import Handlers, handler
from rocketpipe.client.consumer.handling.trace import HandlingTrace
from rocketpipe.client.consumer.outcome import Retry
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.session import Session
from rocketpipe.client.tracing import Tracer
from rocketpipe.model import properties
from rocketpipe.model.host import Host
from rocketpipe.model.message import Message, StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.trace import Consumed, Consuming, Outcome, TraceRecord, decode
from rocketpipe.record.codec import encode_record
from rocketpipe.testing import ManualClock


def message(number: int, topic: str = "t", **named: str) -> ReceivedMessage:
    host = Host.parse("10.0.0.1:5")
    record = encode_record(
        StoredMessage(
            topic=topic,
            body=b"x",
            raw_properties=properties.encode_bytes(
                {"UNIQ_KEY": f"M{number}", "KEYS": "k", "MSG_REGION": "Oslo", **named}
            ),
            queue_id=0,
            queue_offset=QueueOffset(number),
            log_offset=LogOffset(number),
            born_ms=1,
            born_host=host,
            stored_ms=1,
            store_host=host,
            reconsume_times=2,
        )
    )
    return ReceivedMessage(record, MessageQueue(topic=topic, broker_name="a", queue_id=0))


class Told:
    """Handlers whose calls are told, and all that was told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sent: list[Message] = []
        self.tracer = Tracer(self._send, self.clock, topic="traces")
        self.handlers = Handlers(1, "test")
        session = Session("127.0.0.1:1", clock=self.clock)
        self.handlers.trace = HandlingTrace(self.tracer, session, "g", 1000)

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    async def call(self, handle: object, messages: Sequence[ReceivedMessage]) -> list[TraceRecord]:
        chosen = handler(messages[0].topic, handle, tags=None, sql=None, batch=8)
        await self.handlers.call(chosen, messages)
        await self.tracer.flush()
        return [record for sent in self.sent for record in decode(sent.body.decode())]


async def test_a_call_is_told_before_and_after_under_one_request() -> None:
    told = Told()

    async def handle(messages: list[ReceivedMessage]) -> None:
        await told.clock.advance(40)
        raise Retry(done=1)

    records = await told.call(handle, [message(1), message(2)])
    starts = [record for record in records if isinstance(record, Consuming)]
    ends = [record for record in records if isinstance(record, Consumed)]
    assert len({record.request_id for record in (*starts, *ends)}) == 1
    assert [(each.message_id, each.region, each.group, each.retries) for each in starts] == [
        ("M1", "Oslo", "g", 2),
        ("M2", "Oslo", "g", 2),
    ]
    assert [(each.message_id, each.success, each.outcome, each.cost_ms) for each in ends] == [
        ("M1", True, Outcome.SUCCESS, 20),
        ("M2", False, Outcome.FAILED, 20),
    ]
    assert {key for sent in told.sent for key in sent.keys} == {"M1", "M2", "k"}


@pytest.mark.parametrize(
    ("takes_ms", "error", "outcome"),
    [
        (999, None, Outcome.SUCCESS),
        (1000, None, Outcome.TIME_OUT),
        (0, OSError(), Outcome.EXCEPTION),
    ],
)
async def test_how_a_call_ended_is_said(
    takes_ms: int, error: Exception | None, outcome: Outcome
) -> None:
    told = Told()

    async def handle(messages: list[ReceivedMessage]) -> None:
        await told.clock.advance(takes_ms)
        if error is not None:
            raise error

    *_, last = await told.call(handle, [message(1)])
    assert isinstance(last, Consumed)
    assert (last.outcome, last.success) == (outcome, error is None)


async def test_nothing_is_told_of_traces_or_where_the_broker_wants_none() -> None:
    async def handle(messages: list[ReceivedMessage]) -> None: ...

    assert await Told().call(handle, [message(1, "traces")]) == []
    assert await Told().call(handle, [message(1, TRACE_ON="false")]) == []
    assert len(await Told().call(handle, [message(1, TRACE_ON="true")])) == 2
