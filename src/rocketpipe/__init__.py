"""RocketMQ in Python: clients, servers, and a data pipeline on Spark.

What is exported here is loaded when it is first used: a program pays for the clients it has, and a
command of the shell for none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rocketpipe import moved
from rocketpipe._version import __version__
from rocketpipe.errors import RocketPipeError

if TYPE_CHECKING:
    from rocketpipe import errors, selectors, strategies
    from rocketpipe.client.admin.admin import Admin
    from rocketpipe.client.admin.clients import NotOnline
    from rocketpipe.client.admin.fleet import NoBroker, PartlyDone
    from rocketpipe.client.admin.groups import GroupExists, NoGroup
    from rocketpipe.client.admin.messages import NoMessage
    from rocketpipe.client.admin.topics import TopicExists
    from rocketpipe.client.consumer.group.start import StartFrom
    from rocketpipe.client.consumer.outcome import DEAD_LETTER, Retry
    from rocketpipe.client.consumer.popped import PoppedMessage
    from rocketpipe.client.consumer.pull import PullConsumer
    from rocketpipe.client.consumer.pulling.read_ahead import ReadLimits
    from rocketpipe.client.consumer.push import PushConsumer
    from rocketpipe.client.consumer.received import ReceivedMessage
    from rocketpipe.client.consumer.simple import SimpleConsumer
    from rocketpipe.client.consumer.tuning import PushTuning
    from rocketpipe.client.idempotent import Idempotent, LedgerFailed, Sql, SqliteLedger
    from rocketpipe.client.producer.producer import Producer
    from rocketpipe.client.producer.result import SendResult
    from rocketpipe.client.producer.retry import Retries
    from rocketpipe.client.producer.sending.batching import Batching
    from rocketpipe.client.producer.transactions import Decision
    from rocketpipe.client.session import Session
    from rocketpipe.model.message import Message, StoredMessage
    from rocketpipe.model.route import MessageQueue
    from rocketpipe.model.subscription import ConsumeFromWhere
    from rocketpipe.record.codec import RecordView
    from rocketpipe.remoting.tls_settings import TlsSettings

__all__ = [
    "DEAD_LETTER",
    "Admin",
    "Batching",
    "ConsumeFromWhere",
    "Decision",
    "GroupExists",
    "Idempotent",
    "LedgerFailed",
    "Message",
    "MessageQueue",
    "NoBroker",
    "NoGroup",
    "NoMessage",
    "NotOnline",
    "PartlyDone",
    "PoppedMessage",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "PushTuning",
    "ReadLimits",
    "ReceivedMessage",
    "RecordView",
    "Retries",
    "Retry",
    "RocketPipeError",
    "SendResult",
    "Session",
    "SimpleConsumer",
    "Sql",
    "SqliteLedger",
    "StartFrom",
    "StoredMessage",
    "TlsSettings",
    "TopicExists",
    "__version__",
    "errors",
    "selectors",
    "strategies",
]

_HOME = {
    "Admin": "client.admin.admin",
    "GroupExists": "client.admin.groups",
    "NoGroup": "client.admin.groups",
    "NoMessage": "client.admin.messages",
    "NoBroker": "client.admin.fleet",
    "PartlyDone": "client.admin.fleet",
    "NotOnline": "client.admin.clients",
    "TopicExists": "client.admin.topics",
    "StartFrom": "client.consumer.group.start",
    "DEAD_LETTER": "client.consumer.outcome",
    "Retry": "client.consumer.outcome",
    "PoppedMessage": "client.consumer.popped",
    "PullConsumer": "client.consumer.pull",
    "ReadLimits": "client.consumer.pulling.read_ahead",
    "PushConsumer": "client.consumer.push",
    "ReceivedMessage": "client.consumer.received",
    "SimpleConsumer": "client.consumer.simple",
    "PushTuning": "client.consumer.tuning",
    "Idempotent": "client.idempotent",
    "LedgerFailed": "client.idempotent",
    "Sql": "client.idempotent",
    "SqliteLedger": "client.idempotent",
    "Batching": "client.producer.sending.batching",
    "Producer": "client.producer.producer",
    "SendResult": "client.producer.result",
    "Retries": "client.producer.retry",
    "Decision": "client.producer.transactions",
    "Session": "client.session",
    "Message": "model.message",
    "StoredMessage": "model.message",
    "MessageQueue": "model.route",
    "ConsumeFromWhere": "model.subscription",
    "RecordView": "record.codec",
    "TlsSettings": "remoting.tls_settings",
}


_MODULES = ("errors", "selectors", "strategies")

moved.install()


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"rocketpipe.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'rocketpipe' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rocketpipe.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
