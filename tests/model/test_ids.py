from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import InvalidName
from rocketpipe.model.host import Host
from rocketpipe.model.ids import (
    OffsetId,
    RecallHandle,
    ReceiptHandle,
    RetryKind,
    UniqueKey,
    UniqueKeys,
    offset_id,
)
from rocketpipe.model.offsets import LogOffset

LOCAL_IP = bytes([10, 0, 0, 3])
MID_MONTH_MS = int(datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC).timestamp() * 1000)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
WORD = st.text(
    st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1, max_size=40
)


def _keys(zone: Any = UTC) -> UniqueKeys:
    return UniqueKeys(LOCAL_IP, 0x3039, 0x11D4CDDB, zone)


# Offset ids


def test_an_offset_id_is_that_of_apache() -> None:
    # messages.md vector, from Apache's MessageDecoder
    found = OffsetId(Host(bytes([10, 0, 0, 1]), 10911), LogOffset(4096))
    assert str(found) == "0A00000100002A9F0000000000001000"
    assert OffsetId.parse("0A00000100002A9F0000000000001000") == found


def test_offset_ids_of_both_widths_are_those_of_apache_5_3_3(apache: dict[str, Any]) -> None:
    assert {len(case["offset_id"]) for case in apache["records"]} == {32, 56}
    for case in apache["records"]:
        parsed = OffsetId.parse(case["offset_id"])
        assert parsed.log_offset == case["log_offset"]
        assert parsed.host.port == 10911
        assert str(parsed) == case["offset_id"]


@given(
    st.sampled_from([4, 16]).flatmap(lambda n: st.binary(min_size=n, max_size=n)),
    st.integers(0, 65535),
    INT64,
)
def test_an_offset_id_is_read_back(ip: bytes, port: int, log_offset: int) -> None:
    written = OffsetId(Host(ip, port), LogOffset(log_offset))
    assert OffsetId.parse(str(written)) == written
    assert OffsetId.parse(str(written).lower()) == written
    assert offset_id(written.host.pack(), log_offset) == str(written)


@pytest.mark.parametrize(
    "text", ["", "0A", "0" * 31, "0" * 33, "G" * 32, "0" * 40, " " * 32, "é" * 32]
)
def test_what_is_no_offset_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="offset id"):
        OffsetId.parse(text)


def test_an_id_that_a_producer_gave_is_no_offset_id() -> None:
    key = UniqueKeys(bytes([10, 0, 0, 1]), 4711, 1).next(0)
    with pytest.raises(InvalidName, match="an id that a producer gave"):
        OffsetId.parse(key)


# Unique keys


def test_keys_of_apache_5_3_3_are_taken_apart(apache: dict[str, Any]) -> None:
    assert {len(case["key"]) for case in apache["unique_keys"]} == {32, 56}
    for case in apache["unique_keys"]:
        key = UniqueKey.parse(case["key"], case["now_ms"], UTC)
        assert key.process_id == case["pid"]
        assert key.made_ms == case["made_ms"]
        assert case["not_before"] <= key.made_ms <= case["now_ms"]


def test_a_key_made_from_the_same_parts_is_the_one_apache_made(apache: dict[str, Any]) -> None:
    for case in apache["unique_keys"]:
        key = UniqueKey.parse(case["key"], case["now_ms"], UTC)
        keys = UniqueKeys(key.ip, key.process_id, key.loader, UTC)
        for _ in range(key.counter):
            keys.next(key.made_ms)
        assert keys.next(key.made_ms) == case["key"]


def test_a_key_says_who_made_it_and_when() -> None:
    keys = _keys()
    for counter in range(3):
        text = keys.next(MID_MONTH_MS + counter)
        assert len(text) == 32
        assert text == text.upper()
        key = UniqueKey.parse(text, MID_MONTH_MS + 60_000, UTC)
        assert key == UniqueKey(LOCAL_IP, 0x3039, 0x11D4CDDB, MID_MONTH_MS + counter, counter)


def test_ipv6_makes_56_digits() -> None:
    assert len(UniqueKeys(bytes(16), 1, 1).next(MID_MONTH_MS)) == 56


def test_65536_keys_of_one_millisecond_differ() -> None:
    keys = _keys()
    made = {keys.next(MID_MONTH_MS) for _ in range(65536)}
    assert len(made) == 65536
    assert keys.next(MID_MONTH_MS) in made  # the counter starts over


def test_the_month_turns_while_keys_are_made() -> None:
    keys = _keys()
    december_ms = int(datetime(2023, 12, 1, tzinfo=UTC).timestamp() * 1000)
    before = UniqueKey.parse(keys.next(december_ms - 1), december_ms + 1, UTC)
    after = keys.next(december_ms)
    assert before.made_ms == december_ms - 1  # read in December: it is of the month before
    assert after[20:28] == "00000000"


def test_the_month_begins_in_the_zone_of_the_process() -> None:
    shanghai = timezone(timedelta(hours=8))
    begin_ms = int(datetime(2023, 11, 1, tzinfo=shanghai).timestamp() * 1000)
    assert _keys(shanghai).next(begin_ms)[20:28] == "00000000"
    assert _keys(UTC).next(begin_ms)[20:28] != "00000000"


def test_a_month_of_31_days_does_not_overflow() -> None:
    last_ms = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000) - 1
    keys = _keys()
    key = UniqueKey.parse(keys.next(last_ms), last_ms + 1, UTC)
    assert key.made_ms == last_ms


def test_a_clock_that_steps_back_over_the_month_stands_still() -> None:
    keys = _keys()
    december_ms = int(datetime(2023, 12, 1, tzinfo=UTC).timestamp() * 1000)
    keys.next(december_ms + 5)
    assert keys.next(december_ms - 999)[20:28] == "00000000"


@pytest.mark.parametrize("text", ["", "x" * 32, "0" * 34])
def test_what_is_no_unique_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="unique key"):
        UniqueKey.parse(text, MID_MONTH_MS)


# Receipt handles

EXTRA_INFO = "100 1700000000000 60000 3 0 broker-a 2 101"


def test_a_receipt_handle_is_that_of_apache() -> None:
    # messages.md vector, from Apache's ExtraInfoUtil
    handle = ReceiptHandle(
        start_offset=100,
        pop_ms=1700000000000,
        invisible_ms=60000,
        revive_queue_id=3,
        retry=RetryKind.of("T"),
        broker="broker-a",
        queue_id=2,
        queue_offset=101,
    )
    assert str(handle) == EXTRA_INFO
    assert ReceiptHandle.parse(EXTRA_INFO) == handle
    assert handle.visible_at_ms == 1700000060000
    assert not handle.is_ordered


@pytest.mark.parametrize(
    ("popped", "field"), [("T", "0"), ("%RETRY%g_T", "1"), ("%RETRY%g+T", "2"), ("%RETRY%g", "1")]
)
def test_the_fifth_field_tells_the_kind_of_retry(popped: str, field: str) -> None:
    kind = RetryKind.of(popped)
    assert str(int(kind)) == field
    text = EXTRA_INFO.replace(" 3 0 ", f" 3 {field} ")
    assert ReceiptHandle.parse(text).retry is kind


def test_the_kind_of_retry_names_the_topic_that_was_popped() -> None:
    assert RetryKind.NORMAL.topic("T", "g") == "T"
    assert RetryKind.RETRY_V1.topic("T", "g") == "%RETRY%g_T"
    assert RetryKind.RETRY_V2.topic("T", "g") == "%RETRY%g+T"


def test_short_and_long_forms_are_read() -> None:
    short = ReceiptHandle.parse("100 1700000000000 60000 999 0 broker-a 2")
    assert short.queue_offset is None
    assert short.is_ordered
    long = ReceiptHandle.parse(EXTRA_INFO + " 4096")
    assert (long.queue_offset, long.log_offset) == (101, 4096)


@given(INT64, INT64, INT64, INT32, st.sampled_from(RetryKind), WORD, INT32, INT64, INT64)
def test_a_receipt_handle_is_read_back(
    start: int,
    popped: int,
    hidden: int,
    revive: int,
    retry: RetryKind,
    broker: str,
    queue: int,
    offset: int,
    log: int,
) -> None:
    handle = ReceiptHandle(
        start_offset=start,
        pop_ms=popped,
        invisible_ms=hidden,
        revive_queue_id=revive,
        retry=retry,
        broker=broker,
        queue_id=queue,
        queue_offset=offset,
        log_offset=log,
    )
    assert ReceiptHandle.parse(str(handle)) == handle


@pytest.mark.parametrize(
    "text",
    [
        "",
        "100",
        EXTRA_INFO.removesuffix(" 2 101"),
        EXTRA_INFO + " 1 2",
        EXTRA_INFO.replace("100", "x"),
        EXTRA_INFO.replace("100", "1_0"),
        EXTRA_INFO.replace(" 3 0 ", " 3 7 "),
        EXTRA_INFO.replace(" 3 0 ", " 3000000000 0 "),
        EXTRA_INFO.replace("101", "9" * 19),
        EXTRA_INFO.replace("101", "9" * 400),
        EXTRA_INFO.replace("broker-a", ""),
        "1 " * 10_000,
    ],
)
def test_what_is_no_receipt_handle_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="receipt handle"):
        ReceiptHandle.parse(text)


# Recall handles

RECALL = "djEgVCBicm9rZXItYSAxNzAwMDAwMDYwMDAwIDBBMDAwMDAzMzAzOTExRDRDRERCMUUwRTRGMEIwMDAw"


def test_a_recall_handle_is_that_of_apache() -> None:
    # messages.md vector, from Apache's RecallMessageHandle
    handle = RecallHandle(
        topic="T",
        broker="broker-a",
        deliver_ms=1700000060000,
        unique_key="0A000003303911D4CDDB1E0E4F0B0000",
    )
    assert str(handle) == RECALL
    assert RecallHandle.parse(RECALL) == handle


@given(WORD, WORD, INT64, WORD)
def test_a_recall_handle_is_read_back_with_or_without_padding(
    topic: str, broker: str, deliver_ms: int, key: str
) -> None:
    handle = RecallHandle(topic=topic, broker=broker, deliver_ms=deliver_ms, unique_key=key)
    assert RecallHandle.parse(str(handle)) == handle
    assert RecallHandle.parse(str(handle).rstrip("=")) == handle


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!",
        RECALL[:-3] + "é",
        RECALL + "*",
        RECALL[:21],
        "djIgVCBiIDEgaw==",  # v2 T b 1 k
        "djEgVCBiIDEgayB4",  # six parts
        "djEgVCBiIHggaw==",  # x for a time
        "djEgIGIgMSBr",  # no topic
        "/////w==",
        "_____w==",  # not UTF-8
        "A" * 5000,
    ],
)
def test_what_is_no_recall_handle_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="recall handle"):
        RecallHandle.parse(text)


def test_keys_that_are_taken_together_are_those_that_come_one_by_one() -> None:
    together, singly = _keys(), _keys()
    for count in (1, 0, 3):
        expected = [singly.next(MID_MONTH_MS + count) for _ in range(count)]
        assert together.take(count, MID_MONTH_MS + count) == expected
    assert together.next(MID_MONTH_MS) == singly.next(MID_MONTH_MS)
