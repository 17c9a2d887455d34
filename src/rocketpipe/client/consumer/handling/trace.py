"""Tells what handlers did with messages, as records of a topic of traces.

Each call of a handler is told twice: before it, and after it with how long it took and how it
ended. Both have the same request id. Messages whose broker does not want traces are left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from rocketpipe.background import running
from rocketpipe.client.consumer.outcome import Outcome
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.producer.producer import Producer
from rocketpipe.client.session import Session
from rocketpipe.client.tracing import Tracer
from rocketpipe.model import properties
from rocketpipe.model.trace import Consumed, Consuming
from rocketpipe.model.trace import Outcome as Ended

#: Whom brokers take the sender of traces for; as Java's clients call it.
TRACE_GROUP: Final = "_INNER_TRACE_PRODUCER"


class Told(NamedTuple):
    """A call of a handler of which the beginning was told."""

    request_id: str
    began_ms: int
    messages: Sequence[ReceivedMessage]


class HandlingTrace:
    """Tells of the handlers of one group."""

    def __init__(self, tracer: Tracer, session: Session, group: str, timeout_ms: int) -> None:
        """Take where records go; a call that takes ``timeout_ms`` or more counts as timed out."""
        self._tracer = tracer
        self._session = session
        self._group = group
        self._timeout_ms = timeout_ms

    def before(self, messages: Sequence[ReceivedMessage]) -> Told:
        """A handler is about to be called."""
        now_ms = self._session.clock.now_ms()
        request_id = self._session.keys.next(now_ms)
        for message in messages:
            if self._is_traced(message):
                self._tracer.add(
                    Consuming(
                        time_ms=now_ms,
                        region=message.properties.get(properties.MSG_REGION),
                        group=self._group,
                        request_id=request_id,
                        message_id=message.message_id,
                        retries=message.reconsume_times,
                        keys=message.properties.get(properties.KEYS),
                    )
                )
        return Told(request_id, self._session.clock.monotonic_ms(), messages)

    def after(self, told: Told, outcome: Outcome) -> None:
        """The handler is back."""
        took_ms = self._session.clock.monotonic_ms() - told.began_ms
        now_ms = self._session.clock.now_ms()
        for at, message in enumerate(told.messages):
            if self._is_traced(message):
                done = at < outcome.done
                self._tracer.add(
                    Consumed(
                        request_id=told.request_id,
                        message_id=message.message_id,
                        cost_ms=took_ms // len(told.messages),
                        success=done,
                        keys=message.properties.get(properties.KEYS),
                        outcome=self._ended(outcome, took_ms, done=done),
                        time_ms=now_ms,
                        group=self._group,
                    )
                )

    def _ended(self, outcome: Outcome, took_ms: int, *, done: bool) -> Ended:
        if done:
            return Ended.TIME_OUT if took_ms >= self._timeout_ms else Ended.SUCCESS
        return Ended.FAILED if outcome.error is None else Ended.EXCEPTION

    def _is_traced(self, message: ReceivedMessage) -> bool:
        if message.topic == self._tracer.topic:
            return False  # a trace of traces would never end
        return message.properties.get(properties.TRACE_ON) != "false"


@asynccontextmanager
async def handling_trace(
    session: Session, group: str, topic: str, tuning: PushTuning
) -> AsyncIterator[HandlingTrace]:
    """Tell to a topic, for the length of the block; what was told by its end is sent."""
    async with Producer(session, group=TRACE_GROUP) as producer:
        tracer = Tracer(producer.send, session.clock, topic=topic)
        try:
            async with running(tracer.run(), f"message trace of {group}"):
                yield HandlingTrace(tracer, session, group, tuning.consume_timeout_ms)
        finally:
            await tracer.flush()
