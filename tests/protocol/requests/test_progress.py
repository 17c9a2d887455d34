from __future__ import annotations

from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import from_command, to_command, to_reply
from rocketpipe.protocol.requests.progress import (
    CloneGroupOffset,
    ConsumeStats,
    ConsumeStatsReply,
    QueryConsumeQueue,
    QueueProgress,
)


def test_queues_are_keys_as_java_writes_them() -> None:
    queue = MessageQueue(topic="t", broker_name="b", queue_id=1)
    stats = ConsumeStats(queues={queue: QueueProgress(broker_offset=7, consumer_offset=5)})
    body = to_reply(Command(code=208, opaque=1), ConsumeStatsReply(stats=stats)).body
    assert body.startswith(b'{"consumeTps":0.0,"offsetTable":{{"brokerName":"b","queueId":1,"topic')


def test_a_clone_without_a_topic_is_of_all() -> None:
    asked = CloneGroupOffset(src_group="a", dest_group="b")
    assert from_command(CloneGroupOffset, to_command(asked, 1)).topic is None


def test_a_look_into_a_queue_begins_at_its_start() -> None:
    assert to_command(QueryConsumeQueue(topic="t", count=3), 1).fields == {
        "topic": "t",
        "queueId": "0",
        "index": "0",
        "count": "3",
    }
