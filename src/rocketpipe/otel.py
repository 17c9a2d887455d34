"""Traces and metrics of clients by OpenTelemetry: ``rocketpipe.otel.install()``, and that is all.

    send orders       PRODUCER   around a send; its context travels in the message's properties
    create orders     PRODUCER   for each message of a batch, and ``send`` around them, linked
    receive           CLIENT     around a receive or a poll, linked to what it got
    process orders    CONSUMER   around a handler, linked to the sends of its messages

By the conventions for messaging as they stand in version 1.43 (development), with the attributes
of RocketMQ. Context travels as the user's properties ``traceparent``, ``tracestate`` and
``baggage``, as the instrumentation of Java's client does it. Keys of messages are often personal:
they are told of only if asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from rocketpipe._version import __version__
from rocketpipe.client.observers import Observer, Processing, Received, Receiving, Sending
from rocketpipe.client.observers import install as _install
from rocketpipe.client.observers import uninstall as _uninstall
from rocketpipe.model.message import Message

__all__ = ["OtelObserver", "install", "uninstall"]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.43.0"
_NAME: Final = "rocketpipe"
_SYSTEM: Final = {"messaging.system": "rocketmq", "messaging.rocketmq.namespace": ""}
_NAMESPACE: Final = "%"

_Attributes = dict[str, str | int]


class OtelObserver(Observer):
    """Makes spans and counts; one is enough for a process."""

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        keys: bool = False,
        parent: bool = False,
    ) -> None:
        """Use these providers, or those that the process has.

        ``keys`` has the keys of messages told of. With ``parent`` the span of a handler that has
        one message is a child of its send, instead of being linked to it.
        """
        self._tracer = trace.get_tracer(_NAME, __version__, tracer_provider, schema_url=SCHEMA_URL)
        meter = metrics.get_meter(_NAME, __version__, meter_provider, schema_url=SCHEMA_URL)
        self._operations = meter.create_histogram(
            "messaging.client.operation.duration", "s", "Time that sends and receives took."
        )
        self._processes = meter.create_histogram(
            "messaging.process.duration", "s", "Time that handlers had messages."
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages that were sent."
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that were received."
        )
        self._keys = keys
        self._parent = parent

    @contextmanager
    def sending(self, what: Sending) -> Iterator[None]:
        """A span around a send, whose context goes with each message."""
        about = _about("send", "send", what.topic, what.client_id)
        is_batch = len(what.messages) > 1
        links: list[Link] = []
        if is_batch:
            about["messaging.batch.message_count"] = len(what.messages)
            for place, message in enumerate(what.messages):
                links.append(self._create(what, place, message))
        else:
            about |= self._of_message(what.messages[0])
        kind = SpanKind.CLIENT if is_batch else SpanKind.PRODUCER
        name = f"send {what.topic}"
        with self._span(name, kind, about, links) as span, self._timed(self._operations, about):
            if not is_batch:
                what.messages[0] = _carrying(what.messages[0])
            yield
            self._sent.add(len(what.messages), about_metric(about))
            if len(what.results) == 1:
                result = what.results[0]
                span.set_attribute("messaging.message.id", result.message_id)
                span.set_attribute("messaging.destination.partition.id", str(result.queue.queue_id))

    @contextmanager
    def receiving(self, what: Receiving) -> Iterator[None]:
        """A span around asking, if it brought something."""
        about = _about("receive", "receive", None, what.client_id, what.group)
        began_ns, began = time.time_ns(), time.perf_counter()
        yield
        if not what.messages:
            return
        topics = {message.topic for message in what.messages}
        topic = topics.pop() if len(topics) == 1 else None
        if topic is not None:
            about["messaging.destination.name"] = topic
        about["messaging.batch.message_count"] = len(what.messages)
        span = self._tracer.start_span(
            f"receive {topic}" if topic else "receive",
            kind=SpanKind.CLIENT,
            attributes=about,
            links=list(_links(what.messages)),
            start_time=began_ns,
        )
        span.end()
        self._operations.record(time.perf_counter() - began, about_metric(about))
        self._consumed.add(len(what.messages), about_metric(about))

    @contextmanager
    def processing(self, what: Processing) -> Iterator[None]:
        """A span in which a handler runs, linked to where its messages come from."""
        first = what.messages[0]
        about = _about("process", "process", first.topic, what.client_id, what.group)
        links, parent = list(_links(what.messages)), None
        if len(what.messages) > 1:
            about["messaging.batch.message_count"] = len(what.messages)
        else:
            about |= self._of_received(first)
            if self._parent:
                parent, links = _context_of(first.properties), []
        with (
            self._span(f"process {first.topic}", SpanKind.CONSUMER, about, links, parent) as span,
            self._timed(self._processes, about),
        ):
            yield
            outcome = what.outcome
            if outcome is not None and outcome.done < len(what.messages):
                error = outcome.error
                kind = type(error).__qualname__ if error is not None else "again"
                span.set_attribute("error.type", kind)
                span.set_status(Status(StatusCode.ERROR, outcome.reason))
                if error is not None:
                    span.record_exception(error)

    # Parts

    @contextmanager
    def _span(
        self,
        name: str,
        kind: SpanKind,
        about: _Attributes,
        links: Sequence[Link],
        parent: context.Context | None = None,
    ) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, parent, kind, about, links, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(Status(StatusCode.ERROR, str(error)))
                span.record_exception(error)
                raise

    @contextmanager
    def _timed(self, histogram: metrics.Histogram, about: _Attributes) -> Iterator[None]:
        began = time.perf_counter()
        failed: _Attributes = {}
        try:
            yield
        except Exception as error:
            failed["error.type"] = type(error).__qualname__
            raise
        finally:
            histogram.record(time.perf_counter() - began, about_metric(about) | failed)

    def _create(self, what: Sending, place: int, message: Message) -> Link:
        """A span of its own for a message of a batch, which it carries."""
        about = _about("create", "create", what.topic, what.client_id) | self._of_message(message)
        with self._span(f"create {what.topic}", SpanKind.PRODUCER, about, ()) as span:
            what.messages[place] = _carrying(message)
            return Link(span.get_span_context())

    def _of_message(self, message: Message) -> _Attributes:
        about: _Attributes = {"messaging.rocketmq.message.type": _type_of(message)}
        about["messaging.message.body.size"] = len(message.body)
        if message.tags is not None:
            about["messaging.rocketmq.message.tag"] = message.tags
        if message.delay_level:
            about["messaging.rocketmq.message.delay_time_level"] = message.delay_level
        if message.deliver_at_ms is not None:
            about["messaging.rocketmq.message.delivery_timestamp"] = message.deliver_at_ms
        if self._keys and message.keys:
            about["messaging.rocketmq.message.keys"] = " ".join(message.keys)
        return about

    def _of_received(self, message: Received) -> _Attributes:
        about: _Attributes = {
            "messaging.message.id": message.message_id,
            "messaging.destination.partition.id": str(message.queue.queue_id),
        }
        if message.tags:
            about["messaging.rocketmq.message.tag"] = message.tags
        if self._keys and message.keys:
            about["messaging.rocketmq.message.keys"] = " ".join(message.keys)
        return about


_installed: list[OtelObserver] = []


def install(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    keys: bool = False,
    parent: bool = False,
) -> OtelObserver:
    """Have all clients of this process traced that are made from now on; see `OtelObserver`."""
    observer = OtelObserver(
        tracer_provider=tracer_provider, meter_provider=meter_provider, keys=keys, parent=parent
    )
    _install(observer)
    _installed.append(observer)
    return observer


def uninstall() -> None:
    """Have clients that are made from now on not traced."""
    while _installed:
        _uninstall(_installed.pop())


def about_metric(about: Mapping[str, str | int]) -> dict[str, str | int]:
    """What series are told apart by: no ids, no keys, nothing that has many values."""
    kept = (
        "messaging.system",
        "messaging.operation.name",
        "messaging.destination.name",
        "messaging.consumer.group.name",
    )
    return {name: about[name] for name in kept if name in about}


def _about(
    name: str, kind: str, topic: str | None, client_id: str, group: str | None = None
) -> _Attributes:
    about: _Attributes = {
        **_SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.client.id": client_id,
    }
    if topic is not None:
        about["messaging.destination.name"] = topic
        namespace, found, _ = topic.partition(_NAMESPACE)
        if found and namespace:
            about["messaging.rocketmq.namespace"] = namespace
    if group is not None:
        about["messaging.consumer.group.name"] = group
    return about


def _type_of(message: Message) -> str:
    delayed = message.delay_level or message.delay_ms or message.deliver_at_ms
    return "delay" if delayed else "normal"


def _carrying(message: Message) -> Message:
    """The message with the context of the span that is current, and with no other.

    One that is sent on may have come with one: what is left of that belongs to another trace.
    """
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    if not carrier:
        return message
    before = propagate.get_global_textmap().fields
    kept = {name: value for name, value in message.properties.items() if name not in before}
    return replace(message, properties={**kept, **carrier})


def _context_of(properties: Mapping[str, str]) -> context.Context:
    return propagate.extract(dict(properties))


def _links(messages: Sequence[Received]) -> Iterator[Link]:
    for message in messages:
        span = trace.get_current_span(_context_of(message.properties)).get_span_context()
        if span.is_valid:
            yield Link(span, {"messaging.message.id": message.message_id})
