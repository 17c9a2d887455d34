from __future__ import annotations

import pytest

from rocketpipe.errors import BodyError, HeaderError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_command
from rocketpipe.protocol.requests.offsets import (
    BoundaryType,
    GetMaxOffset,
    InvokeBrokerToResetOffset,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)

RESET = InvokeBrokerToResetOffset(topic="T", group="g", timestamp=-1, is_force=True)


def test_the_offset_that_node_clients_commit_before_consuming_is_read() -> None:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "-1"}
    asked = from_command(UpdateConsumerOffset, Command(code=15, opaque=1, fields=fields))
    assert asked.commit_offset == -1


def test_a_search_looks_for_the_first_message_unless_told_otherwise() -> None:
    fields = {"topic": "T", "queueId": "0", "timestamp": "5"}
    asked = from_command(SearchOffsetByTimestamp, Command(code=29, opaque=1, fields=fields))
    assert asked.boundary_type is BoundaryType.LOWER
    fields["boundaryType"] = "UPPER"
    asked = from_command(SearchOffsetByTimestamp, Command(code=29, opaque=1, fields=fields))
    assert asked.boundary_type is BoundaryType.UPPER


def test_whether_a_missing_offset_is_zero_may_be_left_open() -> None:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    asked = from_command(QueryConsumerOffset, Command(code=14, opaque=1, fields=fields))
    assert asked.set_zero_if_not_found is None


def test_the_greatest_offset_is_that_of_confirmed_messages() -> None:
    asked = GetMaxOffset(topic="T", queue_id=0)
    assert to_command(asked, 1).fields["committed"] == "true"


def test_an_offset_beyond_javas_long_is_refused() -> None:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(1 << 63)}
    with pytest.raises(HeaderError, match="commitOffset"):
        from_command(UpdateConsumerOffset, Command(code=15, opaque=1, fields=fields))


def test_a_reset_of_every_queue_has_the_fields_of_javas_tool() -> None:
    assert to_command(RESET, 1).fields == {
        "group": "g",
        "isForce": "true",
        "queueId": "-1",
        "timestamp": "-1",
        "topic": "T",
    }


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:42}}',
        rb'{"offsetTable":{"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}":42}}',
    ],
    ids=["object", "quoted"],
)
def test_a_map_keyed_by_queues_is_read_in_both_forms(body: bytes) -> None:
    answer = read_reply(RESET, Command(code=0, opaque=1, flag=RESPONSE, body=body))
    queue = MessageQueue(topic="T", broker_name="b", queue_id=0)
    assert answer.reset.offsets == {queue: QueueOffset(42)}


def test_a_reset_without_a_body_is_the_brokers_mistake() -> None:
    with pytest.raises(BodyError):
        read_reply(RESET, Command(code=0, opaque=1, flag=RESPONSE))
