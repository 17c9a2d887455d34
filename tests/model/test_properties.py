from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import PropertiesError
from rocketpipe.model import properties
from rocketpipe.model.properties import (
    RESERVED,
    check_user_property,
    decode,
    decode_bytes,
    edited,
    encode,
    encode_bytes,
    join_keys,
    read_text,
    split_keys,
)

TEXT = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=30
)
PROPERTIES = st.dictionaries(TEXT, TEXT, max_size=8)


def test_the_reader_keeps_and_drops_what_apache_does() -> None:
    # messages.md vector, from Apache's MessageDecoder
    assert decode("a\x011\x02b\x01\x02\x013\x02c\x014") == {"a": "1", "c": "4"}


def test_odd_texts_are_read_as_by_apache_5_3_3(apache: dict[str, Any]) -> None:
    assert len(apache["properties"]) == 15
    for text, expected in apache["properties"].items():
        assert decode(text) == expected, repr(text)


def test_malformed_utf8_is_read_as_by_java_17(apache: dict[str, Any]) -> None:
    assert len(apache["malformed_utf8_to_utf16"]) == 16
    for raw, units in apache["malformed_utf8_to_utf16"].items():
        assert read_text(bytes.fromhex(raw)).encode("utf-16-be").hex() == units, raw


@given(PROPERTIES)
def test_what_was_written_is_read_back(written: dict[str, str]) -> None:
    assert decode(encode(written)) == written
    assert list(decode(encode(written))) == list(written)
    assert decode_bytes(encode_bytes(written)) == written


@given(PROPERTIES)
def test_the_last_separator_may_be_missing(written: dict[str, str]) -> None:
    # 4.9.8 leaves it out
    assert decode(encode(written).removesuffix("\x02")) == written


@given(st.binary(max_size=200))
def test_any_bytes_can_be_read(raw: bytes) -> None:
    for name, value in decode_bytes(raw).items():
        assert name
        assert value
        assert "\x02" not in name + value


@given(st.text(alphabet="ab\x01\x02", max_size=40))
def test_texts_without_a_name_or_value_never_show(text: str) -> None:
    assert all(name and value and "\x01" not in name for name, value in decode(text).items())


def test_none_is_left_out_and_the_order_kept() -> None:
    assert encode({"b": "2", "gone": None, "a": "1"}) == "b\x012\x02a\x011\x02"


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ({"": "x"}, "empty"),
        ({"x": ""}, "empty"),
        ({"a\x01b": "x"}, "0x01"),
        ({"a": "x\x02y"}, "0x02"),
        ({"a": "x\x01y"}, "0x01"),
        ({"a": "\ud800"}, "surrogate"),
    ],
)
def test_what_would_not_come_back_is_refused_by_name(written: dict[str, str], word: str) -> None:
    with pytest.raises(PropertiesError, match=word) as caught:
        encode(written)
    assert repr(next(iter(written))) in str(caught.value)


def test_properties_end_at_32767_bytes() -> None:
    fits = {"a": "x" * (32767 - 3)}
    assert len(encode_bytes(fits)) == 32767
    with pytest.raises(PropertiesError, match="32768 bytes"):
        encode_bytes({"a": fits["a"] + "x"})
    with pytest.raises(PropertiesError):  # bytes count, not characters
        encode_bytes({"a": "杭" * 11_000})


def test_the_reserved_names_are_those_of_apache_5_3_3(apache: dict[str, Any]) -> None:
    # The two transient names are not in Apache's set. It never stores them, so they would get lost.
    transient = {properties.TRANSIENT_TOPIC_SYS_FLAG, properties.TRANSIENT_GROUP_SYS_FLAG}
    ours = {properties.TIMER_ORIGIN}
    assert transient | ours | set(apache["reserved"]) == RESERVED


@pytest.mark.parametrize(
    "name",
    [
        properties.INNER_NUM,
        properties.INNER_BASE,
        properties.CHECK_IMMUNITY_SECONDS,
        properties.TRANSACTION_ID,
        properties.TRANSACTION_CHECK_TIMES,
        properties.SHARDING_KEY,
        properties.FORWARD_QUEUE_ID,
        properties.REDIRECT,
        properties.INNER_MULTI_DISPATCH,
        properties.TRACE_CONTEXT,
    ],
)
def test_some_well_known_names_are_for_users(name: str) -> None:
    check_user_property(name, "value")


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(PropertiesError, match="reserved"):
        check_user_property(name, "value")


@pytest.mark.parametrize(("name", "value"), [("", "x"), (" \t", "x"), ("x", ""), ("x", "\x00 \n")])
def test_blank_names_and_values_are_refused(name: str, value: str) -> None:
    with pytest.raises(PropertiesError, match="blank"):
        check_user_property(name, value)


def test_a_value_that_only_python_thinks_blank_is_fine() -> None:
    check_user_property("x", "\u3000")  # Java's trim leaves the ideographic space


def test_keys_are_joined_by_one_blank() -> None:
    assert join_keys(["A1", "B2"]) == "A1 B2"
    assert split_keys("A1 B2") == ("A1", "B2")
    assert split_keys(" A1  B2 ") == ("A1", "B2")
    assert split_keys("") == ()


@pytest.mark.parametrize("key", ["", " ", "A 1", "A\x021", "\udc00"])
def test_a_key_that_would_not_come_back_is_refused(key: str) -> None:
    with pytest.raises(PropertiesError, match="KEYS"):
        join_keys(["fine", key])


def test_an_edit_leaves_everything_else_byte_for_byte() -> None:
    text = b"a\x011\x02\x013\x02odd\x02b\x01\xff\x02a\x012"
    assert edited(text, {"a": None}) == b"\x013\x02odd\x02b\x01\xff\x02"
    assert (
        edited(text, {"b": "x", "c": "y"})
        == b"a\x011\x02\x013\x02odd\x02a\x012\x02b\x01x\x02c\x01y\x02"
    )
    assert edited(b"", {"a": "1", "b": None}) == b"a\x011\x02"
    with pytest.raises(PropertiesError):
        edited(text, {"a": "x\x02y"})


@given(PROPERTIES, PROPERTIES)
def test_an_edit_sets_what_it_is_told(before: dict[str, str], changes: dict[str, str]) -> None:
    assert decode_bytes(edited(encode_bytes(before), changes)) == {**before, **changes}
