"""RocketMQ in Python: clients, servers, and a data pipeline on Spark."""

from rocketpipe._version import __version__
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.consumer.offsets import StartFrom
from rocketpipe.client.consumer.outcome import DEAD_LETTER, Retry
from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.consumer.push import PushConsumer
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.consumer.simple import SimpleConsumer
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.idempotent import Idempotent, Sql, SqliteLedger
from rocketpipe.client.producer.producer import Producer
from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.transactions import Decision
from rocketpipe.client.session import Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.message import Message, StoredMessage
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere

__all__ = [
    "DEAD_LETTER",
    "Admin",
    "ConsumeFromWhere",
    "Decision",
    "Idempotent",
    "Message",
    "MessageQueue",
    "PoppedMessage",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "PushTuning",
    "ReceivedMessage",
    "Retry",
    "RocketPipeError",
    "SendResult",
    "Session",
    "SimpleConsumer",
    "Sql",
    "SqliteLedger",
    "StartFrom",
    "StoredMessage",
    "__version__",
]
