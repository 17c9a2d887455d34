"""The lanes' functions against the general path, which defines what is right."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET
from tests.twins import WAYS, each_way

from rocketpipe.errors import FrameError, ProtocolError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.command import ONEWAY, RESPONSE, Command, HeaderKind
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.hot import (
    pull_reply_head,
    read_pull,
    read_send,
    scan,
    send_reply,
    send_reply_tail,
)
from rocketpipe.protocol.request import from_command, to_command, to_reply
from rocketpipe.protocol.requests.pulling import PullMessage, PullMessageReply
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageReply

GOLDEN = Path(__file__).parent / "golden"
NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
}
LETTERS = {
    "a": "pg",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "5",
    "h": "0",
    "i": "TAGS\x01A\x02",
    "j": "0",
    "k": "false",
    "l": "16",
    "m": "false",
}

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
sends = st.builds(
    SendMessage,
    producer_group=text,
    topic=text,
    default_topic=text,
    default_topic_queue_nums=int32,
    queue_id=int32,
    sys_flag=int32,
    born_timestamp=int64,
    flag=int32,
    properties=text,
    reconsume_times=int32,
    unit_mode=st.booleans(),
    max_reconsume_times=st.none() | int32,
    broker_name=st.none() | text,
    body=st.binary(max_size=20),
)
pulls = st.builds(
    PullMessage,
    consumer_group=text,
    topic=text,
    queue_id=int32,
    queue_offset=int64,
    max_msg_nums=int32,
    sys_flag=int32,
    commit_offset=int64,
    suspend_timeout_millis=int64,
    subscription=st.none() | text,
    sub_version=int64,
    expression_type=st.none() | text,
    max_msg_bytes=st.none() | int32,
    broker_name=st.none() | text,
)


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__]):
        yield


def header_frame(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body


def send_values(sent: SendMessage) -> tuple[object, ...]:
    return (
        sent.producer_group, sent.topic, sent.default_topic, sent.default_topic_queue_nums,
        sent.queue_id, sent.sys_flag, sent.born_timestamp, sent.flag, sent.properties,
        sent.reconsume_times, sent.unit_mode, sent.max_reconsume_times, sent.batch,
    )  # fmt: skip


def lane_values(frame: bytes) -> tuple[object, ...] | None:
    ((at, body, _),) = scan(frame, 0, len(frame))
    header = read_send(memoryview(frame), at, body)
    assert header == read_send(frame, at, body)
    if header is None:
        return None
    fields = header.fields
    most = fields.max_reconsume_times
    return (
        fields.producer_group, fields.topic, fields.default_topic, fields.default_queues,
        fields.queue_id, fields.sys_flag, fields.born_ms, fields.flag, fields.properties,
        fields.reconsume_times, fields.unit_mode, None if most is UNSET else most, fields.batch,
    )  # fmt: skip


@given(st.lists(st.binary(max_size=30), max_size=8), st.data())
def test_scan_finds_the_frames_that_are_whole(bodies: list[bytes], data: st.DataObject) -> None:
    frames = [encode_frame(Command(code=1, opaque=n, body=b)) for n, b in enumerate(bodies)]
    stream = b"".join(frames)
    end = data.draw(st.integers(0, len(stream)))
    found = scan(stream, 0, end)
    at = 0
    for frame, (start, body, stop) in zip(frames, found, strict=False):
        assert (start, stop) == (at, at + len(frame))
        assert stream[body:stop] == bodies[found.index((start, body, stop))]
        at = stop
    whole = [n for n in range(len(frames)) if sum(map(len, frames[: n + 1])) <= end]
    assert len(found) == len(whole)
    # and starting from any frame gives the rest
    if found:
        assert scan(stream, found[0][2], end) == found[1:]


@given(st.binary(max_size=80), st.integers(8, 64))
@example(struct.pack(">iI", 4, 0x02000000), 64)
@example(struct.pack(">iI", 4, 1), 64)
@example(struct.pack(">iI", 61, 1), 64)
def test_scan_refuses_what_the_connection_refuses(noise: bytes, limit: int) -> None:
    try:
        found = scan(noise, 0, len(noise), limit)
    except FrameError as error:
        with pytest.raises(FrameError, match=error.reason):
            Connection(limit).receive(noise)
        return
    assert all(stop - at <= limit for at, _, stop in found)


def test_a_broken_frame_ends_the_list_and_is_raised_when_it_comes_first() -> None:
    good = encode_frame(Command(code=1, opaque=1))
    stream = good + b"\xff\xff\xff\xff\0\0\0\0"
    assert scan(stream, 0, len(stream)) == [(0, len(good), len(good))]
    with pytest.raises(FrameError, match="length -1"):
        scan(stream, len(good), len(stream))


@given(sends, int32)
def test_a_send_in_letters_reads_as_the_general_path_reads_it(
    sent: SendMessage, opaque: int
) -> None:
    frame = encode_frame(to_command(sent, opaque))
    assert lane_values(frame) == send_values(sent)
    ((at, body, stop),) = scan(frame, 0, len(frame))
    header = read_send(frame, at, body)
    assert header is not None
    assert header.opaque == opaque
    assert frame[body:stop] == sent.body


@given(sends)
def test_a_send_in_long_names_reads_the_same(sent: SendMessage) -> None:
    letters = to_command(sent, 1)
    fields = {NAMES.get(name, "bname"): value for name, value in letters.fields.items()}
    frame = encode_frame(Command(code=10, opaque=1, fields=fields))
    assert lane_values(frame) == send_values(sent)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("frames-*.json")), ids=lambda path: path.stem)
def test_of_javas_frames_the_lanes_take_the_send_and_the_pull(path: Path) -> None:
    taken = []
    for golden in json.loads(path.read_text())["frames"]:
        frame = bytes.fromhex(golden["hex"])
        ((at, body, _),) = scan(frame, 0, len(frame))
        if (send := read_send(frame, at, body)) is not None:
            taken.append(golden["name"])
            (command,) = Connection().receive(frame)
            assert lane_values(frame) == send_values(from_command(SendMessage, command))
            assert send.version == golden["version"]
        if (pull := read_pull(frame, at, body)) is not None:
            taken.append(golden["name"])
            assert pull.fields.queue_offset == 9223372036854775807
    assert taken == ["a send with letters, properties and a body", "a pull"]


ODD_VALUES = [
    "", " 1", "+1", "01", "1_0", "-0", "٣", "x", "null", "true", "TRUE", "False", "2147483648",
    "-2147483649", "9223372036854775808", "9" * 4400, "\x00", "é",
]  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from([*LETTERS, *NAMES.values(), "n", "bname", "AccessKey"]),
        st.none() | st.sampled_from(ODD_VALUES),
        max_size=3,
    ),
    st.sampled_from([310, 10, 320, 11, 324]),
    st.sampled_from([0, ONEWAY, RESPONSE]),
    st.booleans(),
)
def test_what_a_lane_takes_the_general_path_takes_alike(
    changes: dict[str, str | None], code: int, flag: int, long: bool
) -> None:
    fields: dict[str, str] = {NAMES[k] if long else k: v for k, v in LETTERS.items()}
    for name, value in changes.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
    command = Command(code=code, opaque=1, flag=flag, fields=fields)
    taken = lane_values(encode_frame(command))
    if taken is not None:
        assert code in (10, 310, 320)
        assert flag in (0, ONEWAY)
        assert taken == send_values(from_command(SendMessage, command))


@pytest.mark.parametrize(
    "frame",
    [
        encode_frame(Command(code=310, opaque=1, fields=LETTERS, header=HeaderKind.BINARY)),
        encode_frame(Command(code=310, opaque=1, fields=LETTERS, flag=RESPONSE)),
        encode_frame(Command(code=310, opaque=1, fields=LETTERS, flag=ONEWAY | RESPONSE)),
        encode_frame(Command(code=310, opaque=1)),
        encode_frame(Command(code=310, opaque=1, fields={k: LETTERS[k] for k in "abcdefg"})),
        header_frame(b'{"code":310,"opaque":1,"extFields":null}'),
        header_frame(b'{"code":310,"opaque":1,"extFields":' + b"[" * 100_000),
        header_frame(b'{"code":3e2,"opaque":1'),
        header_frame(b'{"code":10,'),
        header_frame(b"\xff\xff"),
        header_frame(b""),
    ],
)
def test_a_lane_leaves_the_unusual_alone(frame: bytes) -> None:
    assert lane_values(frame) is None


def test_a_number_with_a_fraction_of_zero_counts_as_whole() -> None:
    # The one place where a lane is more generous than the general path.
    command = Command(code=310, opaque=1, fields={**LETTERS, "e": "1.0"})
    taken = lane_values(encode_frame(command))
    assert taken is not None
    assert taken[4] == 1
    with pytest.raises(ProtocolError):
        from_command(SendMessage, command)


@given(pulls, int32)
def test_a_pull_reads_as_the_general_path_reads_it(asked: PullMessage, opaque: int) -> None:
    frame = encode_frame(to_command(asked, opaque))
    ((at, body, _),) = scan(frame, 0, len(frame))
    header = read_pull(frame, at, body)
    assert header is not None
    assert header.opaque == opaque
    assert header.code == asked.code
    fields = header.fields
    for name in fields.__struct_fields__:
        assert getattr(fields, name) == getattr(asked, name), name
    assert read_send(frame, at, body) is None


def test_a_pull_that_is_unusual_is_left_alone() -> None:
    fields = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "0",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
    }
    usual = Command(code=11, opaque=1, fields=fields)
    for command, taken in [
        (usual, True),
        (Command(code=11, opaque=1, fields={**fields, "queueOffset": "x"}), False),
        (Command(code=11, opaque=1, fields={**fields, "queueId": "2147483648"}), False),
        (Command(code=11, opaque=1, fields=fields, flag=ONEWAY), False),
        (Command(code=11, opaque=1, fields=fields, header=HeaderKind.BINARY), False),
        (Command(code=200050, opaque=1, fields=fields), False),
    ]:
        frame = encode_frame(command)
        ((at, body, _),) = scan(frame, 0, len(frame))
        assert (read_pull(frame, at, body) is not None) == taken


@given(
    int32,
    st.integers(0, (1 << 63) - 1),
    st.integers(0, 1 << 16),
    st.integers(0, (1 << 63) - 1),
    text,
    st.booleans(),
    st.none() | text,
)
def test_a_send_reply_has_the_bytes_of_the_general_path(
    opaque: int, log_offset: int, queue_id: int, queue_offset: int,
    region: str, trace_on: bool, transaction_id: str | None,
) -> None:  # fmt: skip
    asked = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=opaque)
    answer = SendMessageReply(
        msg_id=f"0A00000100002A9F{log_offset:016X}",
        queue_id=queue_id,
        queue_offset=QueueOffset(queue_offset),
        transaction_id=transaction_id,
        region=region,
        trace_on=trace_on,
    )
    tail = send_reply_tail(region, trace_on, transaction_id)
    assert send_reply(
        opaque, 0, b"0A00000100002A9F", log_offset, queue_id, queue_offset, tail
    ) == encode_frame(to_reply(asked, answer))


@given(
    int32,
    st.sampled_from([ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND]),
    st.integers(0, 5),
    st.lists(st.integers(0, (1 << 63) - 1), min_size=3, max_size=3),
    st.binary(max_size=40),
)
def test_a_pull_reply_has_the_bytes_of_the_general_path(
    opaque: int, code: ResponseCode, broker_id: int, offsets: list[int], records: bytes
) -> None:
    following, least, greatest = map(QueueOffset, offsets)
    answer = PullMessageReply(
        code=code,
        suggest_which_broker_id=broker_id,
        next_begin_offset=following,
        min_offset=least,
        max_offset=greatest,
        messages=records,
        remark="FOUND",
    )
    head = pull_reply_head(
        opaque, code, broker_id, following, least, greatest, b"FOUND", len(records)
    )
    whole = encode_frame(to_reply(Command(code=RequestCode.PULL_MESSAGE, opaque=opaque), answer))
    assert head + records == whole
