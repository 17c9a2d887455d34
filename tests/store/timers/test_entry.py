"""An entry is the message that it stands for, and due times are those of the producer."""

from __future__ import annotations

import pytest

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.timers.entry import (
    ENTRY_BYTES,
    FIRST_AT,
    KIND_AT,
    PLACE_BYTES,
    Timed,
    due_ms,
    forgotten,
    hashed,
    origin_text,
    origins_in,
    out_ms,
)


def timed(log_offset: int, *, at_ms: int = 10_000, origin: int = 0) -> Timed:
    return Timed(
        due_ms=10_000,
        log_offset=LogOffset(log_offset),
        size=90,
        queue_offset=QueueOffset(3),
        out_ms=9_000,
        key=hashed("orders+u1"),
        topic=-77,
        stored_ms=5_000,
        origin=LogOffset(origin),
        at_ms=at_ms,
    )


@pytest.mark.parametrize(
    ("deliver_ms", "out"),
    [(10_000, 9_000), (10_001, 10_000), (10_999, 10_000), (11_000, 10_000), (1, 0)],
)
def test_the_second_before_is_what_rocketmq_notes(deliver_ms: int, out: int) -> None:
    assert out_ms(deliver_ms) == out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"TIMER_DELIVER_MS\x0110500\x02", 10_500),
        (b"TIMER_DELIVER_MS\x0111000\x02", 11_000),
        (b"TIMER_DELAY_MS\x015300\x02", 10_300),  # stored at 5,000
        (b"TIMER_DELAY_SEC\x016\x02", 11_000),
        (b"TIMER_DELAY_SEC\x016\x02TIMER_DELIVER_MS\x0110500\x02", 11_000),
        (b"", 11_000),
        (b"TIMER_DELAY_MS\x01999999\x02", 11_000),  # put again: the delay is an old one
        (b"TIMER_DELIVER_MS\x01never\x02", 11_000),
        (b"TIMER_DELIVER_MS\x01" + b"9" * 400 + b"\x02", 11_000),
    ],
)
def test_no_due_time_is_before_that_of_rocketmq(text: bytes, expected: int) -> None:
    assert due_ms(text, 10_000, 5_000) == expected


def test_an_entry_says_all_of_a_message() -> None:
    for each in (timed(0), timed(1 << 62, at_ms=(1 << 62) - 1, origin=1 << 61)):
        entry = each.entry()
        assert len(entry) == ENTRY_BYTES
        assert (entry[KIND_AT], entry[FIRST_AT]) == (1, 1)
        assert Timed.of(entry) == each
        assert entry[:PLACE_BYTES] == each.place


def test_of_one_place_that_it_is_gone_comes_first_and_then_the_newest_record() -> None:
    gone = forgotten(timed(0).place, 7)
    entries = [timed(100).entry(), timed(500).entry(first=False), gone, timed(300).entry()]
    assert sorted(entries) == [gone, entries[1], entries[3], entries[0]]


def test_entries_are_in_the_order_of_their_times_and_then_of_sending() -> None:
    given = [timed(5, at_ms=20, origin=5), timed(6, at_ms=20, origin=6), timed(2, at_ms=21)]
    entries = [each.entry() for each in given]
    entries.reverse()
    assert [Timed.of(entry) for entry in sorted(entries)] == given


def test_an_origin_is_read_as_it_was_written() -> None:
    some = [timed(100, origin=7), timed(200, at_ms=11_000, origin=1 << 60)]
    assert origin_text(some) == f"10000+7,10000+{1 << 60}+11000"
    first, second = origins_in(origin_text(some).encode())
    assert first.place == first.when_due == some[0].place
    assert second.place == some[1].place
    assert second.when_due == timed(0, origin=1 << 60).place


@pytest.mark.parametrize(
    "text", [b"", b"+", b"1", b"1+2,", b"1+2+3+4", b"-1+2", b"1+x", b"9" * 20 + b"+1", b"1 +2"]
)
def test_what_is_no_origin_says_nothing(text: bytes) -> None:
    assert origins_in(text) == []
