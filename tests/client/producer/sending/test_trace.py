"""What is told about sends."""

from __future__ import annotations

from rocketpipe.client.producer.result import Stored
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.client.producer.sending.sender import result_of
from rocketpipe.client.producer.sending.trace import SendingTrace, Trace
from rocketpipe.model.message import Message
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.trace import Published, TracedKind, decode
from rocketpipe.testing import ManualClock

QUEUE = MessageQueue(topic="t", broker_name="a", queue_id=0)


def stored(*, traced: bool = True) -> Stored:
    return Stored(True, "0B", QUEUE, 3, "Oslo", None, traced)


async def told(*messages: Message, traced: bool = True) -> list[Published]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    clock = ManualClock()
    trace = SendingTrace(Trace("g", "traces"), clock, send, lambda queue: f"{queue.broker_name}:1")
    outs = [Outgoing(message, "0A" * 16, 7, 100) for message in messages]
    began_ms = trace.now_ms()
    await clock.advance(10)
    answer = stored(traced=traced)
    trace.tell(outs, [result_of(out, answer) for out in outs], answer, began_ms)
    await trace.tracer.flush()
    assert {message.topic for message in sent} <= {"traces"}
    records = [record for message in sent for record in decode(message.body.decode())]
    return [record for record in records if isinstance(record, Published)]


async def test_each_message_is_told_of_with_its_share_of_the_time() -> None:
    first, second = await told(
        Message("t", b"xyz", tags="paid", keys=["k1", "k2"]), Message("t", b"x", delay_level=1)
    )
    assert (first.group, first.topic, first.tags, first.keys) == ("g", "t", "paid", "k1 k2")
    assert (first.store_host, first.region, first.body_bytes) == ("a:1", "Oslo", 3)
    assert [first.cost_ms, second.cost_ms] == [5, 5]
    assert [first.kind, second.kind] == [TracedKind.NORMAL, TracedKind.DELAYED]


async def test_a_broker_that_wants_no_trace_gets_none() -> None:
    assert await told(Message("t", b"x"), traced=False) == []
