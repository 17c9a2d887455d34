"""Names of topics and groups: which are legal, which are RocketMQ's own, which derive from others.

    %RETRY%group          messages of a group to be consumed again
    %RETRY%group+topic    the same for popped messages
    %RETRY%group_topic    its first form, which may be that of another group and topic as well
    %DLQ%group            messages that a group gave up on
    %LMQ%name             a light queue
    namespace%name        a name within a namespace; a retry or dead letter prefix stays in front
    cluster_REPLY_TOPIC   answers to requests

Servers know nothing of namespaces: clients wrap the names they send and unwrap those they get.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rocketpipe.errors import InvalidName

MAX_TOPIC: Final = 127
MAX_RETRY_TOPIC: Final = 255
#: Shorter than a topic, so that retry and dead letter topics can be made of it.
MAX_GROUP: Final = 120

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
NAMESPACE_SEPARATOR: Final = "%"

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"

SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
#: Ours: what was staged, and the ledger of commits.
STAGING_TOPIC: Final = "rmq_sys_STAGED_SENDS"
#: Ours: the broker's tables, on their way to its replicas.
TABLES_TOPIC: Final = "rmq_sys_TABLES"

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        HALF_OP_TOPIC,
        TRACE_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    }
)
NOT_SENDABLE: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        HALF_OP_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        STAGING_TOPIC,
        TABLES_TOPIC,
    }
)

#: With those that begin as RocketMQ's own do.
_INNER: Final = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, HALF_OP_TOPIC, CHECK_MAX_TIME_TOPIC, CHECKPOINT_TOPIC}
)

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
TOOLS_CONSUMER_GROUP: Final = "TOOLS_CONSUMER"
CLIENT_INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
#: One of our own: its place in a queue of dead letters is up to where they were purged.
PURGED_GROUP: Final = "CID_RMQ_SYS_DLQ_PURGED"

PREDEFINED_GROUPS: Final = frozenset(
    {
        DEFAULT_CONSUMER_GROUP,
        DEFAULT_PRODUCER_GROUP,
        TOOLS_CONSUMER_GROUP,
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        CLIENT_INNER_PRODUCER_GROUP,
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
        TRANSACTION_GROUP,
    }
)

_ILLEGAL: Final = re.compile(r"[^%|a-zA-Z0-9_-]")
_BROKER: Final = re.compile(r"[%|a-zA-Z0-9_-][%|a-zA-Z0-9_.-]*")


@lru_cache(maxsize=4096)  # the same few are asked about with every message
def check_topic(name: str) -> None:
    """Refuse a name that no topic may have.

    Raises:
        InvalidName: If it is blank, too long, or has a character outside ``%|a-zA-Z0-9_-``.
    """
    retried = name.startswith((RETRY_PREFIX, DLQ_PREFIX))
    _check("topic", name, MAX_RETRY_TOPIC if retried else MAX_TOPIC)


def check_sendable(topic: str) -> None:
    """Refuse a topic that clients may not send to.

    Raises:
        InvalidName: If the name is illegal, or the topic is one of RocketMQ's own.
    """
    check_topic(topic)
    if topic in NOT_SENDABLE:
        raise InvalidName("topic", topic, "only brokers write to it")


def check_group(name: str) -> None:
    """Refuse a name that no group may have.

    Raises:
        InvalidName: If it is blank, too long, or has a character outside ``%|a-zA-Z0-9_-``.
    """
    _check("group", name, MAX_GROUP)


def check_producer_group(name: str) -> None:
    """Refuse a name that no user's producer group may have.

    Raises:
        InvalidName: As ``check_group``, or if it is the default group.
    """
    check_group(name)
    if name == DEFAULT_PRODUCER_GROUP:
        raise InvalidName("group", name, "is the default of every producer; choose your own")


def check_consumer_group(name: str) -> None:
    """Refuse a name that no user's consumer group may have.

    Raises:
        InvalidName: As ``check_group``, or if it is the default group.
    """
    check_group(name)
    if name == DEFAULT_CONSUMER_GROUP:
        raise InvalidName("group", name, "is the default of every consumer; choose your own")


def check_broker(name: str, kind: str = "broker") -> None:
    """Refuse a name that no broker, and no cluster, may have; host names are legal.

    Raises:
        InvalidName: If it is empty, too long, begins with a dot, or has a character outside
            ``%|a-zA-Z0-9_.-``.
    """
    if len(name) > MAX_TOPIC:
        raise InvalidName(kind, name[:MAX_TOPIC] + "…", f"has more than {MAX_TOPIC} characters")
    if not _BROKER.fullmatch(name):
        raise InvalidName(kind, name, "is not made of %|a-zA-Z0-9_.- with no dot in front")


def _check(kind: str, name: str, longest: int) -> None:
    if not name.strip():
        raise InvalidName(kind, name[:longest], "is blank")
    if len(name) > longest:
        shown = name[:longest] + "…"
        raise InvalidName(kind, shown, f"has {len(name)} characters, more than {longest}")
    illegal = _ILLEGAL.search(name)
    if illegal:
        raise InvalidName(
            kind, name, f"{illegal[0]!r} at {illegal.start()} is not one of %|a-zA-Z0-9_-"
        )


def is_system_topic(name: str) -> bool:
    """Tell whether a topic is RocketMQ's own."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(name: str) -> bool:
    """Tell whether a consumer group is one that brokers use themselves."""
    return name.startswith(SYSTEM_GROUP_PREFIX)


def is_predefined_group(name: str) -> bool:
    """Tell whether a group comes with RocketMQ: it can be used but not created or deleted."""
    return name in PREDEFINED_GROUPS


def is_retry_topic(name: str) -> bool:
    """Tell whether a topic holds messages to be consumed again, by pull or by pop."""
    return name.startswith(RETRY_PREFIX)


def is_inner_topic(name: str) -> bool:
    """Tell whether brokers keep in a topic what is, or will be, of other topics."""
    return name in _INNER or name.startswith(SYSTEM_TOPIC_PREFIX)


def is_dlq_topic(name: str) -> bool:
    """Tell whether a topic holds dead letters."""
    return name.startswith(DLQ_PREFIX)


def retry_topic(group: str) -> str:
    """Name the topic from which a group consumes again what failed."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Name the topic of a group's dead letters."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Name the topic through which a cluster carries answers to requests."""
    return f"{cluster}_REPLY_TOPIC"


def revive_topic(cluster: str) -> str:
    """Name the topic in which a cluster's brokers note what was popped and acknowledged."""
    return f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}"


def sync_member_topic(broker: str) -> str:
    """Name the topic by which the members of a broker group tell each other of changes."""
    return f"{SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{broker}"


def pop_retry_topic(topic: str, group: str) -> str:
    """Name the topic from which a group pops again what it did not acknowledge."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def pop_retry_topic_v2(topic: str, group: str) -> str:
    """Name it in the second form, which can be taken apart again."""
    return f"{RETRY_PREFIX}{group}+{topic}"


def is_pop_retry_v2(name: str) -> bool:
    """Tell whether a name is a pop retry topic of the second form."""
    return name.startswith(RETRY_PREFIX) and "+" in name


def topic_of_pop_retry(name: str, group: str) -> str:
    """Give the topic behind a group's pop retry topic, of either form; other names as they are."""
    behind = name.removeprefix(RETRY_PREFIX + group)
    # Either form has one character between group and topic.
    return behind[1:] if behind != name and behind[:1] in ("_", "+") else name


def group_of_retry(name: str) -> str:
    """Give the group of a retry topic; of the pop forms only the second can be told apart."""
    rest = name.removeprefix(RETRY_PREFIX)
    group, plus, topic = rest.partition("+")
    return group if plus and topic and "+" not in topic else rest


def with_namespace(name: str, namespace: str) -> str:
    """Give a topic or group its namespace; RocketMQ's own names and those that have it stay."""
    if not namespace or not name or _is_system(name):
        return name
    prefix, bare = _without_prefix(name)
    if bare.startswith(namespace + NAMESPACE_SEPARATOR):
        return name
    return f"{prefix}{namespace}{NAMESPACE_SEPARATOR}{bare}"


def without_namespace(name: str, namespace: str) -> str:
    """Take this namespace from a topic or group; a name outside it stays as it is."""
    if not namespace:
        return name
    _, bare = _without_prefix(name)
    return without_any_namespace(name) if bare.startswith(f"{namespace}%") else name


def without_any_namespace(name: str) -> str:
    """Take whatever namespace a topic or group has; one without stays as it is."""
    namespace = namespace_of(name)
    if not namespace:
        return name
    prefix, bare = _without_prefix(name)
    return prefix + bare[len(namespace) + 1 :]


def namespace_of(name: str) -> str:
    """Give the namespace of a topic or group, empty if it has none."""
    if not name or _is_system(name):
        return ""
    _, bare = _without_prefix(name)
    # A % in front separates nothing.
    return bare[: max(bare.find(NAMESPACE_SEPARATOR), 0)]


def _without_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def _is_system(name: str) -> bool:
    return is_system_topic(name) or is_system_group(name)
