from __future__ import annotations

import dataclasses

import pytest

from rocketpipe.errors import HeaderError, RequestRejected
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_command, to_reply
from rocketpipe.protocol.requests.pulling import (
    ForbiddenType,
    PullForbiddenReply,
    PullMessage,
    PullMessageReply,
)

PULL = PullMessage(
    consumer_group="g",
    topic="T",
    queue_id=3,
    queue_offset=QueueOffset(7),
    max_msg_nums=32,
    sys_flag=int(PullFlag.COMMIT_OFFSET | PullFlag.SUSPEND),
    commit_offset=QueueOffset(6),
    suspend_timeout_millis=15000,
    sub_version=1,
    expression_type="TAG",
    broker_name="b",
)


def test_a_pull_has_the_fields_of_a_java_push_consumer() -> None:
    command = to_command(PULL, 1)
    assert command.code == RequestCode.PULL_MESSAGE
    assert command.fields == {
        "bname": "b",
        "commitOffset": "6",
        "consumerGroup": "g",
        "expressionType": "TAG",
        "maxMsgNums": "32",
        "queueId": "3",
        "queueOffset": "7",
        "subVersion": "1",
        "suspendTimeoutMillis": "15000",
        "sysFlag": "3",
        "topic": "T",
    }


def test_a_lite_pull_travels_under_its_own_code() -> None:
    lite = dataclasses.replace(PULL, sys_flag=PULL.sys_flag | PullFlag.LITE_PULL)
    command = to_command(lite, 1)
    assert command.code == RequestCode.LITE_PULL_MESSAGE
    assert from_command(PullMessage, command) == lite


def test_the_misspelt_field_is_read() -> None:
    fields = {**to_command(PULL, 1).fields, "proxyFrowardClientId": "c"}
    asked = from_command(PullMessage, Command(code=11, opaque=1, fields=fields))
    assert asked.proxy_forward_client_id == "c"


def test_a_pull_without_an_offset_is_refused() -> None:
    fields = dict(to_command(PULL, 1).fields)
    del fields["queueOffset"]
    with pytest.raises(HeaderError, match="queueOffset"):
        from_command(PullMessage, Command(code=11, opaque=1, fields=fields))


@pytest.mark.parametrize("code", [0, 19, 20, 21])
def test_an_answer_without_messages_still_has_every_offset(code: int) -> None:
    told = PullMessageReply(
        code=code,
        next_begin_offset=QueueOffset(8),
        min_offset=QueueOffset(0),
        max_offset=QueueOffset(9),
    )
    command = to_reply(to_command(PULL, 1), told)
    assert command.fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "8",
        "minOffset": "0",
        "maxOffset": "9",
    }
    assert read_reply(PULL, command) == told


def test_a_subscription_that_the_broker_lacks_is_a_refusal() -> None:
    command = Command(code=ResponseCode.SUBSCRIPTION_NOT_EXIST, opaque=1, flag=RESPONSE)
    with pytest.raises(RequestRejected):
        read_reply(PULL, command)


def test_a_bulk_pull_has_a_field_of_our_own() -> None:
    asked = dataclasses.replace(PULL, bulk=True)
    command = to_command(asked, 1)
    assert command.fields["bulk"] == "true"
    assert from_command(PullMessage, command) == asked


def test_an_answer_says_what_the_store_found() -> None:
    told = PullMessageReply(
        next_begin_offset=QueueOffset(8),
        min_offset=QueueOffset(0),
        max_offset=QueueOffset(9),
        remark="FOUND",
    )
    command = to_reply(to_command(PULL, 1), told)
    assert command.remark == "FOUND"
    assert "remark" not in command.fields
    assert read_reply(PULL, command) == told


def test_who_forbids_a_pull_is_told_and_clients_take_it_as_a_refusal() -> None:
    told = PullForbiddenReply(forbidden_type=int(ForbiddenType.GROUP), remark="not you")
    command = to_reply(to_command(PULL, 1), told)
    assert (command.code, command.remark) == (ResponseCode.NO_PERMISSION, "not you")
    assert command.fields == {"forbiddenType": "2"}
    with pytest.raises(RequestRejected, match="not you"):
        read_reply(PULL, command)
