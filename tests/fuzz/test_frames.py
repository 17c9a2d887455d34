"""Real frames, damaged at random: read, or refused by name.

``ROCKETPIPE_FUZZ_FRAMES`` says how many; the seed is in the failure, so that a finding stays.
"""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

import pytest

from rocketpipe.errors import FrameError, ProtocolError, RemoteProtocolError
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.command import Command, HeaderKind
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.hot import read_pull, read_send, scan
from rocketpipe.protocol.request import from_command
from rocketpipe.protocol.requests.clients import Heartbeat
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.protocol.requests.sending import SendMessage

FRAMES = int(os.environ.get("ROCKETPIPE_FUZZ_FRAMES", "50000"))
GOLDEN = Path(__file__).parent.parent / "protocol" / "golden"
SEEDS = 10

SPICE = [
    *(b"{", b"}", b"[", b"]", b'"', b"'", b":", b",", b"\\", b"\\u", b"\\ud800", b"/*", b"//"),
    *(b"null", b"true", b"NaN", b"1e999", b"-", b"9" * 30, b"9" * 5000, b"{" * 70, b"[" * 1200),
    *(b'{"$ref":"$"}', b'{"$ref":"@"}', b'{"$ref":".."}', b'"$ref":"$.a[0]"', b"extFields"),
    *(b"\x00", b"\xff", b"\xed\xa0\x80", b"\xf0\x9f", b"\xef\xbb\xbf", b"\x1a"),
    *(struct.pack(">i", n) for n in (-1, 0, 3, 4, 1 << 24, 0x7FFFFFFF)),
]


def golden_frames() -> list[bytes]:
    """Java's frames, and its bodies in heartbeats of either header form."""
    frames = [
        bytes.fromhex(frame["hex"])
        for path in sorted(GOLDEN.glob("frames-*.json"))
        for frame in json.loads(path.read_text())["frames"]
    ]
    for body in json.loads((GOLDEN / "bodies.json").read_text())["bodies"].values():
        for kind in HeaderKind:
            frames.append(encode_frame(Command(code=34, opaque=1, body=body.encode(), header=kind)))
    return frames


def damage(frame: bytes, chance: random.Random) -> bytes:
    data = bytearray(frame)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(data) + 1)
        action = chance.randrange(6)
        if action == 0 and at < len(data):
            data[at] = chance.randrange(256)
        elif action == 1 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif action == 2:
            data[at:at] = chance.choice(SPICE)
        elif action == 3:
            spice = chance.choice(SPICE)
            data[at : at + len(spice)] = spice
        elif action == 4:
            del data[at : at + chance.randrange(1, 9)]
        else:
            data[at:at] = data[at : at + chance.randrange(1, 20)]
    if chance.random() < 0.7 and len(data) >= 8:
        # Mostly the outer length is right again, so that the damage reaches the inner readers;
        # often the header's length too.
        struct.pack_into(">i", data, 0, len(data) - 4)
        if chance.random() < 0.7 and frame[4] == data[4]:
            body = len(frame) - 8 - int.from_bytes(frame[5:8], "big")
            struct.pack_into(">I", data, 4, data[4] << 24 | max(0, len(data) - 8 - body))
    return bytes(data)


def read_as_far_as_possible(data: bytes) -> int:
    """Everything that reads what a stranger sent; how many commands came through."""
    connection = Connection(max_frame_bytes=1 << 20)
    try:
        commands = connection.receive(data)
    except RemoteProtocolError:
        commands = []
    assert connection.buffered_bytes <= len(data)
    try:
        for at, body, _ in scan(data, 0, len(data), 1 << 20):
            read_send(data, at, body)
            read_pull(data, at, body)
    except FrameError:
        assert not commands
    for command in commands:
        for kind in (SendMessage, PullMessage, Heartbeat):
            try:
                from_command(kind, command)
            except RemoteProtocolError:
                pass
        if command.body:
            try:
                fastjson.read(command.body, dict)
            except RemoteProtocolError:
                pass
        try:
            again = encode_frame(command)
        except ProtocolError as error:
            raise AssertionError("what was read cannot be written") from error
        (back,) = Connection().receive(again)
        assert back.fields == {k: v for k, v in command.fields.items() if v or not back.header}
    return len(commands)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_damaged_frame_is_read_or_refused_by_name(seed: int) -> None:
    frames = golden_frames()
    chance = random.Random(seed)
    came_through = 0
    for number in range(FRAMES // SEEDS):
        data = damage(chance.choice(frames), chance)
        try:
            came_through += read_as_far_as_possible(data)
        except Exception as error:
            raise AssertionError(f"seed {seed}, frame {number}: {data.hex()}") from error
    # The damage must be of both kinds, or the test looks at too little.
    assert FRAMES // SEEDS * 0.1 < came_through < FRAMES // SEEDS * 0.9
