"""What goes in and out of a broker, and how long its answers take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocketpipe.broker.core import Core
from rocketpipe.broker.counts import FIFO, NORMAL, Answered, Counts
from rocketpipe.broker.metrics.labels import is_system, truth
from rocketpipe.metrics import Distribution, Family, Kept, Kind, Series
from rocketpipe.model.names import is_dlq_topic, is_retry_topic, topic_of_pop_retry
from rocketpipe.model.topic import MESSAGE_TYPE, MessageType
from rocketpipe.protocol.codes import RequestCode, ResponseCode


def traffic(core: Core, named: Mapping[str, str]) -> Iterator[Family]:
    """Messages and bytes, stored and given out."""
    stored = Kept(
        Distribution(
            spread.bounds,
            spread.counts,
            spread.total,
            {
                **named,
                "topic": topic,
                "message_type": _type_of(core, topic, kind),
                "is_system": is_system(topic),
            },
        )
        for topic, kind, spread in core.stats.counts.by_type()
        if not is_retry_topic(topic) and not is_dlq_topic(topic)
    )
    yield Family(
        "rocketmq_messages_in_total",
        Kind.COUNTER,
        "Messages stored.",
        (Series(sum(each.counts), each.labels) for each in stored),
    )
    yield Family(
        "rocketmq_throughput_in_total",
        Kind.COUNTER,
        "Bytes stored.",
        (Series(each.total, each.labels) for each in stored),
    )
    yield Family(
        "rocketmq_message_size", Kind.HISTOGRAM, "Bytes of the records of messages.", stored
    )
    given = Kept(
        (tally.count, tally.bytes, _labels_of_given(named, topic, group))
        for topic, group, tally in core.stats.by_group()
        if topic != _plain_retries(topic, group) and not is_dlq_topic(topic)
    )
    yield Family(
        "rocketmq_messages_out_total",
        Kind.COUNTER,
        "Messages given to groups.",
        (Series(count, labels) for count, _, labels in given),
    )
    yield Family(
        "rocketmq_throughput_out_total",
        Kind.COUNTER,
        "Bytes given to groups.",
        (Series(size, labels) for _, size, labels in given),
    )
    yield Family(
        "rocketmq_send_to_dlq_messages_total",
        Kind.COUNTER,
        "Messages that groups gave up on, by the topic that they came from.",
        (
            Series(
                count,
                {
                    **named,
                    "consumer_group": group,
                    "topic": topic,
                    "is_system": is_system(topic, group),
                },
            )
            for group, topic, count in core.stats.counts.dead_letters()
        ),
    )


def answers(counts: Counts, named: Mapping[str, str]) -> Iterator[Family]:
    """How long requests took, from when they were read to their answers."""
    yield Family(
        "rocketmq_rpc_latency_milliseconds",
        Kind.HISTOGRAM,
        "Milliseconds that requests took; those of one turn that are stored together count alike.",
        (
            Distribution(
                spread.bounds, spread.counts, spread.total, {**named, **_labels_of_answer(alike)}
            )
            for alike, spread in counts.answers()
        ),
    )


def _type_of(core: Core, topic: str, kind: str) -> str:
    """The kind of messages: plain ones of a topic in order are in order."""
    if kind == NORMAL:
        settings = core.tables.topics.get(topic)
        if settings is not None and settings.attributes.get(MESSAGE_TYPE) == MessageType.FIFO:
            return FIFO
    return kind


def _plain_retries(topic: str, group: str) -> str | None:
    """The name of a topic if what it holds is pulled again, which RocketMQ does not count."""
    return topic if is_retry_topic(topic) and topic_of_pop_retry(topic, group) == topic else None


def _labels_of_given(named: Mapping[str, str], topic: str, group: str) -> dict[str, str]:
    origin = topic_of_pop_retry(topic, group)
    return {
        **named,
        "topic": origin,
        "consumer_group": group,
        "is_retry": truth(is_retry_topic(topic)),
        "is_system": is_system(origin, group),
    }


def _labels_of_answer(alike: Answered) -> dict[str, str]:
    return {
        "protocol_type": "remoting",
        "request_code": _name(RequestCode, alike.code),
        "response_code": _name(ResponseCode, alike.answer),
        "is_long_polling": truth(alike.waited),
        "result": "oneway" if alike.oneway else "success",
    }


def _name(codes: type[RequestCode] | type[ResponseCode], code: int) -> str:
    try:
        return codes(code).name.lower()
    except ValueError:
        return str(code)
