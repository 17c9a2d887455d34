"""One peer's stream, in whatever pieces."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import FrameError, HeaderError, RemoteProtocolError
from rocketpipe.protocol.command import Command, HeaderKind
from rocketpipe.protocol.connection import Connection

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)
commands = st.builds(
    Command,
    code=st.integers(0, 400),
    opaque=st.integers(-(1 << 31), (1 << 31) - 1),
    fields=st.dictionaries(text, text, max_size=4),
    body=st.binary(max_size=40),
    header=st.sampled_from(HeaderKind),
)

SMALL = Command(code=34, opaque=1, body=b"b")
BROKEN_HEADER = struct.pack(">iI", 6, 2) + b"{]"


def stream_of(sent: list[Command]) -> bytes:
    return b"".join(Connection().send(command) for command in sent)


@given(st.lists(commands, max_size=6))
def test_commands_fed_whole_come_out(sent: list[Command]) -> None:
    connection = Connection()
    assert connection.receive(stream_of(sent)) == sent
    assert connection.buffered_bytes == 0


@given(st.lists(commands, max_size=3))
def test_commands_fed_byte_by_byte_come_out(sent: list[Command]) -> None:
    connection = Connection()
    received = []
    for byte in stream_of(sent):
        received += connection.receive(bytes([byte]))
    assert received == sent
    assert connection.buffered_bytes == 0


@given(st.lists(commands, min_size=1, max_size=6), st.data())
def test_commands_fed_in_any_pieces_come_out(sent: list[Command], data: st.DataObject) -> None:
    stream = stream_of(sent)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    connection = Connection()
    received = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        # A shared receive buffer: what is kept must be a copy.
        buffer = bytearray(stream[start:end])
        received += connection.receive(memoryview(buffer))
        buffer[:] = bytes(len(buffer))
    assert received == sent


@given(commands, commands, st.data())
def test_the_head_of_the_next_frame_waits(
    first: Command, second: Command, data: st.DataObject
) -> None:
    frame, following = stream_of([first]), stream_of([second])
    cut = data.draw(st.integers(1, len(following) - 1))
    connection = Connection()
    assert connection.receive(frame + following[:cut]) == [first]
    assert connection.buffered_bytes == cut
    assert connection.receive(following[cut:]) == [second]


def test_a_broken_frame_is_raised_after_what_came_before_it() -> None:
    connection = Connection()
    assert connection.receive(stream_of([SMALL, SMALL]) + b"\xff\xff\xff\xff") == [SMALL, SMALL]
    assert isinstance(connection.failure, FrameError)
    for late in (b"", stream_of([SMALL])):
        with pytest.raises(FrameError, match="length -1"):
            connection.receive(late)
    assert connection.buffered_bytes == 0


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_broken_header_ends_the_connection(pieces: int) -> None:
    connection = Connection()
    for start in range(0, len(BROKEN_HEADER) - pieces, pieces):
        assert connection.receive(BROKEN_HEADER[start : start + pieces]) == []
    with pytest.raises(HeaderError):
        connection.receive(b"{]" + stream_of([SMALL]))
    with pytest.raises(HeaderError):
        connection.receive(stream_of([SMALL]))


def test_the_limit_is_the_whole_frame() -> None:
    frame = stream_of([SMALL])
    assert Connection(max_frame_bytes=len(frame)).receive(frame) == [SMALL]
    with pytest.raises(FrameError):
        Connection(max_frame_bytes=len(frame) - 1).receive(frame[:4])


@given(st.binary(max_size=200))
def test_noise_is_refused_by_name(noise: bytes) -> None:
    connection = Connection(max_frame_bytes=1024)
    refused: RemoteProtocolError | None = None
    try:
        connection.receive(noise)
    except RemoteProtocolError as error:
        refused = error
    assert connection.failure is refused
    assert connection.buffered_bytes < 1024
