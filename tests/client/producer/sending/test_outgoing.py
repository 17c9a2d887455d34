"""Messages as the frames that send them."""

from __future__ import annotations

import os
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.client.producer.sending.outgoing import (
    Checks,
    Outgoing,
    PlainTexts,
    plain_header,
    template,
)
from rocketpipe.errors import InvalidName, MessageRefused, PropertiesError
from rocketpipe.model import properties as well_known
from rocketpipe.model.flags import COMPRESSED, Compression
from rocketpipe.model.message import Message
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import from_command, to_command
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.record.batch import Entry, decode_batch
from rocketpipe.record.compression import inflate

LIMIT = 4 * 1024 * 1024


def outgoing(message: Message) -> Outgoing:
    return Outgoing(message, "0A" * 16, 1_700_000_000_000, LIMIT)


def read(frame: bytes) -> tuple[Command, SendMessage]:
    (command,) = Connection().receive(frame)
    return command, from_command(SendMessage, command)


def as_defined(out: Outgoing, group: str, broker: str, queue_id: int) -> SendMessage:
    named = out.message.all_properties()
    named[well_known.UNIQ_KEY] = out.message_id
    return SendMessage(
        producer_group=group,
        topic=out.topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=out.sys_flag,
        born_timestamp=out.born_ms,
        flag=out.message.flag,
        properties=well_known.encode(named),
        broker_name=broker,
        body=out.body,
    )


@pytest.mark.parametrize(
    "message",
    [
        Message("orders", b"body"),
        Message("orders", b"body", wait_stored=False),
        Message("orders", b"body", tags="paid"),
        Message("orders", b"body", tags="paid", keys=["A1", "B2"], flag=-3),
        Message("orders", b"body", delay_level=3),
        Message("orders", b"body", delay_ms=3, properties={"a": "b"}),
    ],
)
def test_the_frame_is_byte_for_byte_that_of_the_typed_request(message: Message) -> None:
    out = outgoing(message)
    frame = out.frame(template("g", "orders", "broker-a"), 3, 77)
    assert frame == encode_frame(to_command(as_defined(out, "g", "broker-a", 3), 77))
    _, request = read(out.frame(template("g", "orders", "broker-a", 1), 3, 77))
    assert request.default_topic_queue_nums == 1


@given(
    group=st.from_regex(r"[%|a-zA-Z0-9_-]{1,20}", fullmatch=True),
    broker=st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()),
    body=st.binary(min_size=1, max_size=50),
    tag=st.text(min_size=1, max_size=10),
    queue_id=st.integers(0, 1 << 16),
    opaque=st.integers(0, (1 << 31) - 1),
    oneway=st.booleans(),
)
def test_whatever_is_sent_reads_back_as_the_typed_request_does(
    group: str, broker: str, body: bytes, tag: str, queue_id: int, opaque: int, oneway: bool
) -> None:
    try:
        message = Message("%RETRY%100%d", body, tags=tag, properties={"p%": tag})
    except PropertiesError:
        return  # said before anything is sent
    out = outgoing(message)
    frame = out.frame(template(group, message.topic, broker), queue_id, opaque, oneway=oneway)
    command, request = read(frame)
    assert request == as_defined(out, group, broker, queue_id)
    assert (command.opaque, command.is_oneway, command.code) == (opaque, oneway, 310)


def test_a_batch_is_one_send_of_entries() -> None:
    parts = [outgoing(Message("t", body, tags="x")) for body in (b"one", b"two")]
    whole = Outgoing.batch_of(parts, "0B" * 16, 5)
    command, request = read(whole.frame(template("g", "t", "a"), 1, 9))
    assert command.code == 320
    assert request.batch
    assert request.properties == f"WAIT\x01true\x02UNIQ_KEY\x01{'0B' * 16}\x02"
    assert list(decode_batch(request.body)) == [
        Entry(0, part.body, part.properties.encode()) for part in parts
    ]
    assert request == from_command(SendMessage, to_command(request, 9))


def test_a_batch_waits_as_its_messages_do() -> None:
    parts = [outgoing(Message("t", b"x", wait_stored=False))] * 2
    assert Outgoing.batch_of(parts, "id", 5).properties.startswith("WAIT\x01false\x02")


async def test_a_long_body_is_compressed_and_says_so() -> None:
    for size in (4096, 200_000):
        out = outgoing(Message("t", bytes(size)))
        await Checks().compress(out)
        assert out.sys_flag == COMPRESSED | Compression.ZLIB
        assert out.body == zlib.compress(bytes(size), 5)
        assert inflate(out.body, out.sys_flag) == bytes(size)


async def test_a_body_that_is_short_or_gets_no_shorter_is_left_alone() -> None:
    for body in (bytes(4095), os.urandom(5000)):
        out = outgoing(Message("t", body))
        await Checks().compress(out)
        assert (out.body, out.sys_flag) == (body, 0)
    never = outgoing(Message("t", bytes(9000)))
    await Checks(compress_over=None).compress(never)
    assert never.sys_flag == 0


def test_a_body_has_something_in_it_but_not_too_much() -> None:
    with pytest.raises(MessageRefused, match="an empty body; send at least one byte"):
        outgoing(Message("t", b""))
    Outgoing(Message("t", b"four"), "id", 0, 4)
    with pytest.raises(MessageRefused, match=r"5 bytes, 4 are the most.*maxMessageSize"):
        Outgoing(Message("t", b"fives"), "id", 0, 4)


def test_properties_are_measured_as_bytes() -> None:
    outgoing(Message("t", b"x", properties={"p": "a" * 32_000}))
    with pytest.raises(PropertiesError, match="more than 32767"):
        outgoing(Message("t", b"x", properties={"p": "é" * 17_000}))


def test_a_bad_topic_is_refused_each_time() -> None:
    checks = Checks()
    for _ in range(2):
        with pytest.raises(InvalidName, match="only brokers write to it"):
            checks.check_topic("SCHEDULE_TOPIC_XXXX")
        checks.check_topic("orders")


def test_what_may_not_wait_for_others() -> None:
    checks = Checks()
    assert checks.may_wait(Message("t", b"x"))
    assert not checks.may_wait(Message("t", b"x", delay_level=1))
    assert not checks.may_wait(Message("t", b"x", delay_ms=5))
    assert not checks.may_wait(Message("%RETRY%g", b"x"))
    assert not checks.may_wait(Message("t", bytes(4096)))


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "without messages"),
        ([Message("t", b"x"), Message("u", b"x")], "a batch of each topic"),
        ([Message("t", b"x"), Message("t", b"x", wait_stored=False)], "two batches"),
        ([Message("t", b"x", delay_level=3)], "by itself"),
        ([Message("%RETRY%g", b"x")], "one by one"),
    ],
)
def test_what_cannot_go_together_is_refused(messages: list[Message], why: str) -> None:
    with pytest.raises(MessageRefused, match=why):
        Checks().check_batch(messages)


@pytest.mark.parametrize("settings", [{"max_bytes": 0}, {"compress_level": 10}])
def test_numbers_that_make_no_sense_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"\d"):
        Checks(**settings)  # type: ignore[arg-type]


WORDS = st.text(min_size=0, max_size=6) | st.sampled_from(["paid", "a b", "\x01", "K" * 65])


@given(
    body=st.binary(max_size=12) | st.just(bytearray(b"x")),
    parts=st.fixed_dictionaries(
        {},
        optional={
            "tags": st.none() | WORDS,
            "keys": WORDS | st.lists(WORDS, max_size=3) | st.tuples(WORDS),
            "properties": st.just({"a": "b"}),
            "flag": st.just(3),
            "wait_stored": st.just(False),
        },
    ),
    topic=st.sampled_from(["orders", "%RETRY%g", "unknown"]),
)
def test_a_plain_message_is_sent_as_any_other_would_be(
    body: bytes, parts: dict[str, Any], topic: str
) -> None:
    plain = PlainTexts(max_bytes=10)
    plain.learn("orders")
    plain.learn("%RETRY%g")
    text = plain.find(topic, body, parts)
    if text is None:
        return  # that is always allowed: the general way defines what is right
    assert topic == "orders"
    out = Outgoing.of_plain(topic, body, parts, text, "0A" * 16, 1_700_000_000_000)
    usual = outgoing(Message(topic, body, **parts))
    header = template("g", topic, "broker-a")
    assert out.frame(header, 3, 77) == usual.frame(header, 3, 77)
    assert out.plain_frame(plain_header(header, 3), 77) == usual.frame(header, 3, 77)
    assert (out.size, out.wait_stored, out.message) == (
        usual.size,
        usual.wait_stored,
        usual.message,
    )


@pytest.mark.parametrize("name", ["%d", "100%", '"g":"-1"', '","i":-2', '"opaque":-3,', "-3"])
def test_names_that_look_like_fields_or_formats_stay_what_they_are(name: str) -> None:
    out = Outgoing.of_plain("t", b"body", {}, "WAIT\x01true\x02UNIQ_KEY\x01", "0A" * 16, 17)
    header = template(name, "t", name)
    assert out.plain_frame(plain_header(header, 7), 9) == out.frame(header, 7, 9)


def test_ordinary_messages_are_plain_and_what_is_known_of_them_is_bounded() -> None:
    plain = PlainTexts(max_bytes=10)
    for number in range(3000):
        plain.learn(f"t{number}")
        assert plain.find(f"t{number}", b"x", {"tags": f"tag{number}", "keys": ["A1"]})
    assert plain.find("t2999", b"x", {})
    for odd in (
        {"flag": 1},
        {"tags": 5},
        {"keys": 5},
        {"keys": [5]},
        {"tags": " "},
        {"tags": "a||b"},
    ):
        assert plain.find("t2999", b"x", odd) is None
    assert plain.find(Message("t2999", b"x"), b"", {}) is None
    assert plain.find("t2999", bytes(11), {}) is None
    assert plain.find("t2999", b"", {}) is None
    assert plain.find("t1", b"x", {}) is None  # forgotten, and learnt again when it is sent to


def test_a_batch_is_of_messages() -> None:
    pair: Any = ("orders", b"x")
    with pytest.raises(TypeError, match=r"is no Message: give Message\(topic, body\)"):
        Checks().check_batch([pair])
