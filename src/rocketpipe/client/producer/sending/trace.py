"""What a producer tells a topic of traces about its sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rocketpipe.client.producer.result import SendResult, Stored
from rocketpipe.client.producer.sending.outgoing import Outgoing, is_delayed
from rocketpipe.client.tracing import Tracer
from rocketpipe.clock import Clock
from rocketpipe.model.message import Message
from rocketpipe.model.names import TRACE_TOPIC
from rocketpipe.model.properties import KEY_SEPARATOR
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.trace import Published, TracedKind


@dataclass(frozen=True, slots=True)
class Trace:
    """Whose sends are told, and to which topic."""

    group: str
    topic: str = TRACE_TOPIC


class SendingTrace:
    """Tells of sends, many at a time, by ``send``."""

    def __init__(
        self,
        trace: Trace,
        clock: Clock,
        send: Callable[[Message], Awaitable[None]],
        address: Callable[[MessageQueue], str | None],
    ) -> None:
        """``address`` says where a queue is written, as far as is known."""
        self._group = trace.group
        self._clock = clock
        self._address = address
        self.tracer = Tracer(send, clock, topic=trace.topic)

    def now_ms(self) -> int:
        """When a send begins, for ``tell``."""
        return self._clock.monotonic_ms()

    def tell(
        self,
        parts: Sequence[Outgoing],
        results: Sequence[SendResult],
        stored: Stored,
        began_ms: int,
    ) -> None:
        """Tell what became of messages that went together, unless the broker wants no trace."""
        if not stored.traced:
            return
        cost_ms = (self._clock.monotonic_ms() - began_ms) // len(parts)
        for out, result in zip(parts, results, strict=True):
            message = out.message
            self.tracer.add(
                Published(
                    time_ms=out.born_ms,
                    region=result.region,
                    group=self._group,
                    topic=out.topic,
                    message_id=result.message_id,
                    tags=message.tags,
                    keys=KEY_SEPARATOR.join(message.keys) or None,
                    store_host=self._address(result.queue),
                    body_bytes=len(out.body),
                    cost_ms=cost_ms,
                    kind=TracedKind.DELAYED if is_delayed(message) else TracedKind.NORMAL,
                    offset_id=result.offset_id,
                    success=stored.sure,
                )
            )
