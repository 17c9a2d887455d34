"""RocketMQ in Python: clients, servers, and a data pipeline on Spark."""

from rocketpipe._version import __version__
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.producer.producer import Producer, SendResult
from rocketpipe.model.message import Message, StoredMessage
from rocketpipe.model.route import MessageQueue

__all__ = [
    "Message",
    "MessageQueue",
    "Producer",
    "PullConsumer",
    "SendResult",
    "StoredMessage",
    "__version__",
]
