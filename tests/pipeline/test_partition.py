"""Parts of a plan on their way to tasks."""

from __future__ import annotations

import pickle

from pyspark.sql.datasource import InputPartition

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.partition import SparkPartition
from rocketpipe.pipeline.planning.ranges import QueueRange, ReadPartition


def test_spark_takes_it_and_a_task_gets_it_whole() -> None:
    queue = MessageQueue(topic="orders", broker_name="broker-a", queue_id=1)
    run = QueueRange(queue, QueueOffset(3), QueueOffset(9))
    sent = SparkPartition((run,), {"broker-a": "127.0.0.1:10911"})
    assert isinstance(sent, InputPartition)
    assert isinstance(sent, ReadPartition)
    assert pickle.loads(pickle.dumps(sent)) == sent
