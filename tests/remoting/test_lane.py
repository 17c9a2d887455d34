"""What a lane is given of the bytes of a connection, and what is left to the handlers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rocketpipe.protocol.command import Command
from rocketpipe.protocol.connection import Frame
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection

FRAME = encode_frame(Command(code=310, opaque=7))
OTHER = encode_frame(Command(code=11, opaque=8))


class Line(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.9", 50001)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class FirstFrames:
    """Takes frames that are like one, as long as they come first."""

    def __init__(self) -> None:
        self.first: list[bytes] = []
        self.left: list[bytes] = []

    def take_first(self, data: bytes, peer: PeerConnection) -> int:
        self.first.append(data)
        used = 0
        while data[used : used + len(FRAME)] == FRAME:
            used += len(FRAME)
        return used

    def take_frames(self, buffer: bytes, frames: list[Frame], peer: PeerConnection) -> None:
        self.left += [buffer[at:end] for at, _, end in frames]


async def nobody(command: Command, peer: PeerConnection) -> Command:
    raise AssertionError("the lane has it")


class Served:
    def __init__(self) -> None:
        self.lane = FirstFrames()
        self.peer = PeerConnection(nobody, limits=ConnectionLimits(), lane=self.lane)
        self.line = Line()
        self.peer.connection_made(self.line)


@pytest.fixture
async def served() -> Served:
    return Served()


async def test_a_lane_takes_whole_frames_from_the_start_of_a_read(served: Served) -> None:
    served.peer.data_received(FRAME * 3)
    assert (served.lane.first, served.lane.left) == ([FRAME * 3], [])
    assert served.peer.frames == served.peer.reads == 1
    assert served.peer.buffered_bytes == 0


async def test_what_it_leaves_is_found_in_frames(served: Served) -> None:
    served.peer.data_received(FRAME + OTHER + FRAME)
    assert served.lane.left == [OTHER, FRAME]


async def test_what_is_not_whole_is_kept_and_then_given_as_frames(served: Served) -> None:
    served.peer.data_received(FRAME + FRAME[:5])
    assert served.peer.buffered_bytes == 5
    served.peer.data_received(FRAME[5:-1])
    served.peer.data_received(FRAME[-1:] + OTHER)
    assert served.lane.first == [FRAME + FRAME[:5]]
    assert served.lane.left == [FRAME, OTHER]
    served.peer.data_received(FRAME)
    assert served.lane.first[1:] == [FRAME]


@pytest.mark.parametrize("before", [b"", FRAME])
async def test_behind_bytes_that_are_no_frame_it_is_given_nothing(
    served: Served, before: bytes
) -> None:
    served.peer.data_received(before + b"\xff" * 8)
    assert served.line.closed
    served.peer.data_received(FRAME)
    assert served.lane.first == [before + b"\xff" * 8]


async def test_of_a_peer_that_does_not_keep_up_it_is_given_no_more(served: Served) -> None:
    served.peer.pause_writing()
    served.peer.data_received(FRAME)
    assert (served.lane.first, served.lane.left) == ([], [FRAME])
    served.peer.resume_writing()
    served.peer.data_received(FRAME)
    assert served.lane.first == [FRAME]


async def test_what_is_written_to_who_is_gone_goes_nowhere(served: Served) -> None:
    served.peer.write(b"one")
    served.line.closed = True
    served.peer.write(b"two")
    served.peer.connection_lost(None)
    served.peer.write(b"three")
    assert (served.line.written, served.peer.given_bytes) == ([b"one"], 3)
