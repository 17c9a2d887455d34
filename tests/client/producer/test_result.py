"""What a broker's answer says, read two ways."""

from __future__ import annotations

import pytest

from rocketpipe.client.producer.result import SendResult, read_sent, read_stored, stored_of
from rocketpipe.errors import HeaderError, RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.command import RESPONSE, Command, HeaderKind
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import read_reply
from rocketpipe.protocol.requests.sending import SendMessage

QUEUE = MessageQueue(topic="t", broker_name="a", queue_id=2)
ASKED = SendMessage(
    producer_group="g",
    topic="t",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=2,
    sys_flag=0,
    born_timestamp=0,
    flag=0,
)
FIELDS = {"msgId": "AB", "queueId": "2", "queueOffset": "17"}


def answer(code: int = 0, **fields: str) -> Command:
    return Command(code=code, opaque=1, flag=RESPONSE, fields=fields)


@pytest.mark.parametrize("code", [0, 10, 11, 12])
@pytest.mark.parametrize(
    "more", [{}, {"transactionId": "T", "MSG_REGION": "Oslo", "TRACE_ON": "false"}]
)
def test_it_reads_what_the_typed_answer_has(code: int, more: dict[str, str]) -> None:
    command = answer(code, **FIELDS, **more)
    stored, reply = read_stored(command, QUEUE), read_reply(ASKED, command)
    assert stored.sure is (reply.code == 0)
    assert (stored.offset_ids, stored.queue, stored.queue_offset) == ("AB", QUEUE, 17)
    assert stored.queue_offset == reply.queue_offset
    assert stored.region == (reply.region or "DefaultRegion")
    assert stored.transaction_id == reply.transaction_id
    assert stored.traced is (reply.trace_on is not False)


@pytest.mark.parametrize("code", [0, 10, 11, 12])
@pytest.mark.parametrize("queue_id", ["2", "5"])
@pytest.mark.parametrize("more", [{}, {"MSG_REGION": "Oslo", "TRACE_ON": "false", "odd": "x"}])
def test_the_quick_reader_reads_the_same(code: int, queue_id: str, more: dict[str, str]) -> None:
    command = answer(code, **{**FIELDS, "queueId": queue_id}, **more)
    frame = b"before" + encode_frame(command)
    sent = read_sent(frame, 6, len(frame))
    assert sent is not None
    assert sent.opaque == command.opaque
    assert stored_of(sent, QUEUE) == read_stored(command, QUEUE)


@pytest.mark.parametrize(
    "command",
    [
        answer(13, **FIELDS),
        answer(0),
        answer(0, **{**FIELDS, "queueId": "x"}),
        Command(code=0, opaque=1, flag=0, fields=FIELDS),
        Command(code=0, opaque=1, flag=RESPONSE, fields=FIELDS, header=HeaderKind.BINARY),
    ],
)
def test_what_the_quick_reader_does_not_know_is_left_to_the_other(command: Command) -> None:
    frame = encode_frame(command)
    assert read_sent(frame, 0, len(frame)) is None


def test_the_queue_is_the_one_that_the_broker_took() -> None:
    stored = read_stored(answer(**{**FIELDS, "queueId": "7"}), QUEUE)
    assert stored.queue == MessageQueue(topic="t", broker_name="a", queue_id=7)


@pytest.mark.parametrize("code", [1, 2, 13, 14, 17, 215])
def test_a_refusal_carries_code_and_remark(code: int) -> None:
    command = Command(code=code, opaque=1, flag=RESPONSE, remark="because")
    with pytest.raises(RequestRejected, match="because") as refused:
        read_stored(command, QUEUE)
    assert refused.value.code == code


@pytest.mark.parametrize("missing", list(FIELDS))
def test_an_answer_that_lacks_a_field_is_refused_by_name(missing: str) -> None:
    fields = {name: text for name, text in FIELDS.items() if name != missing}
    for read in (lambda it: read_stored(it, QUEUE), lambda it: read_reply(ASKED, it)):
        with pytest.raises(HeaderError, match=missing):
            read(answer(**fields))


def test_an_offset_that_is_no_number_is_refused() -> None:
    with pytest.raises(HeaderError, match="no number"):
        read_stored(answer(**{**FIELDS, "queueOffset": "x"}), QUEUE)


def test_results_do_not_change_and_can_be_compared() -> None:
    result = SendResult("id", QUEUE, QueueOffset(1), True)
    assert result == SendResult("id", QUEUE, QueueOffset(1), True, "", "DefaultRegion", None)
    with pytest.raises(AttributeError):
        result.durable = None  # type: ignore[misc]
