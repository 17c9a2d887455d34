from __future__ import annotations

import pytest

from rocketpipe.errors import BodyError, HeaderError
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.topic import TopicFilterType, TopicSettings
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_reply
from rocketpipe.protocol.requests.topics import (
    GetAllTopicConfig,
    GetTopicConfig,
    QueueRange,
    TopicDetails,
    TopicDetailsReply,
    TopicStats,
    TopicStatsReply,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
)

FIELDS = {
    "topic": "T",
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
}


def test_what_tools_leave_out_has_its_default() -> None:
    asked = from_command(UpdateAndCreateTopic, Command(code=17, opaque=1, fields=FIELDS))
    assert asked.topic_filter_type is TopicFilterType.SINGLE_TAG
    assert asked.order is False
    assert asked.topic_sys_flag == 0
    assert asked.attributes is None


def test_a_filter_type_that_nobody_knows_is_refused() -> None:
    fields = {**FIELDS, "topicFilterType": "THREE_TAGS"}
    with pytest.raises(HeaderError, match="topicFilterType"):
        from_command(UpdateAndCreateTopic, Command(code=17, opaque=1, fields=fields))


def test_a_tool_that_knows_no_pages_asks_for_everything() -> None:
    asked = from_command(GetAllTopicConfig, Command(code=21, opaque=1))
    assert (asked.topic_seq, asked.data_version, asked.max_topic_num) == (None, None, None)


def test_brokers_before_5_3_4_do_not_say_how_many_topics_there_are() -> None:
    body = b'{"dataVersion":{"counter":1,"timestamp":2},"topicConfigTable":{"t":{"topicName":"t"}}}'
    answer = Command(code=0, opaque=1, flag=RESPONSE, body=body)
    reply = read_reply(GetAllTopicConfig(), answer)
    assert reply.total_topic_num is None
    assert reply.table.topics == {"t": TopicSettings(name="t")}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"topicConfigList":[{}]}',
        b'{"topicConfigList":[{"topicName":"t","readQueueNums":65537}]}',
        b'{"topicConfigList":[{"topicName":"t","writeQueueNums":-1}]}',
    ],
)
def test_topics_without_a_name_or_with_odd_numbers_of_queues_are_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        from_command(UpdateAndCreateTopicList, Command(code=18, opaque=1, body=body))


def test_what_is_not_known_is_not_said() -> None:
    asked = Command(code=202, opaque=1)
    queue = MessageQueue(topic="t", broker_name="b", queue_id=0)
    stats = TopicStatsReply(stats=TopicStats(queues={queue: QueueRange()}))
    assert to_reply(asked, stats).body == (
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:'
        b'{"maxOffset":0,"minOffset":0}}}'
    )
    details = TopicDetailsReply(details=TopicDetails(name="t"))
    body = to_reply(asked, details).body
    assert b"mappingDetail" not in body
    assert read_reply(GetTopicConfig(topic="t"), to_reply(asked, details)) == details
