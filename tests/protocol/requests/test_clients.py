from __future__ import annotations

import pytest

from rocketpipe.errors import BodyError
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    MessageRequestMode,
)
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_command, to_reply
from rocketpipe.protocol.requests.clients import (
    AssignmentQuestion,
    ConsumerData,
    GetConsumerListByGroup,
    Heartbeat,
    HeartbeatData,
    HeartbeatReply,
    LockBatch,
    LockBatchReply,
    LockedQueues,
    QueryAssignment,
    QueueClaim,
    UnregisterClient,
)


def beat(body: bytes) -> HeartbeatData:
    return from_command(Heartbeat, Command(code=34, opaque=1, body=body)).data


def the_consumer(data: HeartbeatData) -> ConsumerData:
    (consumer,) = data.consumers
    return consumer


def test_a_heartbeat_of_the_cpp_client_is_read() -> None:
    # Ordinals for enums, a version in quotes, no sets, no expression type, no producers.
    data = beat(
        b'{"clientID":"10.0.0.3@1","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,'
        b'"groupName":"g","messageModel":1,"subscriptionDataSet":[{"subString":"*",'
        b'"subVersion":"1700000000000","topic":"T"}]}]}'
    )
    assert data.producers == ()
    consumer = the_consumer(data)
    assert consumer.consume_from_where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    assert consumer.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert consumer.message_model is MessageModel.CLUSTERING
    (wanted,) = consumer.subscriptions
    assert wanted.version == 1_700_000_000_000
    assert wanted.expression_type == "TAG"
    assert wanted.tags == frozenset()
    assert wanted.tag_codes == frozenset()


@pytest.mark.parametrize(
    ("ordinal", "meaning"),
    [(0, MessageModel.BROADCASTING), (1, MessageModel.CLUSTERING)],
)
def test_ordinals_mean_what_cpp_clients_mean(ordinal: int, meaning: MessageModel) -> None:
    data = beat(
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":%d}]}' % ordinal
    )
    assert the_consumer(data).message_model is meaning


@pytest.mark.parametrize(
    ("ordinal", "meaning"),
    [
        (0, "CONSUME_FROM_LAST_OFFSET"),
        (1, "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"),
        (2, "CONSUME_FROM_MIN_OFFSET"),
        (3, "CONSUME_FROM_MAX_OFFSET"),
        (4, "CONSUME_FROM_FIRST_OFFSET"),
        (5, "CONSUME_FROM_TIMESTAMP"),
    ],
)
def test_where_to_consume_from_is_read_by_ordinal(ordinal: int, meaning: str) -> None:
    data = beat(
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeFromWhere":%d}]}' % ordinal
    )
    assert the_consumer(data).consume_from_where is ConsumeFromWhere[meaning]


def test_a_heartbeat_of_the_go_client_is_read() -> None:
    # Hashes of tags come in quotes.
    data = beat(
        b'{"clientID":"c","producerDataSet":[{"groupName":"pg"}],"consumerDataSet":[{'
        b'"groupName":"g","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",'
        b'"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{'
        b'"classFilterMode":false,"topic":"T","subString":"A || B","tagsSet":["A","B"],'
        b'"codeSet":["65","66"],"subVersion":5,"expressionType":"TAG"}],"unitMode":false}]}'
    )
    assert [producer.group_name for producer in data.producers] == ["pg"]
    (wanted,) = the_consumer(data).subscriptions
    assert wanted.tags == {"A", "B"}
    assert wanted.tag_codes == {65, 66}


def test_a_null_expression_type_means_tags() -> None:
    data = beat(
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":'
        b'[{"topic":"T","subString":"*","expressionType":null}]}]}'
    )
    (wanted,) = the_consumer(data).subscriptions
    assert wanted.is_tags


@pytest.mark.parametrize("body", [b"", b"[]", b'{"clientID":null}', b'{"consumerDataSet":[]}'])
def test_a_heartbeat_of_nobody_is_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        beat(body)


def test_a_heartbeat_is_answered_with_what_java_asks_for() -> None:
    command = to_reply(
        Command(code=34, opaque=1), HeartbeatReply(supports_v2=True, sub_changed=False)
    )
    assert command.fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"}


def test_brokers_of_4_9_answer_a_heartbeat_without_fields() -> None:
    asked = Heartbeat(data=HeartbeatData(client_id="c"))
    answer = read_reply(asked, Command(code=0, opaque=1, flag=RESPONSE))
    assert answer == HeartbeatReply(supports_v2=None, sub_changed=None)


def test_the_client_id_is_spelt_as_peers_spell_it() -> None:
    assert to_command(UnregisterClient(client_id="c"), 1).fields == {"clientID": "c"}


def test_a_group_list_without_a_body_is_empty() -> None:
    answer = read_reply(
        GetConsumerListByGroup(consumer_group="g"), Command(code=0, opaque=1, flag=RESPONSE)
    )
    assert answer.members.consumer_ids == ()


def test_a_lock_names_queues_and_its_answer_those_that_were_got() -> None:
    queues = tuple(
        MessageQueue(topic="T", broker_name="b", queue_id=queue_id) for queue_id in range(2)
    )
    asked = LockBatch(claim=QueueClaim(consumer_group="g", client_id="c", queues=queues))
    command = to_command(asked, 1)
    assert command.body == (
        b'{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":0,"topic":"T"},'
        b'{"brokerName":"b","queueId":1,"topic":"T"}],"onlyThisBroker":false}'
    )
    got = LockBatchReply(locked=LockedQueues(queues=queues[:1]))
    assert read_reply(asked, to_reply(command, got)) == got


def test_an_assignment_of_an_unknown_strategy_is_none_not_empty() -> None:
    question = AssignmentQuestion(topic="T", consumer_group="g", client_id="c")
    asked = QueryAssignment(question=question)
    none = read_reply(asked, Command(code=0, opaque=1, flag=RESPONSE, body=b"{}"))
    assert none.assigned.assignments is None
    body = b'{"messageQueueAssignments":[]}'
    empty = read_reply(asked, Command(code=0, opaque=1, flag=RESPONSE, body=body))
    assert empty.assigned.assignments == ()


def test_an_assignment_is_pulled_unless_it_says_pop() -> None:
    asked = QueryAssignment(
        question=AssignmentQuestion(topic="T", consumer_group="g", client_id="c")
    )
    body = (
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"b","queueId":-1,"topic":"T"},'
        b'"mode":"POP"},{"messageQueue":{"brokerName":"b","queueId":0,"topic":"T"}}]}'
    )
    answer = read_reply(asked, Command(code=0, opaque=1, flag=RESPONSE, body=body))
    assert answer.assigned.assignments is not None
    modes = [one.mode for one in answer.assigned.assignments]
    assert modes == [MessageRequestMode.POP, MessageRequestMode.PULL]
