"""A fast path that gets only what was checked."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tests.auth.conftest import FakePeer, credentials, make_gate
from tests.auth.test_gate import PULL, SEND, signed

from rocketpipe.auth.guarded_lane import GuardedLane
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.connection import Frame
from rocketpipe.protocol.frame import MAX_FRAME_BYTES, bounds_at, decode_frame, encode_frame
from rocketpipe.protocol.hot import scan
from rocketpipe.protocol.request import to_command
from rocketpipe.remoting.connection import PeerConnection


def opaque_of(data: bytes, frame: Frame) -> int:
    bounds = bounds_at(data, frame[0], frame[2])
    assert bounds is not None
    return decode_frame(data, bounds).opaque


class Lane:
    """Takes everything that lies between the frames it is given, as the real one does."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def take_first(self, data: bytes, peer: PeerConnection) -> int:
        self._take(data, 0, len(data))
        return len(data)

    def take_frames(self, buffer: bytes, frames: list[Frame], peer: PeerConnection) -> None:
        self._take(buffer, frames[0][0], frames[-1][2])

    def _take(self, data: bytes, at: int, end: int) -> None:
        for frame in scan(data, at, end):
            self.taken.append(opaque_of(data, frame))


class Peer(FakePeer):
    max_frame_bytes = MAX_FRAME_BYTES

    def __init__(self) -> None:
        super().__init__()
        self.left: list[int] = []

    def take(self, buffer: bytes, frames: list[Frame]) -> None:
        self.left += [opaque_of(buffer, frame) for frame in frames]


GOOD = signed(SEND, "writer")
BAD = replace(GOOD, body=b"forged")
UNSIGNED = to_command(SEND, 1)


def given(*commands: Command) -> bytes:
    return b"".join(
        encode_frame(replace(command, opaque=number)) for number, command in enumerate(commands)
    )


def test_unchecked_frames_between_good_ones_are_the_routers() -> None:
    lane, peer = Lane(), Peer()
    data = given(GOOD, BAD, GOOD, GOOD, UNSIGNED, signed(PULL, "reader"))
    guarded = GuardedLane(lane, make_gate())
    guarded.take_frames(data, scan(data, 0, len(data)), cast("PeerConnection", peer))
    assert lane.taken == [0, 2, 3, 5]
    assert peer.left == [1, 4]


def test_a_read_is_taken_as_far_as_its_frames_are_good() -> None:
    lane, peer = Lane(), cast("PeerConnection", Peer())
    guarded = GuardedLane(lane, make_gate())
    two = given(GOOD, GOOD)
    assert guarded.take_first(two, peer) == len(two)
    assert guarded.take_first(two + given(BAD), peer) == len(two)
    assert guarded.take_first(two + given(GOOD)[:-1], peer) == len(two)
    assert lane.taken == [0, 1] * 3
    for none in (given(BAD, GOOD), given(UNSIGNED), given(signed(PULL, "reader")), b"\0" * 20, b""):
        assert guarded.take_first(none, peer) == 0
    assert lane.taken == [0, 1] * 3


def test_another_users_signature_on_the_same_connection_counts_by_itself() -> None:
    lane, peer = Lane(), Peer()
    data = given(GOOD, credentials("reader").sign(to_command(SEND, 1)), GOOD)
    guarded = GuardedLane(lane, make_gate())
    guarded.take_frames(data, scan(data, 0, len(data)), cast("PeerConnection", peer))
    assert (lane.taken, peer.left) == ([0, 2], [1])
