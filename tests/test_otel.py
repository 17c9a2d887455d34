"""Traces and metrics by OpenTelemetry's own SDK, of clients at real servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.waiting import until

from rocketpipe import (
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    Session,
    SimpleConsumer,
    blocking,
    otel,
)
from rocketpipe.errors import MessageRefused
from rocketpipe.testing import cluster

pytestmark = pytest.mark.scenario


class Seen:
    """What the SDK was told."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._numbers = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._numbers])
        self.observer = otel.OtelObserver(
            tracer_provider=self.tracers, meter_provider=self.meters, keys=True
        )

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if span.name == name]

    def metrics(self) -> dict[str, Any]:
        data = self._numbers.get_metrics_data()
        assert data is not None
        (resource,) = data.resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: metric.data for metric in scope.metrics}


@pytest.fixture
def seen() -> Iterator[Seen]:
    found = Seen()
    yield found
    found.tracers.shutdown()
    found.meters.shutdown()


async def test_what_is_sent_on_carries_nothing_of_the_trace_it_came_with(
    seen: Seen, tmp_path: Path
) -> None:
    came_with = {"traceparent": "garbage", "tracestate": "a=1", "baggage": "b=2", "total": "3"}
    async with (
        cluster(tmp_path) as servers,
        Session(servers.name_server, observers=[seen.observer]) as session,
        Producer(session) as producer,
        SimpleConsumer(session, group="forwarded") as consumer,
    ):
        await producer.send("forwarded-orders", b"hello", properties=came_with)
        await consumer.subscribe("forwarded-orders")
        (message,) = await consumer.receive(wait_ms=20_000)
        await consumer.ack(message)
    (send,) = seen.spans("send forwarded-orders")
    assert send.context is not None
    assert f"{send.context.trace_id:032x}" in message.properties["traceparent"]
    assert not {"tracestate", "baggage"} & message.properties.keys()
    assert message.properties["total"] == "3"


async def test_a_handler_is_linked_to_the_send_of_its_message(seen: Seen, tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as servers,
        Session(servers.name_server, observers=[seen.observer]) as session,
    ):
        handled: list[Any] = []

        async def handle(message: Any) -> None:
            handled.append((message, trace.get_current_span().get_span_context()))

        async with Producer(session) as producer:
            sent = await producer.send("orders", b"hello", tags="paid", keys=["A1"])
            consumer = PushConsumer(session, group="shop", start="first")
            consumer.subscribe("orders", handle)
            async with consumer:
                await until(lambda: seen.spans("process orders"))
    (send,) = seen.spans("send orders")
    (process,) = seen.spans("process orders")
    assert send.kind is SpanKind.PRODUCER
    assert process.kind is SpanKind.CONSUMER
    assert send.attributes is not None
    assert send.attributes["messaging.system"] == "rocketmq"
    assert send.attributes["messaging.message.id"] == sent.message_id
    assert send.attributes["messaging.rocketmq.message.tag"] == "paid"
    assert send.attributes["messaging.rocketmq.message.keys"] == "A1"
    (link,) = process.links
    assert link.context.span_id == send.context.span_id
    message, current = handled[0]
    assert current.span_id == process.context.span_id, "it is current while the handler runs"
    assert message.properties["traceparent"].split("-")[2] == format(send.context.span_id, "016x")
    assert process.attributes is not None
    assert process.attributes["messaging.consumer.group.name"] == "shop"


async def test_each_message_of_a_batch_has_a_span_of_its_own(seen: Seen, tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as servers,
        Session(servers.name_server, observers=[seen.observer]) as session,
        Producer(session) as producer,
    ):
        await producer.send_batch([Message("orders", b"a"), Message("orders", b"b")])
        async with SimpleConsumer(session, group="pops") as consumer:
            await consumer.subscribe("orders")
            found: list[Any] = []
            while len(found) < 2:
                found += await consumer.receive()
    creates = seen.spans("create orders")
    (send,) = seen.spans("send orders")
    assert len(creates) == 2
    assert send.kind is SpanKind.CLIENT
    made = {span.context.span_id for span in creates}
    assert {link.context.span_id for link in send.links} == made
    received = seen.spans("receive orders")
    assert {link.context.span_id for span in received for link in span.links} == made


async def test_what_fails_says_so(seen: Seen, tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as servers,
        Session(servers.name_server, observers=[seen.observer]) as session,
    ):

        async def handle(_: Any) -> None:
            raise ValueError("not today")

        async with Producer(session) as producer:
            await producer.send("orders", b"hello")
            with pytest.raises(MessageRefused):
                await producer.send("orders", b"x" * (5 << 20))
            consumer = PushConsumer(session, group="shop", start="first")
            consumer.subscribe("orders", handle)
            async with consumer:
                await until(lambda: seen.spans("process orders"))
    (process,) = seen.spans("process orders")[:1]
    assert process.status.status_code is StatusCode.ERROR
    assert process.attributes is not None
    assert process.attributes["error.type"] == "ValueError"
    good, bad = sorted(seen.spans("send orders"), key=lambda span: span.status.status_code.value)
    assert good.status.status_code is StatusCode.UNSET
    assert bad.status.status_code is StatusCode.ERROR


async def test_operations_are_counted_and_timed(seen: Seen, tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as servers,
        Session(servers.name_server, observers=[seen.observer]) as session,
        Producer(session) as producer,
    ):
        sent = await producer.send("orders", b"hello")
        async with PullConsumer(session, group="reads") as consumer:
            await consumer.assign([sent.queue])
            await consumer.seek(sent.queue, 0)
            while not await consumer.poll():
                pass
    told = seen.metrics()
    (point,) = told["messaging.client.sent.messages"].data_points
    assert point.value == 1
    assert point.attributes["messaging.destination.name"] == "orders"
    assert told["messaging.client.consumed.messages"].data_points
    assert told["messaging.client.operation.duration"].data_points


def test_installed_for_all_blocking_clients_too_and_a_trace_goes_on_in_threads(
    seen: Seen, rocketpipe: Any
) -> None:
    otel.install(tracer_provider=seen.tracers, meter_provider=seen.meters, parent=True)
    try:
        names = rocketpipe.name_server
        handled: list[Any] = []
        with blocking.Producer(names) as producer:

            def handle(message: Any) -> None:
                producer.send("receipts", b"thanks")
                handled.append(message)

            producer.send("orders", b"hello")
            consumer = blocking.PushConsumer(names, group="shop", start="first")
            consumer.subscribe("orders", handle)
            with consumer:
                asyncio.run(until(lambda: seen.spans("process orders")))
    finally:
        otel.uninstall()
    (first,) = seen.spans("send orders")
    (process,) = seen.spans("process orders")
    (second,) = seen.spans("send receipts")
    assert process.parent is not None
    assert process.parent.span_id == first.context.span_id
    assert second.parent is not None
    assert second.parent.span_id == process.context.span_id
    assert second.context.trace_id == first.context.trace_id
