"""Both HA dialects: the bytes of RocketMQ, every way they arrive, and bytes that are none."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.broker.replication.epochs import MAX_ENTRIES, EpochEntry
from rocketpipe.broker.replication.frames import (
    MAX_TRANSFER_BYTES,
    Dialect,
    FollowerSide,
    Handshake,
    HaProtocolError,
    LeaderHello,
    LeaderSide,
    Report,
    Transfer,
)

GIB = 1 << 30
#: The offsets whose 8 bytes are a handshake's first half.
LOOK_ALIKES = [4 * GIB, 4 * GIB + 1, 4 * GIB + 0x10000, 4 * GIB + 0x10001]

HANDSHAKE = bytes.fromhex("00000001 0000 0001 0000000000000003")
REPORT = bytes.fromhex("00000002 0000000000012345")
PLAIN_REPORT = bytes.fromhex("0000000000012345")
HELLO = bytes.fromhex(
    "00000001 00000018 0000000000002000 0000000300000001 0000000000000000 00000003 0000000000001000"
)
TRANSFER = bytes.fromhex(
    "00000002 00000004 0000000000001ffc 00000003 0000000000001000 0000000000001ff8 61626364"
)
HEARTBEAT = bytes.fromhex(
    "00000002 00000000 0000000000002000 00000003 0000000000001000 0000000000002000"
)
PLAIN_TRANSFER = bytes.fromhex("0000000000001ffc 00000004 61626364")
PLAIN_HEARTBEAT = bytes.fromhex("0000000000002000 00000000")

ENTRIES = (EpochEntry(1, 0), EpochEntry(3, 0x1000))


def leader(dialect: Dialect) -> LeaderSide:
    side = LeaderSide()
    side.receive(HANDSHAKE if dialect is Dialect.EPOCHS else PLAIN_REPORT)
    assert side.dialect is dialect
    return side


def joined(events: Sequence[LeaderHello | Transfer]) -> list[LeaderHello | Transfer]:
    """The events with the pieces of each frame put together."""
    whole: list[LeaderHello | Transfer] = []
    for event in events:
        last = whole[-1] if whole else None
        if isinstance(event, Transfer):
            event = Transfer(
                event.offset, bytes(event.data), event.epoch, event.epoch_start, event.confirmed
            )
            if (
                isinstance(last, Transfer)
                and event.data
                and last.data
                and last.offset + len(last.data) == event.offset
            ):
                event = Transfer(
                    last.offset,
                    bytes(last.data) + bytes(event.data),
                    event.epoch,
                    event.epoch_start,
                    event.confirmed,
                )
                whole.pop()
        whole.append(event)
    return whole


# What is written


def test_a_follower_writes_what_rocketmq_s_slaves_do() -> None:
    epochs, plain = FollowerSide(Dialect.EPOCHS), FollowerSide(Dialect.PLAIN)
    assert epochs.handshake(3, learner=True) == HANDSHAKE
    assert epochs.handshake(3, from_last_file=True)[4:8] == b"\0\1\0\0"
    assert epochs.report(0x12345) == REPORT
    assert plain.report(0x12345) == PLAIN_REPORT


def test_a_leader_writes_what_rocketmq_s_masters_do() -> None:
    epochs, plain = leader(Dialect.EPOCHS), leader(Dialect.PLAIN)
    assert epochs.hello(0x2000, 3, ENTRIES) == HELLO
    assert epochs.transfer_head(0x1FFC, 4, 3, 0x1000, 0x1FF8) + b"abcd" == TRANSFER
    assert epochs.transfer_head(0x2000, 0, 3, 0x1000, 0x2000) == HEARTBEAT
    assert plain.transfer_head(0x1FFC, 4, 3, 0x1000, 0x1FF8) + b"abcd" == PLAIN_TRANSFER
    assert plain.transfer_head(0x2000, 0) == PLAIN_HEARTBEAT


def test_of_too_many_epochs_the_newest_are_told() -> None:
    entries = [EpochEntry(epoch, epoch * 10) for epoch in range(MAX_ENTRIES + 5)]
    text = LeaderSide().hello(10**6, MAX_ENTRIES + 4, entries)
    assert FollowerSide(Dialect.EPOCHS).receive(text) == [
        LeaderHello(10**6, MAX_ENTRIES + 4, tuple(entries[5:]))
    ]


# What is read, however it arrives


def splits(data: bytes) -> Iterator[list[bytes]]:
    """Cut once at each place, then everywhere."""
    for at in range(len(data) + 1):
        yield [data[:at], data[at:]]
    yield [data[at : at + 1] for at in range(len(data))]


@pytest.mark.parametrize(
    ("dialect", "stream", "events"),
    [
        (
            Dialect.EPOCHS,
            HELLO + TRANSFER + HEARTBEAT + TRANSFER,
            [
                LeaderHello(0x2000, 3, ENTRIES),
                Transfer(0x1FFC, b"abcd", 3, 0x1000, 0x1FF8),
                Transfer(0x2000, b"", 3, 0x1000, 0x2000),
                Transfer(0x1FFC, b"abcd", 3, 0x1000, 0x1FF8),
            ],
        ),
        (
            Dialect.PLAIN,
            PLAIN_TRANSFER + PLAIN_HEARTBEAT + PLAIN_TRANSFER,
            [Transfer(0x1FFC, b"abcd"), Transfer(0x2000, b""), Transfer(0x1FFC, b"abcd")],
        ),
    ],
)
def test_a_follower_reads_the_same_however_it_is_cut(
    dialect: Dialect, stream: bytes, events: list[LeaderHello | Transfer]
) -> None:
    for parts in splits(stream):
        side = FollowerSide(dialect)
        assert joined([event for part in parts for event in side.receive(part)]) == events


@pytest.mark.parametrize(
    ("dialect", "stream", "events"),
    [
        (
            Dialect.EPOCHS,
            HANDSHAKE + REPORT + REPORT,
            [Handshake(3, False, True), Report(0x12345), Report(0x12345)],
        ),
        (Dialect.PLAIN, PLAIN_REPORT * 2, [Report(0x12345)] * 2),
    ],
)
def test_a_leader_reads_the_same_however_it_is_cut(
    dialect: Dialect, stream: bytes, events: list[Handshake | Report]
) -> None:
    for parts in splits(stream):
        side = LeaderSide()
        assert [event for part in parts for event in side.receive(part)] == events
        assert side.dialect is dialect


def test_a_piece_of_a_frame_is_given_before_the_frame_is_whole() -> None:
    side = FollowerSide(Dialect.PLAIN)
    assert joined(side.receive(PLAIN_TRANSFER[:-1])) == [Transfer(0x1FFC, b"abc")]
    assert joined(side.receive(PLAIN_TRANSFER[-1:])) == [Transfer(0x1FFF, b"d")]


# Which dialect


@pytest.mark.parametrize("end", LOOK_ALIKES)
def test_a_plain_report_that_looks_like_a_handshake_is_told_by_what_does_not_follow(
    end: int,
) -> None:
    side = LeaderSide()
    assert side.receive(struct.pack(">q", end)) == []
    assert side.undecided
    assert side.dialect is None
    assert side.timed_out() == [Report(end)]
    assert side.dialect is Dialect.PLAIN
    assert not side.undecided
    assert side.timed_out() == []
    assert side.receive(struct.pack(">q", end + 9)) == [Report(end + 9)]


@pytest.mark.parametrize("end", [0, 1, 4 * GIB - 1, 4 * GIB + 2, 4 * GIB + 0x20000, 5 * GIB])
def test_other_offsets_are_plain_at_once(end: int) -> None:
    side = LeaderSide()
    assert side.receive(struct.pack(">q", end)) == [Report(end)]
    assert side.dialect is Dialect.PLAIN


def test_a_handshake_in_two_halves_is_one_if_the_second_comes_in_time() -> None:
    side = LeaderSide()
    assert side.receive(HANDSHAKE[:8]) == []
    assert side.undecided
    assert side.receive(HANDSHAKE[8:]) == [Handshake(3, False, True)]
    assert side.dialect is Dialect.EPOCHS


def test_a_handshake_that_stops_in_its_second_half_is_refused() -> None:
    side = LeaderSide()
    side.receive(HANDSHAKE[:13])
    with pytest.raises(HaProtocolError, match="13 bytes of a handshake"):
        side.timed_out()


def test_less_than_8_bytes_tell_nothing_however_long_one_waits() -> None:
    side = LeaderSide()
    side.receive(HANDSHAKE[:7])
    assert not side.undecided
    assert side.timed_out() == []
    assert side.dialect is None


# What is refused


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">ihhq", 1, 0, 0, -1), "replica -1"),
        (HANDSHAKE + HANDSHAKE, "state 1 where reports"),
        (HANDSHAKE + struct.pack(">iq", 2, -1), "offset -1"),
        (struct.pack(">q", -5), "offset -5"),
        (PLAIN_REPORT + struct.pack(">q", -5), "offset -5"),
    ],
)
def test_a_leader_refuses(data: bytes, reason: str) -> None:
    with pytest.raises(HaProtocolError, match=reason):
        LeaderSide().receive(data)


def head(n: int, offset: int, epoch: int = 3, start: int = 0, confirmed: int = 0) -> bytes:
    return struct.pack(">iiqiqq", 2, n, offset, epoch, start, confirmed)


@pytest.mark.parametrize(
    ("dialect", "data", "reason"),
    [
        (Dialect.EPOCHS, TRANSFER, "state 2 where the leader's hello"),
        (Dialect.EPOCHS, b"HTTP/1.1 400 Bad Request\r\n", "where the leader's hello"),
        (Dialect.EPOCHS, struct.pack(">iiqi", 1, 12 * 1001, 0, 1), "12012 bytes of epochs"),
        (Dialect.EPOCHS, struct.pack(">iiqi", 1, -12, 0, 1), "-12 bytes of epochs"),
        (Dialect.EPOCHS, struct.pack(">iiqi", 1, 13, 0, 1), "13 bytes of epochs"),
        (Dialect.EPOCHS, struct.pack(">iiqiiq", 1, 12, 9, 1, 1, 10), "ends at 9"),
        (Dialect.EPOCHS, struct.pack(">iiqiiq", 1, 12, 9, 1, 2, 0), "epoch 1 that"),
        (Dialect.EPOCHS, struct.pack(">iiqiiqiq", 1, 24, 9, 5, 5, 0, 4, 1), "not in order"),
        (Dialect.EPOCHS, struct.pack(">iiqiiqiq", 1, 24, 9, 5, 4, 1, 5, 1), "not in order"),
        (Dialect.EPOCHS, HELLO + HELLO, "state 1 where transfers"),
        (Dialect.EPOCHS, HELLO + head(MAX_TRANSFER_BYTES + 1, 0), "transfer of 4194305"),
        (Dialect.EPOCHS, HELLO + head(-1, 0), "transfer of -1"),
        (Dialect.EPOCHS, HELLO + head(1, -1, 3, -1), "bytes from -1"),
        (Dialect.EPOCHS, HELLO + head(2, 5, 3, 6), "epoch 3 from 6"),
        (Dialect.EPOCHS, HELLO + head(0, 5, 3, 6), "epoch 3 from 6"),
        (Dialect.EPOCHS, HELLO + head(1, 5, -1, 0), "epoch -1"),
        (Dialect.PLAIN, struct.pack(">qi", 0, MAX_TRANSFER_BYTES + 1), "transfer of 4194305"),
        (Dialect.PLAIN, struct.pack(">qi", 0, -1), "transfer of -1"),
        (Dialect.PLAIN, struct.pack(">qi", -1, 0), "from -1"),
    ],
)
def test_a_follower_refuses(dialect: Dialect, data: bytes, reason: str) -> None:
    with pytest.raises(HaProtocolError, match=reason):
        FollowerSide(dialect).receive(data)


def test_the_longest_transfer_is_read() -> None:
    side = FollowerSide(Dialect.PLAIN)
    data = bytes(MAX_TRANSFER_BYTES)
    events = side.receive(struct.pack(">qi", 7, len(data)) + data)
    assert joined(events) == [Transfer(7, data)]


def receivers() -> list[Callable[[], LeaderSide | FollowerSide]]:
    return [
        LeaderSide,
        lambda: FollowerSide(Dialect.PLAIN),
        lambda: FollowerSide(Dialect.EPOCHS),
    ]


@given(
    kind=st.sampled_from(receivers()),
    start=st.sampled_from([b"", HANDSHAKE, HELLO, HELLO + TRANSFER[:30], PLAIN_TRANSFER]),
    data=st.binary(max_size=300),
    cuts=st.lists(st.integers(0, 300), max_size=5),
)
def test_garbage_is_refused_or_read_the_same_in_any_pieces(
    kind: Callable[[], LeaderSide | FollowerSide], start: bytes, data: bytes, cuts: list[int]
) -> None:
    stream = start + data
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    outcomes = []
    for parts in ([stream], [stream[a:b] for a, b in pairwise(places)]):
        side = kind()
        events: list[object] = []
        try:
            for part in parts:
                events += side.receive(part)
        except HaProtocolError:
            outcomes.append("refused")
            continue
        told = [event for event in events if isinstance(event, LeaderHello | Transfer)]
        outcomes.append(repr(joined(told) if told else events))
        assert len(side._kept) < 20 + 12 * MAX_ENTRIES
    assert outcomes[0] == outcomes[1]
