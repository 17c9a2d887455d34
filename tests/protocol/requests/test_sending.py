from __future__ import annotations

import dataclasses

import pytest

from rocketpipe.errors import HeaderError, RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_command, to_reply
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageReply, SendReply

SENT = SendMessage(
    producer_group="pg",
    topic="T",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=1,
    sys_flag=0,
    born_timestamp=5,
    flag=0,
    properties="p",
    reconsume_times=0,
    unit_mode=False,
    max_reconsume_times=16,
    batch=False,
    broker_name="b",
    body=b"hello",
)
# What Java's SendMessageRequestHeader writes for these values, and the letter V2 has for each.
SPELLINGS = {
    "producerGroup": ("a", "pg"),
    "topic": ("b", "T"),
    "defaultTopic": ("c", "TBW102"),
    "defaultTopicQueueNums": ("d", "4"),
    "queueId": ("e", "1"),
    "sysFlag": ("f", "0"),
    "bornTimestamp": ("g", "5"),
    "flag": ("h", "0"),
    "properties": ("i", "p"),
    "reconsumeTimes": ("j", "0"),
    "unitMode": ("k", "false"),
    "maxReconsumeTimes": ("l", "16"),
    "batch": ("m", "false"),
    "bname": ("n", "b"),
}
LETTERS = dict(SPELLINGS.values())
LONG = {name: text for name, (_, text) in SPELLINGS.items()}


def test_a_send_is_written_in_javas_letters() -> None:
    command = to_command(SENT, 1)
    assert command.code == RequestCode.SEND_MESSAGE_V2
    assert dict(command.fields) == LETTERS
    assert command.body == b"hello"


def test_a_batch_travels_under_its_own_code() -> None:
    command = to_command(dataclasses.replace(SENT, batch=True), 1)
    assert command.code == RequestCode.SEND_BATCH_MESSAGE
    assert command.fields["m"] == "true"


def test_a_reply_travels_under_its_own_code() -> None:
    reply = SendReply(**{field.name: getattr(SENT, field.name) for field in fields()})
    command = to_command(reply, 1)
    assert command.code == RequestCode.SEND_REPLY_MESSAGE_V2
    assert dict(command.fields) == LETTERS


def fields() -> tuple[dataclasses.Field[object], ...]:
    return dataclasses.fields(SENT)


@pytest.mark.parametrize("code", SendMessage.codes)
@pytest.mark.parametrize("spelling", [LONG, LETTERS], ids=["names", "letters"])
def test_either_spelling_is_read_under_any_code(
    code: RequestCode, spelling: dict[str, str]
) -> None:
    command = Command(code=code, opaque=1, fields=spelling, body=b"hello")
    assert from_command(SendMessage, command) == SENT


def test_what_old_clients_leave_out_has_its_default() -> None:
    fewer = {letter: text for letter, text in LETTERS.items() if letter not in "ijklmn"}
    asked = from_command(SendMessage, Command(code=310, opaque=1, fields=fewer))
    assert asked.properties == ""
    assert asked.reconsume_times == 0
    assert asked.unit_mode is False
    assert asked.max_reconsume_times is None
    assert asked.batch is False
    assert asked.broker_name is None


def test_a_send_of_the_cpp_client_is_read() -> None:
    # It writes 0 and 1 for truth values, and fields that no header class has.
    odd = {**LETTERS, "k": "0", "m": "1", "OnsChannel": "ALIYUN", "Signature": "x"}
    asked = from_command(SendMessage, Command(code=310, opaque=1, fields=odd))
    assert asked.unit_mode is False
    assert asked.batch is True


def test_fields_of_every_rpc_header_are_accepted() -> None:
    extra = {**LONG, "ns": "n", "nsd": "true", "oway": "false", "lo": "false"}
    assert from_command(SendMessage, Command(code=10, opaque=1, fields=extra)).topic == "T"


@pytest.mark.parametrize(("letter", "text"), [("e", "2147483648"), ("d", "x"), ("g", "1" * 30)])
def test_a_number_that_java_could_not_hold_is_refused(letter: str, text: str) -> None:
    with pytest.raises(HeaderError, match="cannot be"):
        from_command(SendMessage, Command(code=310, opaque=1, fields={**LETTERS, letter: text}))


@pytest.mark.parametrize("code", [0, 10, 11, 12])
def test_stored_but_less_durable_is_an_answer(code: int) -> None:
    told = SendMessageReply(
        code=code, msg_id="7F", queue_id=1, queue_offset=QueueOffset(9), region="R", trace_on=True
    )
    command = to_reply(to_command(SENT, 1), told)
    assert command.code == code
    assert command.fields == {
        "msgId": "7F",
        "queueId": "1",
        "queueOffset": "9",
        "MSG_REGION": "R",
        "TRACE_ON": "true",
    }
    assert read_reply(SENT, command) == told


def test_not_stored_is_a_refusal() -> None:
    command = Command(
        code=ResponseCode.MESSAGE_ILLEGAL, opaque=1, flag=RESPONSE, remark="too large"
    )
    with pytest.raises(RequestRejected, match="too large") as caught:
        read_reply(SENT, command)
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
