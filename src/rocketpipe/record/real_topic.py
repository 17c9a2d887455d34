"""The topic of a record as its readers know it.

What waits in a topic of RocketMQ's own (half messages, delays, timers) is for another one, which
the broker wrote beside it. Of any other message such a word is its sender's, and says nothing.
"""

from __future__ import annotations

from rocketpipe.model.names import is_system_topic
from rocketpipe.model.properties import REAL_TOPIC
from rocketpipe.record.codec import RecordView


def real_topic(record: RecordView) -> str:
    """The topic that a message is for.

    Raises:
        RecordError: If it is none.
    """
    topic = record.topic
    return record.properties.get(REAL_TOPIC, topic) if is_system_topic(topic) else topic
