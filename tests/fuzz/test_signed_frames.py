"""Signed frames, damaged at random: what a fast path is given is what the router lets in too.

``ROCKETPIPE_FUZZ_FRAMES`` says how many.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import cast

import pytest
from tests.auth.conftest import FakePeer, credentials, make_gate
from tests.auth.test_gate import PULL, SEND
from tests.fuzz.test_frames import damage

from rocketpipe.errors import FrameError, RemoteProtocolError, RequestRejected
from rocketpipe.protocol.command import HeaderKind
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.hot import scan
from rocketpipe.protocol.request import Request, from_command, to_command
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.remoting.connection import PeerConnection

FRAMES = int(os.environ.get("ROCKETPIPE_FUZZ_FRAMES", "5000"))
KINDS: dict[int, type[Request[object]]] = {
    int(code): kind  # type: ignore[misc]
    for kind in (SendMessage, PullMessage)
    for code in kind.codes
}


def signed_frames() -> list[bytes]:
    frames = []
    for request, name in ((SEND, "writer"), (PULL, "reader"), (SEND, "reader"), (SEND, "root")):
        command = credentials(name).sign(to_command(request, 1))
        frames += [encode_frame(command), encode_frame(replace(command, header=HeaderKind.BINARY))]
    return frames


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2))
def test_what_is_cleared_is_admitted_and_allowed(seed: int) -> None:
    gate, frames, chance = make_gate(), signed_frames(), random.Random(seed)
    cleared = refused = 0
    for number in range(FRAMES // 2):
        data = damage(chance.choice(frames), chance)
        peer = cast("PeerConnection", FakePeer(f"10.0.{number & 255}.7:5000"))
        try:
            (command,) = Connection(max_frame_bytes=1 << 20).receive(data)
            (frame,) = scan(data, 0, len(data), 1 << 20)
        except (RemoteProtocolError, FrameError, ValueError):
            continue
        is_clear = gate.cleared(data, [frame], 0, peer) == 1
        try:
            by = gate.admit(command, peer)
            if command.code in KINDS:
                gate.allow(by, from_command(KINDS[command.code], command))
            cleared += is_clear
        except RequestRejected:
            assert not is_clear, f"seed {seed}, frame {number}: {data.hex()}"
            refused += 1
        except RemoteProtocolError:
            continue  # names are not signed: it is no request any more, which a fast path sees too
    assert cleared
    assert refused
