"""Header fields: names, widths, and what is missing."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import HeaderError, LocalProtocolError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.fields import I32, camel, codec_for, json_body, raw_body, wire


class Mode(enum.Enum):
    PULL = 1
    POP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    group_name: str
    queue_id: I32 = wire(short="q")
    offset: QueueOffset
    at_ms: int = 0
    force: bool = wire("isForce", default=False)
    mode: Mode | None = None
    limit: I32 | None = None
    misspelt: str | None = wire("proxyFrowardClientId", short="p", default=None)
    body: bytes = raw_body(default=b"")
    table: Any = json_body(default=None)


NEEDED = {"groupName": "g", "queueId": "3", "offset": "9"}
samples = st.builds(
    Sample,
    group_name=st.text(),
    queue_id=st.integers(-(1 << 31), (1 << 31) - 1),
    offset=st.integers(-(1 << 63), (1 << 63) - 1),
    at_ms=st.integers(-(1 << 63), (1 << 63) - 1),
    force=st.booleans(),
    mode=st.none() | st.sampled_from(Mode),
    limit=st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
    misspelt=st.none() | st.text(),
)


@given(samples, st.booleans(), st.booleans())
def test_a_value_survives_in_either_spelling(sample: Sample, written: bool, read: bool) -> None:
    codec = codec_for(Sample)
    fields = codec.encode(sample, short=written)
    assert all(isinstance(value, str) for value in fields.values())
    assert Sample(**codec.decode(fields, short=read)) == sample


def test_names_are_those_of_the_wire() -> None:
    codec = codec_for(Sample)
    sample = Sample(group_name="g", queue_id=3, offset=QueueOffset(9), force=True, mode=Mode.POP)
    assert codec.encode(sample) == {
        **NEEDED,
        "atMs": "0",
        "isForce": "true",
        "mode": "POP",
    }
    assert codec.encode(dataclasses.replace(sample, misspelt="x"), short=True) == {
        "groupName": "g",
        "q": "3",
        "offset": "9",
        "atMs": "0",
        "isForce": "true",
        "mode": "POP",
        "p": "x",
    }


def test_the_spelling_of_the_code_wins_when_both_are_there() -> None:
    codec = codec_for(Sample)
    fields = {**NEEDED, "q": "4"}
    assert codec.decode(fields)["queue_id"] == 3
    assert codec.decode(fields, short=True)["queue_id"] == 4


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_field_is_named(name: str) -> None:
    fields = {key: value for key, value in NEEDED.items() if key != name}
    with pytest.raises(HeaderError, match=f"the custom field <{name}> is null"):
        codec_for(Sample).decode(fields)


def test_defaults_stand_in_and_unknown_fields_are_ignored() -> None:
    values = codec_for(Sample).decode({**NEEDED, "AccessKey": "", "OnsChannel": "ALIYUN"})
    assert values == {"group_name": "g", "queue_id": 3, "offset": 9}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("queueId", ""),
        ("queueId", "x"),
        ("queueId", "1.0"),
        ("queueId", "0x1"),
        ("queueId", "1_000"),
        ("queueId", " 1"),
        ("queueId", "--1"),
        ("queueId", "٣"),
        ("queueId", "2147483648"),
        ("queueId", "-2147483649"),
        ("queueId", "9" * 5000),
        ("q", "true"),
        ("offset", "9223372036854775808"),
        ("offset", "-9223372036854775809"),
        ("atMs", "now"),
        ("mode", "PUSH"),
        ("mode", "2"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_and_cut_short(name: str, text: str) -> None:
    fields = {key: value for key, value in NEEDED.items() if name != "q" or key != "queueId"}
    with pytest.raises(HeaderError, match="Sample") as caught:
        codec_for(Sample).decode({**fields, name: text})
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("text", "value"),
    [("2147483647", 2147483647), ("-2147483648", -2147483648), ("+5", 5), ("007", 7)],
)
def test_whole_numbers_are_read_as_java_reads_them(text: str, value: int) -> None:
    assert codec_for(Sample).decode({**NEEDED, "queueId": text})["queue_id"] == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("TRUE", True), ("1", True), ("0", False), ("false", False), ("yes", False)],
)
def test_truth_is_read_as_java_reads_it(text: str, value: bool) -> None:
    assert codec_for(Sample).decode({**NEEDED, "isForce": text})["force"] is value


def test_what_a_header_cannot_carry_is_not_written() -> None:
    sample = Sample(group_name=b"g", queue_id=3, offset=QueueOffset(9))  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="bytes"):
        codec_for(Sample).encode(sample)


def test_camel() -> None:
    assert camel("queue_id") == "queueId"
    assert camel("topic") == "topic"
    assert camel("default_topic_queue_nums") == "defaultTopicQueueNums"


def test_an_enum_is_named_in_any_letter_case() -> None:
    assert codec_for(Sample).decode({**NEEDED, "mode": "pop"})["mode"] is Mode.POP


def test_a_codec_is_made_once() -> None:
    assert codec_for(Sample) is codec_for(Sample)
