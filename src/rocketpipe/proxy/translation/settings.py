"""Settings: what clients tell of themselves, what brokers are told of that, and the answer."""

from __future__ import annotations

from typing import Final

from rocketpipe.errors import FilterError
from rocketpipe.filter.tags import parse_tags
from rocketpipe.model.group import (
    CustomizedRetry,
    ExponentialRetry,
    GroupSettings,
    RetryPolicyType,
)
from rocketpipe.model.subscription import SQL92, TAG, ConsumeType, Subscription
from rocketpipe.protocol.requests.clients import ConsumerData, HeartbeatData, ProducerData
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.translation.names import group_name, topic_name
from rocketpipe.proxy.translation.times import set_ms
from rocketpipe.proxy.v2 import messaging_pb2 as pb

#: Topics that one client may name.
MOST_TOPICS: Final = 2000

_PUBLISH_ATTEMPTS: Final = 3
_FIRST_BACKOFF_MS: Final = 10
_LAST_BACKOFF_MS: Final = 1000
_CONSUMERS: Final = {
    pb.PUSH_CONSUMER: ConsumeType.CONSUME_PASSIVELY,
    pb.SIMPLE_CONSUMER: ConsumeType.CONSUME_ACTIVELY,
    pb.PULL_CONSUMER: ConsumeType.CONSUME_ACTIVELY,
}


def heartbeat_of(settings: pb.Settings, client_id: str, namespace: str) -> HeartbeatData:
    """What brokers are told of a client.

    A producer is one of a group called like its topic, so that it is asked about transactions.

    Raises:
        Refused: A topic, group or expression is none, or it is no kind of client that is served.
    """
    which = settings.WhichOneof("pub_sub")
    if settings.client_type in (pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER):
        raise Refused(pb.UNSUPPORTED, "lite topics are not served: use a push or simple consumer")
    if which == "publishing":
        # Some clients for Node.js name an empty topic beside their own.
        named = [topic for topic in settings.publishing.topics if topic.name]
        _check_count(len(named))
        groups = dict.fromkeys(topic_name(topic, namespace) for topic in named)
        return HeartbeatData(
            client_id=client_id, producers=tuple(ProducerData(group_name=each) for each in groups)
        )
    if which == "subscription":
        wanted = settings.subscription
        _check_count(len(wanted.subscriptions))
        consumer = ConsumerData(
            group_name=group_name(wanted.group, namespace),
            consume_type=_CONSUMERS.get(settings.client_type, ConsumeType.CONSUME_PASSIVELY),
            subscriptions=tuple(_subscription(each, namespace) for each in wanted.subscriptions),
        )
        return HeartbeatData(client_id=client_id, consumers=(consumer,))
    raise Refused(pb.BAD_REQUEST, "settings have publishing or subscription")


def expression_of(wanted: pb.FilterExpression) -> tuple[str, str]:
    """The kind of an expression, and its text, as brokers have them; all if there is none.

    Raises:
        Refused: It is of no kind.
    """
    if wanted.type == pb.SQL:
        return SQL92, wanted.expression
    if wanted.type not in (pb.TAG, pb.FILTER_TYPE_UNSPECIFIED):
        raise Refused(
            pb.ILLEGAL_FILTER_EXPRESSION, f"{wanted.type} is no kind of expression: TAG or SQL"
        )
    return TAG, wanted.expression or "*"


def answer_to(
    settings: pb.Settings,
    config: ProxyConfig,
    *,
    max_body_bytes: int,
    checks_types: bool,
    group: GroupSettings | None,
) -> pb.Settings:
    """What a client is told to go by; ``group`` is that of a consumer."""
    told = pb.Settings()
    told.CopyFrom(settings)
    told.metric.on = False
    backoff = told.backoff_policy
    if group is None:
        backoff.max_attempts = _PUBLISH_ATTEMPTS
        growing = backoff.exponential_backoff
        set_ms(growing.initial, _FIRST_BACKOFF_MS)
        set_ms(growing.max, _LAST_BACKOFF_MS)
        growing.multiplier = 2
        told.publishing.max_body_size = max_body_bytes
        told.publishing.validate_message_type = checks_types
        return told
    backoff.max_attempts = group.max_attempts
    _add_backoff(backoff, group)
    told.subscription.fifo = group.ordered
    told.subscription.receive_batch_size = config.max_batch
    set_ms(told.subscription.long_polling_timeout, config.max_polling_ms)
    return told


def _add_backoff(backoff: pb.RetryPolicy, group: GroupSettings) -> None:
    policy = group.retry_policy
    if policy.type is RetryPolicyType.EXPONENTIAL:
        growth = policy.exponential or ExponentialRetry()
        growing = backoff.exponential_backoff
        set_ms(growing.initial, growth.initial)
        set_ms(growing.max, growth.limit)
        growing.multiplier = growth.multiplier
        return
    listed = backoff.customized_backoff
    listed.ClearField("next")
    for delay_ms in (policy.customized or CustomizedRetry()).delays:
        set_ms(listed.next.add(), delay_ms)


def _subscription(entry: pb.SubscriptionEntry, namespace: str) -> Subscription:
    kind, text = expression_of(entry.expression)
    topic = topic_name(entry.topic, namespace)
    if kind == SQL92:
        return Subscription(topic=topic, expression=text, expression_type=SQL92)
    try:
        chosen = parse_tags(text)
    except FilterError as error:
        raise Refused(pb.ILLEGAL_FILTER_EXPRESSION, str(error)) from error
    return Subscription(
        topic=topic, expression=chosen.expression, tags=chosen.tags, tag_codes=chosen.codes
    )


def _check_count(count: int) -> None:
    if count > MOST_TOPICS:
        raise Refused(
            pb.BAD_REQUEST, f"{count} topics in one client's settings: {MOST_TOPICS} at most"
        )
