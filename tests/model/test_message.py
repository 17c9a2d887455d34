from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import InvalidName, PropertiesError, RocketPipeError
from rocketpipe.model import properties
from rocketpipe.model.flags import Transaction
from rocketpipe.model.host import Host
from rocketpipe.model.message import Message, StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset


def _stored(**changes: Any) -> StoredMessage:
    fields: dict[str, Any] = {
        "topic": "orders",
        "body": b"hello",
        "queue_id": 3,
        "queue_offset": QueueOffset(7),
        "log_offset": LogOffset(4096),
        "born_ms": 1700000000000,
        "born_host": Host.parse("10.0.0.3:50001"),
        "stored_ms": 1700000000123,
        "store_host": Host.parse("10.0.0.1:10911"),
    }
    return StoredMessage(**(fields | changes))


def test_a_tag_and_keys_become_the_properties_apache_sets() -> None:
    # messages.md vector: new Message(topic, tag, keys, body)
    message = Message("orders", b"x", tags="TagA", keys=["k1"])
    assert message.all_properties() == {"KEYS": "k1", "TAGS": "TagA", "WAIT": "true"}


def test_everything_that_can_be_said_is_in_the_properties() -> None:
    message = Message(
        "orders",
        b"x",
        tags="paid",
        keys=["A1", "B2"],
        properties={"城市": "杭州"},
        wait_stored=False,
        delay_level=3,
    )
    assert message.all_properties() == {
        "城市": "杭州",
        "KEYS": "A1 B2",
        "TAGS": "paid",
        "WAIT": "false",
        "DELAY": "3",
    }
    assert Message("t", b"", delay_ms=5).all_properties()["TIMER_DELAY_MS"] == "5"
    assert Message("t", b"", deliver_at_ms=9).all_properties()["TIMER_DELIVER_MS"] == "9"


def test_a_message_cannot_be_changed_after_it_was_made() -> None:
    mine = {"a": "1"}
    message = Message("orders", bytearray(b"x"), properties=mine)  # type: ignore[arg-type]
    mine["b"] = "2"
    assert dict(message.properties) == {"a": "1"}
    assert message.body == b"x"
    assert type(message.body) is bytes
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.topic = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        message.properties["a"] = "2"  # type: ignore[index]
    message.all_properties()["TAGS"] = "mine"
    assert message.tags is None


def test_equal_messages_are_equal() -> None:
    assert Message("t", b"x", keys=["a"]) == Message("t", b"x", keys=("a",))
    assert Message("t", b"x") != Message("t", b"y")


def test_a_plain_text_is_one_key() -> None:
    assert Message("orders", b"", keys="A1").keys == ("A1",)
    with pytest.raises(PropertiesError, match="separates keys"):
        Message("orders", b"", keys="A1 B2")


@pytest.mark.parametrize("topic", ["", "a b", "x" * 128])
def test_an_illegal_topic_is_refused(topic: str) -> None:
    with pytest.raises(InvalidName):
        Message(topic, b"x")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"properties": {"TAGS": "x"}}, "'TAGS'"),
        ({"properties": {"UNIQ_KEY": "x"}}, "'UNIQ_KEY'"),
        ({"properties": {"mine": " "}}, "'mine'"),
        ({"properties": {"mine": "a\x02b"}}, "'mine'"),
        ({"properties": {" ": "x"}}, "' '"),
        ({"tags": ""}, "'TAGS'"),
        ({"tags": "a\x01b"}, "'TAGS'"),
        ({"keys": ["a b"]}, "'KEYS'"),
        ({"keys": [""]}, "'KEYS'"),
        ({"delay_level": 1, "delay_ms": 1}, "'DELAY'"),
        ({"delay_ms": 1, "deliver_at_ms": 1}, "'DELAY'"),
        ({"delay_level": -1}, "'DELAY'"),
        ({"delay_level": 99}, r"level 99: levels go from 1 \(a second\) to 18"),
        ({"tags": "a || b"}, "'a || b' is several tags".replace("|", r"\|")),
        ({"flag": 1 << 31}, "flag"),
    ],
)
def test_what_could_not_be_read_back_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(PropertiesError, match=named):
        Message("orders", b"x", **fields)


@pytest.mark.parametrize("body", ["text", 5, None, [1]])
def test_a_body_that_is_not_bytes_is_a_type_error(body: Any) -> None:
    with pytest.raises(TypeError):
        Message("orders", body)


@given(
    st.text(), st.lists(st.text(), max_size=3), st.dictionaries(st.text(), st.text(), max_size=3)
)
def test_what_is_accepted_comes_back_from_the_text_form(
    tags: str, keys: list[str], user: dict[str, str]
) -> None:
    try:
        message = Message("orders", b"", tags=tags, keys=keys, properties=user)
    except RocketPipeError:
        return
    read = _stored(raw_properties=properties.encode_bytes(message.all_properties()))
    assert (read.tags, read.keys, read.user_properties) == (tags, tuple(keys), user)


def test_the_message_id_is_the_producers_or_else_the_place() -> None:
    assert _stored().message_id == "0A00000100002A9F0000000000001000"
    keyed = _stored(raw_properties=b"UNIQ_KEY\x010A000003303911D4CDDB1E0E4F0B0000\x02")
    assert keyed.message_id == "0A000003303911D4CDDB1E0E4F0B0000"
    assert keyed.offset_id == "0A00000100002A9F0000000000001000"


def test_a_stored_message_answers_from_its_properties() -> None:
    message = _stored(
        raw_properties=b"TAGS\x01paid\x02KEYS\x01A1 B2\x02WAIT\x01false\x02DELAY\x013\x02mine\x01x",
        sys_flag=8,
    )
    assert message.tags == "paid"
    assert message.keys == ("A1", "B2")
    assert not message.wait_stored
    assert message.delay_level == 3
    assert message.user_properties == {"mine": "x"}
    assert message.transaction is Transaction.COMMITTED
    assert message.properties is message.properties  # parsed once


def test_without_properties_the_answers_are_the_defaults() -> None:
    message = _stored()
    assert message.tags is None
    assert message.keys == ()
    assert message.wait_stored
    assert message.delay_level == 0
    assert _stored(raw_properties=b"DELAY\x01x\x02").delay_level == 0


def test_a_changed_copy_does_not_keep_the_old_properties() -> None:
    message = _stored(raw_properties=b"a\x011\x02")
    assert message.properties == {"a": "1"}
    changed = dataclasses.replace(message, raw_properties=b"a\x012\x02")
    assert changed.properties == {"a": "2"}
    assert changed != message
    assert dataclasses.replace(changed, raw_properties=b"a\x011\x02") == message


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"body": "text"}, r"a body is bytes, not str: give text\.encode\(\)"),
        ({"body": {"a": 1}}, "a body is bytes, not dict: give json"),
        ({"topic": None}, "topic: None is NoneType, not str"),
        ({"tags": ["a"]}, "tags: .* is list, not str; a message has one tag"),
        ({"keys": [1]}, "keys: 1 is int, not str"),
        ({"properties": {"a": 1}}, "properties: 1 is int, not str"),
        ({"properties": {1: "a"}}, "properties: 1 is int, not str"),
    ],
)
def test_what_is_of_the_wrong_type_is_named(given: dict[str, Any], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        Message(**{"topic": "t", "body": b"x", **given})


def test_an_error_of_no_byte_names_none() -> None:
    with pytest.raises(PropertiesError) as caught:
        Message("t", b"x", delay_ms=-1)
    assert "at byte" not in str(caught.value)
    assert caught.value.at == 0
