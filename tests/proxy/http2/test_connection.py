"""HTTP/2 without a socket: what peers may do, and what ends them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.proxy.http2 import frames
from rocketpipe.proxy.http2.connection import MAX_BLOCK, Connection
from rocketpipe.proxy.http2.frames import HEAD, MAX_FRAME, ErrorCode, Http2Fault, frame
from rocketpipe.proxy.http2.hpack import written
from rocketpipe.proxy.http2.idle_frames import MOST as MOST_IDLE_FRAMES
from rocketpipe.proxy.http2.receiver import Http2Limits, Unread
from rocketpipe.proxy.http2.stream import Stream

SETTINGS = frame(frames.SETTINGS, 0, 0)
BLOCK = written([(":method", "POST"), (":path", "/s/M")])
WHOLE = frames.END_HEADERS | frames.END_STREAM


class Peer:
    """One who is told, and what was sent to it."""

    def __init__(self, streams: int = 10) -> None:
        self.out = bytearray()
        self.told: list[tuple[str, int]] = []
        self.now_s = 0.0
        self.unread = Unread()
        limits = Http2Limits(streams=streams)
        self.connection = Connection(self, self.out.extend, lambda: self.now_s, self.unread, limits)
        self.connection.begin()
        self.connection.feed(SETTINGS)
        self.out.clear()

    def began(self, stream: Stream) -> None:
        self.told.append(("began", stream.number))

    def grew(self, stream: Stream) -> None:
        self.told.append(("grew", stream.number))

    def gone(self, stream: Stream, reason: str) -> None:
        self.told.append(("gone", stream.number))

    def blocked(self, stream: Stream) -> None:
        self.told.append(("blocked", stream.number))

    def taken(self, stream: Stream) -> None:
        self.told.append(("taken", stream.number))

    def ponged(self) -> None:
        self.told.append(("ponged", 0))

    def sent(self) -> list[tuple[int, int, int, bytes]]:
        """Kind, flags, stream and payload of what was sent since the last time."""
        found = list(_frames(bytes(self.out)))
        self.out.clear()
        return found

    def open(self, number: int = 1, flags: int = frames.END_HEADERS) -> Stream:
        self.connection.feed(frame(frames.HEADERS, flags, number, BLOCK))
        return self.connection.streams[number]


def _frames(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    at = 0
    while at < len(data):
        high, low, kind, flags, stream = HEAD.unpack_from(data, at)
        end = at + 9 + (high << 8 | low)
        yield kind, flags, stream, data[at + 9 : end]
        at = end


def fault_of(peer: Peer, data: bytes) -> ErrorCode:
    with pytest.raises(Http2Fault) as fault:
        peer.connection.feed(data)
    return fault.value.code


def test_a_request_in_any_pieces_is_one() -> None:
    data = frame(frames.HEADERS, frames.END_HEADERS, 1, BLOCK) + frame(
        frames.DATA, frames.END_STREAM, 1, b"body"
    )
    for size in (1, 2, 9, 10, len(data)):
        peer = Peer()
        for at in range(0, len(data), size):
            peer.connection.feed(data[at : at + size])
        stream = peer.connection.streams[1]
        assert (bytes(stream.body), stream.ends) == (b"body", True)
        assert stream.headers == [(":method", "POST"), (":path", "/s/M")]


def test_padding_and_priorities_are_not_part_of_it() -> None:
    peer = Peer()
    flags = frames.END_HEADERS | frames.PADDED | frames.WITH_PRIORITY
    peer.connection.feed(frame(frames.HEADERS, flags, 1, b"\3" + bytes(5) + BLOCK + bytes(3)))
    peer.connection.feed(frame(frames.DATA, frames.PADDED, 1, b"\2ab" + bytes(2)))
    stream = peer.connection.streams[1]
    assert bytes(stream.body) == b"ab"
    assert stream.allowed == frames.USUAL_WINDOW - 5  # padding counts


def test_headers_in_several_frames_are_one_block() -> None:
    peer = Peer()
    peer.connection.feed(frame(frames.HEADERS, frames.END_STREAM, 1, BLOCK[:3]))
    assert peer.told == []
    peer.connection.feed(frame(frames.CONTINUATION, frames.END_HEADERS, 1, BLOCK[3:]))
    assert peer.told == [("began", 1)]
    assert peer.connection.streams[1].ends


def test_an_answer_goes_as_far_as_the_windows_let_it() -> None:
    peer = Peer()
    stream = peer.open(flags=WHOLE)
    peer.connection.head(stream, b"")
    assert not peer.connection.write(stream, b"x" * 100_000)
    peer.connection.finish(stream, b"last")
    sent = peer.sent()
    assert sum(len(each[3]) for each in sent if each[0] == frames.DATA) == 65_535
    assert all(len(each[3]) <= MAX_FRAME for each in sent)
    assert peer.unread.bytes == 100_000 - 65_535
    peer.connection.feed(frames.window(1, 50_000))
    assert peer.sent() == []  # the connection's window is used up too
    peer.connection.feed(frames.window(0, 50_000))
    *data, last = peer.sent()
    assert sum(len(each[3]) for each in data) == 34_465
    assert last == (frames.HEADERS, WHOLE, 1, b"last")
    assert peer.unread.bytes == 0
    assert peer.connection.streams == {}


def test_a_transport_that_is_full_is_waited_for() -> None:
    peer = Peer()
    stream = peer.open()
    peer.connection.pause()
    assert not peer.connection.write(stream, b"abc")
    assert peer.sent() == []
    peer.connection.resume()
    assert peer.sent() == [(frames.DATA, 0, 1, b"abc")]
    assert peer.told[-2:] == [("blocked", 1), ("taken", 1)]


def test_a_window_may_shrink_below_nothing() -> None:
    peer = Peer()
    stream = peer.open()
    assert peer.connection.write(stream, b"x" * 1000)
    peer.connection.feed(frames.settings({frames.INITIAL_WINDOW: 500}))
    peer.sent()
    assert stream.window == -500
    assert not peer.connection.write(stream, b"y" * 10)
    peer.connection.feed(frames.window(1, 500))
    assert peer.sent() == []
    peer.connection.feed(frames.window(1, 10))
    assert peer.sent() == [(frames.DATA, 0, 1, b"y" * 10)]


def test_what_a_stream_that_is_dropped_held_is_held_no_more() -> None:
    for end in ("reset", "their reset", "close"):
        peer = Peer()
        stream = peer.open()
        peer.connection.write(stream, b"x" * 100_000)
        assert peer.unread.bytes
        if end == "reset":
            peer.connection.reset(stream, ErrorCode.CANCEL)
        elif end == "close":
            peer.connection.close()
        else:
            peer.connection.feed(frames.reset(1, ErrorCode.CANCEL))
        assert peer.unread.bytes == 0
        assert peer.connection.waiting == {}
        assert peer.connection.write(stream, b"more")  # goes nowhere


def test_what_arrives_late_for_a_stream_that_ended_is_let_be() -> None:
    peer = Peer()
    stream = peer.open()
    peer.connection.finish(stream, b"no")
    assert [each[0] for each in peer.sent()] == [frames.HEADERS, frames.RESET]
    peer.connection.feed(frame(frames.DATA, 0, 1, b"late"))
    peer.connection.feed(frames.window(1, 5))
    peer.connection.feed(frames.reset(1, ErrorCode.CANCEL))
    peer.connection.feed(frame(frames.HEADERS, WHOLE, 1, BLOCK))
    assert peer.told == [("began", 1)]


def test_streams_beyond_the_bound_are_refused_and_others_go_on() -> None:
    peer = Peer(streams=2)
    for number in (1, 3, 5):
        peer.connection.feed(frame(frames.HEADERS, WHOLE, number, BLOCK))
    assert peer.sent() == [(frames.RESET, 0, 5, bytes([0, 0, 0, ErrorCode.REFUSED_STREAM]))]
    peer.connection.finish(peer.connection.streams[1], b"")
    peer.connection.feed(frame(frames.HEADERS, WHOLE, 7, BLOCK))
    assert sorted(peer.connection.streams) == [3, 7]


def test_a_peer_that_is_told_to_leave_begins_nothing() -> None:
    peer = Peer()
    peer.connection.leave()
    peer.connection.leave()
    peer.connection.feed(frame(frames.HEADERS, WHOLE, 1, BLOCK))
    assert [each[0] for each in peer.sent()] == [frames.GOAWAY, frames.RESET]


def test_credit_is_given_for_what_was_taken() -> None:
    peer = Peer()
    stream = peer.open()
    chunk = frame(frames.DATA, 0, 1, bytes(MAX_FRAME))
    for _ in range(100):  # more than any window
        peer.connection.allow(stream, MAX_FRAME)
        peer.connection.feed(chunk)
        stream.body.clear()
    assert any(each[:3] == (frames.WINDOW, 0, 0) for each in peer.sent())


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(frames.DATA, 0, 1, b"x"), ErrorCode.PROTOCOL),  # no such stream yet
        (frame(frames.DATA, 0, 0, b"x"), ErrorCode.PROTOCOL),
        (frame(frames.HEADERS, WHOLE, 2, BLOCK), ErrorCode.PROTOCOL),  # a server's number
        (frame(frames.HEADERS, WHOLE, 0, BLOCK), ErrorCode.PROTOCOL),
        (frame(frames.HEADERS, WHOLE, 1, b"\xff"), ErrorCode.COMPRESSION),
        (frame(frames.HEADERS, WHOLE | frames.PADDED, 1, b"\xff"), ErrorCode.PROTOCOL),
        (frame(frames.HEADERS, WHOLE | frames.WITH_PRIORITY, 1, b""), ErrorCode.FRAME_SIZE),
        (frame(frames.HEADERS, 0, 1, BLOCK) + SETTINGS, ErrorCode.PROTOCOL),  # not ended
        (frame(frames.HEADERS, 0, 1, BLOCK) + frame(9, 4, 3, b""), ErrorCode.PROTOCOL),
        (frame(frames.CONTINUATION, 4, 1, BLOCK), ErrorCode.PROTOCOL),
        (frame(frames.RESET, 0, 1, bytes(4)), ErrorCode.PROTOCOL),
        (frame(frames.RESET, 0, 1, bytes(3)), ErrorCode.FRAME_SIZE),
        (frame(frames.SETTINGS, 0, 0, bytes(5)), ErrorCode.FRAME_SIZE),
        (frame(frames.SETTINGS, 1, 0, bytes(6)), ErrorCode.FRAME_SIZE),
        (frames.settings({frames.INITIAL_WINDOW: 2**31}), ErrorCode.FLOW_CONTROL),
        (frames.settings({frames.FRAME_SIZE: 1}), ErrorCode.PROTOCOL),
        (frame(frames.PING, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE),
        (frame(frames.PUSH, 0, 1, bytes(8)), ErrorCode.PROTOCOL),
        (frame(frames.WINDOW, 0, 0, bytes(4)), ErrorCode.PROTOCOL),
        (frame(frames.WINDOW, 0, 0, bytes(3)), ErrorCode.FRAME_SIZE),
        (frames.window(0, 2**31 - 1), ErrorCode.FLOW_CONTROL),
        (frames.window(9, 1), ErrorCode.PROTOCOL),
        (b"\xff\xff\xff" + bytes(6), ErrorCode.FRAME_SIZE),  # 16 MB, of which nothing is read
    ],
)
def test_who_breaks_a_rule_is_sent_away(data: bytes, code: ErrorCode) -> None:
    assert fault_of(Peer(), data) is code


def test_settings_come_first() -> None:
    connection = Connection(Peer(), lambda _: None, lambda: 0.0, Unread())
    with pytest.raises(Http2Fault):
        connection.feed(frame(frames.PING, 0, 0, bytes(8)))


def test_more_than_the_windows_allow_is_refused() -> None:
    peer = Peer()
    peer.open()
    chunk = frame(frames.DATA, 0, 1, bytes(MAX_FRAME))
    peer.connection.feed(chunk * 3)
    assert fault_of(peer, chunk) is ErrorCode.FLOW_CONTROL


def test_headers_without_end_are_the_end() -> None:
    peer = Peer()
    peer.connection.feed(frame(frames.HEADERS, 0, 1, BLOCK))
    assert fault_of(peer, frame(9, 0, 1, b"") * 100) is ErrorCode.ENHANCE_YOUR_CALM
    peer = Peer()
    peer.connection.feed(frame(frames.HEADERS, 0, 1, BLOCK))
    pieces = frame(9, 0, 1, bytes(MAX_FRAME)) * (MAX_BLOCK // MAX_FRAME)
    assert fault_of(peer, pieces) is ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("what", ["resets", "pings", "settings", "empty", "unknown", "refused"])
def test_who_makes_work_for_nothing_is_sent_away(what: str) -> None:
    peer = Peer(streams=1)
    first = peer.open()
    del first

    def one(n: int) -> bytes:
        number = 3 + 2 * n
        opened = frame(frames.HEADERS, WHOLE, number, BLOCK)
        return {
            "resets": opened + frames.reset(number, ErrorCode.CANCEL),
            "pings": frame(frames.PING, 0, 0, bytes(8)),
            "settings": SETTINGS,
            "empty": frame(frames.DATA, 0, 1, b""),
            "unknown": frame(77, 0, 0, b"x"),
            "refused": opened,
        }[what]

    data = b"".join(map(one, range(MOST_IDLE_FRAMES + 1)))
    assert fault_of(peer, data) is ErrorCode.ENHANCE_YOUR_CALM


def test_who_is_patient_may_go_on_for_ever() -> None:
    peer = Peer()
    for _ in range(5 * MOST_IDLE_FRAMES):
        peer.now_s += 0.01
        peer.connection.feed(frame(frames.PING, 0, 0, bytes(8)))


def test_pings_that_measure_data_are_no_idle_ones() -> None:
    peer = Peer()
    stream = peer.open()
    peer.connection.feed(frames.settings({frames.INITIAL_WINDOW: 1 << 20}))
    peer.connection.feed(frames.window(0, 1 << 20))
    for _ in range(2 * MOST_IDLE_FRAMES):
        peer.connection.write(stream, b"x")
        peer.connection.feed(frame(frames.PING, 0, 0, bytes(8)))


@given(st.binary(max_size=300))
def test_whatever_comes_is_taken_or_refused(data: bytes) -> None:
    peer = Peer()
    try:
        peer.connection.feed(data)
    except Http2Fault:
        return


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 63), st.integers(0, 6), st.binary())))
def test_whatever_frames_come_are_taken_or_refused(
    some: list[tuple[int, int, int, bytes]],
) -> None:
    peer = Peer()
    try:
        for each in some:
            peer.connection.feed(frame(*each))
    except Http2Fault:
        return
    assert peer.unread.bytes == 0
