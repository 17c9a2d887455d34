"""Every request code there is: how soon it matters, and which are not typed yet.

P0  plain producing and consuming
P1  ordered, transactional, delayed, popped and broadcast messages, and what they need
P2  administration
P3  rare
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from rocketpipe.protocol import requests
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.request import Request


class Peer(StrEnum):
    """Who answers a request."""

    BROKER = "broker"
    NAMESRV = "NameServer"
    CLIENT = "client"
    CONTROLLER = "controller"
    CONTAINER = "broker container"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Unserved:
    """A code that we know and refuse, and what it would take."""

    code: RequestCode
    answered_by: Peer
    why: str


def typed_requests() -> Iterator[type[Request[Any]]]:
    """Every request class of this package, file by file."""
    for found in pkgutil.iter_modules(requests.__path__):
        module = importlib.import_module(f"{requests.__name__}.{found.name}")
        for _, kind in inspect.getmembers(module, inspect.isclass):
            here = kind.__module__ == module.__name__
            if here and issubclass(kind, Request) and "codes" in vars(kind):
                yield kind


def priority(code: RequestCode) -> int:
    """How soon a code matters: 0 first, 3 last."""
    return next((level for level, codes in enumerate(_PRIORITIES) if code in codes), 3)


def unserved(code: RequestCode) -> Unserved | None:
    """Why a code is refused, if it is one that has no request class."""
    return next((known for known in UNSERVED if known.code == code), None)


C: Final = RequestCode

_P0: Final = frozenset(
    {
        *(C.SEND_MESSAGE, C.SEND_MESSAGE_V2, C.SEND_BATCH_MESSAGE, C.CONSUMER_SEND_MSG_BACK),
        *(C.PULL_MESSAGE, C.LITE_PULL_MESSAGE),
        *(C.QUERY_CONSUMER_OFFSET, C.UPDATE_CONSUMER_OFFSET),
        *(C.SEARCH_OFFSET_BY_TIMESTAMP, C.GET_MAX_OFFSET, C.GET_MIN_OFFSET),
        *(C.HEART_BEAT, C.UNREGISTER_CLIENT, C.GET_CONSUMER_LIST_BY_GROUP),
        C.NOTIFY_CONSUMER_IDS_CHANGED,
        *(C.GET_ROUTEINFO_BY_TOPIC, C.REGISTER_BROKER, C.UNREGISTER_BROKER),
    }
)
_P1: Final = frozenset(
    {
        *(C.SEND_REPLY_MESSAGE, C.SEND_REPLY_MESSAGE_V2, C.RECALL_MESSAGE),
        *(C.QUERY_MESSAGE, C.VIEW_MESSAGE_BY_ID),
        *(C.END_TRANSACTION, C.CHECK_TRANSACTION_STATE, C.PUSH_REPLY_MESSAGE_TO_CLIENT),
        *(C.LOCK_BATCH_MQ, C.UNLOCK_BATCH_MQ, C.CHECK_CLIENT_CONFIG, C.QUERY_ASSIGNMENT),
        *(C.POP_MESSAGE, C.ACK_MESSAGE, C.BATCH_ACK_MESSAGE),
        *(C.CHANGE_MESSAGE_INVISIBLETIME, C.NOTIFICATION),
        *(C.UPDATE_AND_CREATE_TOPIC, C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
        *(C.INVOKE_BROKER_TO_RESET_OFFSET, C.GET_BROKER_CLUSTER_INFO),
    }
)
_P2: Final = frozenset(
    {
        *(C.BROKER_HEARTBEAT, C.QUERY_DATA_VERSION, C.GET_BROKER_MEMBER_GROUP),
        *(C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, C.GET_TOPICS_BY_CLUSTER),
        *(C.GET_SYSTEM_TOPIC_LIST_FROM_NS, C.DELETE_TOPIC_IN_NAMESRV),
        *(C.PUT_KV_CONFIG, C.GET_KV_CONFIG, C.DELETE_KV_CONFIG, C.GET_KVLIST_BY_NAMESPACE),
        *(C.WIPE_WRITE_PERM_OF_BROKER, C.ADD_WRITE_PERM_OF_BROKER),
        *(C.UPDATE_NAMESRV_CONFIG, C.GET_NAMESRV_CONFIG),
        *(C.GET_EARLIEST_MSG_STORETIME, C.SET_MESSAGE_REQUEST_MODE),
        *(C.RESET_CONSUMER_CLIENT_OFFSET, C.GET_CONSUMER_STATUS_FROM_CLIENT),
        *(C.GET_CONSUMER_RUNNING_INFO, C.CONSUME_MESSAGE_DIRECTLY),
        *(C.UPDATE_AND_CREATE_TOPIC_LIST, C.DELETE_TOPIC_IN_BROKER),
        *(C.GET_ALL_TOPIC_CONFIG, C.GET_TOPIC_CONFIG, C.GET_TOPIC_STATS_INFO),
        *(C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        *(C.GET_SUBSCRIPTIONGROUP_CONFIG, C.DELETE_SUBSCRIPTIONGROUP),
        *(C.UPDATE_BROKER_CONFIG, C.GET_BROKER_CONFIG, C.GET_BROKER_RUNTIME_INFO),
        *(C.GET_CONSUME_STATS, C.GET_BROKER_CONSUME_STATS),
        *(C.GET_CONSUMER_CONNECTION_LIST, C.GET_PRODUCER_CONNECTION_LIST),
        *(C.GET_ALL_PRODUCER_INFO, C.QUERY_TOPIC_CONSUME_BY_WHO, C.QUERY_TOPICS_BY_CONSUMER),
        *(C.QUERY_SUBSCRIPTION_BY_CONSUMER, C.QUERY_CONSUME_TIME_SPAN),
        *(C.GET_ALL_CONSUMER_OFFSET, C.GET_ALL_DELAY_OFFSET, C.VIEW_BROKER_STATS_DATA),
        C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        *(C.CLEAN_EXPIRED_CONSUMEQUEUE, C.CLEAN_UNUSED_TOPIC, C.DELETE_EXPIRED_COMMITLOG),
        C.GET_BROKER_HA_STATUS,
        *(C.AUTH_CREATE_USER, C.AUTH_UPDATE_USER, C.AUTH_DELETE_USER),
        *(C.AUTH_GET_USER, C.AUTH_LIST_USER),
        *(C.AUTH_CREATE_ACL, C.AUTH_UPDATE_ACL, C.AUTH_DELETE_ACL),
        *(C.AUTH_GET_ACL, C.AUTH_LIST_ACL),
        *(C.UPDATE_AND_CREATE_ACL_CONFIG, C.DELETE_ACL_CONFIG),
        *(C.GET_BROKER_CLUSTER_ACL_INFO, C.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG),
    }
)
_PRIORITIES: Final = (_P0, _P1, _P2)

_GROUPS_OF_BROKERS: Final = "there is no controller: ZooKeeper elects who leads a group"
_NEVER: Final = "declared by RocketMQ, answered by none of its servers"
_STATIC: Final = "static topics, rare"


def _rows(peer: Peer, why: str, *codes: RequestCode) -> tuple[Unserved, ...]:
    return tuple(Unserved(code, peer, why) for code in codes)


UNSERVED: Final[tuple[Unserved, ...]] = (
    *_rows(
        Peer.BROKER,
        "of the RocksDB store, which we do not have",
        C.CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
        C.EXPORT_ROCKSDB_CONFIG_TO_JSON,
        C.POP_ROLLBACK,
    ),
    *_rows(Peer.BROKER, _STATIC, C.UPDATE_AND_CREATE_STATIC_TOPIC),
    *_rows(Peer.BROKER, _GROUPS_OF_BROKERS, C.NOTIFY_BROKER_ROLE_CHANGED),
    *_rows(
        Peer.CONTROLLER,
        _GROUPS_OF_BROKERS,
        C.CONTROLLER_ALTER_SYNC_STATE_SET,
        C.CONTROLLER_REGISTER_BROKER,
        C.CONTROLLER_GET_REPLICA_INFO,
        C.UPDATE_CONTROLLER_CONFIG,
        C.GET_CONTROLLER_CONFIG,
        C.CLEAN_BROKER_DATA,
        C.CONTROLLER_GET_NEXT_BROKER_ID,
        C.CONTROLLER_APPLY_BROKER_ID,
    ),
    *_rows(
        Peer.CONTAINER,
        "several brokers in one process are several processes here",
        C.ADD_BROKER,
        C.REMOVE_BROKER,
    ),
    *_rows(
        Peer.NOBODY,
        _NEVER,
        C.QUERY_BROKER_OFFSET,
        C.GET_TOPIC_CONFIG_LIST,
        C.GET_TOPIC_NAME_LIST,
        C.TRIGGER_DELETE_FILES,
        C.GET_CLIENT_CONFIG,
        C.SUSPEND_CONSUMER,
        C.RESUME_CONSUMER,
        C.RESET_CONSUMER_OFFSET_IN_CONSUMER,
        C.RESET_CONSUMER_OFFSET_IN_BROKER,
        C.ADJUST_CONSUMER_THREAD_POOL,
        C.WHO_CONSUME_THE_MESSAGE,
        C.REGISTER_FILTER_SERVER,
        C.REGISTER_MESSAGE_FILTER_CLASS,
    ),
)
