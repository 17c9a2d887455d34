"""The clients without ``async``: the same names and arguments, blocking, for use from threads.

    from rocketpipe.blocking import Producer

    with Producer("127.0.0.1:9876") as producer:
        result = producer.send("orders", b"...", tags="paid", keys=["A1"])

All of them run on one loop, on a thread that is there while any of them is open.

Each is loaded when it is first used: who needs the loop alone, as Spark's Pythons, pays for none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpipe.blocking.admin import Admin
    from rocketpipe.blocking.coroutines import Background
    from rocketpipe.blocking.producer import Producer
    from rocketpipe.blocking.pull import PullConsumer
    from rocketpipe.blocking.push import PushConsumer
    from rocketpipe.blocking.session import Session
    from rocketpipe.blocking.simple import SimpleConsumer
    from rocketpipe.client.admin.clients import NotOnline
    from rocketpipe.client.admin.fleet import NoBroker, PartlyDone
    from rocketpipe.client.admin.groups import GroupExists, NoGroup
    from rocketpipe.client.admin.messages import NoMessage
    from rocketpipe.client.admin.topics import TopicExists
    from rocketpipe.client.consumer.group.start import StartFrom
    from rocketpipe.client.consumer.outcome import DEAD_LETTER, Retry
    from rocketpipe.client.consumer.popped import PoppedMessage
    from rocketpipe.client.consumer.pulling.read_ahead import ReadLimits
    from rocketpipe.client.consumer.received import ReceivedMessage
    from rocketpipe.client.consumer.tuning import PushTuning
    from rocketpipe.client.idempotent import Idempotent, LedgerFailed, Sql, SqliteLedger
    from rocketpipe.client.producer.result import SendResult
    from rocketpipe.client.producer.retry import Retries
    from rocketpipe.client.producer.sending.batching import Batching
    from rocketpipe.client.producer.transactions import Decision
    from rocketpipe.errors import RocketPipeError
    from rocketpipe.model.message import Message, StoredMessage
    from rocketpipe.model.route import MessageQueue
    from rocketpipe.model.subscription import ConsumeFromWhere
    from rocketpipe.record.codec import RecordView
    from rocketpipe.remoting.tls_settings import TlsSettings

__all__ = [
    "DEAD_LETTER",
    "Admin",
    "Background",
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
]

#: Where those live that block; all else is what `rocketpipe` exports.
_HOME = {
    "Admin": "admin",
    "Background": "coroutines",
    "Producer": "producer",
    "PullConsumer": "pull",
    "PushConsumer": "push",
    "Session": "session",
    "SimpleConsumer": "simple",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'rocketpipe.blocking' has no attribute {name!r}")
    home = f"rocketpipe.blocking.{_HOME[name]}" if name in _HOME else "rocketpipe"
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
