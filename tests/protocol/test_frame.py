"""Frames: golden ones of Java's, bounds, and every limit."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import FrameError, LocalProtocolError
from rocketpipe.protocol.codes import Language
from rocketpipe.protocol.command import Command, HeaderKind
from rocketpipe.protocol.frame import (
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    bounds_at,
    decode_frame,
    encode_frame,
)

GOLDEN = Path(__file__).parent / "golden"
KINDS = {"JSON": HeaderKind.JSON, "ROCKETMQ": HeaderKind.BINARY}


def golden_frames() -> list[tuple[str, dict[str, object]]]:
    """What RocketMQ's own RemotingCommand wrote and read back."""
    found = []
    for path in sorted(GOLDEN.glob("frames-*.json")):
        content = json.loads(path.read_text())
        assert "RemotingCommand" in content["source"]
        found += [(path.stem, frame) for frame in content["frames"]]
    return found


def frame_id(case: object) -> str:
    return f"{case['header']}-{case['name']}" if isinstance(case, dict) else str(case)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
json_commands = st.builds(
    Command,
    code=int32,
    opaque=int32,
    flag=int32,
    version=int32,
    fields=st.dictionaries(text, text, max_size=8),
    remark=st.none() | text,
    body=st.binary(max_size=60),
    language=st.none() | st.sampled_from(Language),
)
int16 = st.integers(-(1 << 15), (1 << 15) - 1)
# An empty value is no value in a binary header, and null languages are written as OTHER.
binary_commands = st.builds(
    Command,
    code=int16,
    opaque=int32,
    flag=int32,
    version=int16,
    fields=st.dictionaries(text.filter(bool), text.filter(bool), max_size=8),
    remark=st.none() | text.filter(bool),
    body=st.binary(max_size=60),
    language=st.sampled_from(Language),
    header=st.just(HeaderKind.BINARY),
)
commands = json_commands | binary_commands


def read_one(data: bytes) -> Command:
    bounds = bounds_at(data, 0, len(data))
    assert bounds is not None
    assert bounds.end == len(data)
    return decode_frame(data, bounds)


@pytest.mark.parametrize(("source", "frame"), golden_frames(), ids=frame_id)
def test_a_java_frame_means_what_java_says(source: str, frame: dict[str, object]) -> None:
    command = read_one(bytes.fromhex(str(frame["hex"])))
    fields = frame["fields"]
    assert isinstance(fields, dict)
    assert command.code == frame["code"]
    assert command.opaque == frame["opaque"]
    assert command.flag == frame["flag"]
    assert command.version == frame["version"]
    assert command.remark == frame["remark"]
    assert command.language is not None
    assert command.language.name == frame["language"]
    # A value that Java reads back as null is no value.
    assert command.fields == {name: v for name, v in fields.items() if v is not None}
    assert command.body.hex() == frame["body_hex"]
    assert command.header is KINDS[str(frame["header"])]


@pytest.mark.parametrize(("source", "frame"), golden_frames(), ids=frame_id)
def test_writing_a_java_frame_again_gives_its_bytes(source: str, frame: dict[str, object]) -> None:
    data = bytes.fromhex(str(frame["hex"]))
    if frame["header"] == "ROCKETMQ" and frame["name"] == "an empty value":
        # The one case where two writings mean the same: the value reads as none and is left out.
        assert read_one(encode_frame(read_one(data))) == read_one(data)
    else:
        assert encode_frame(read_one(data)) == data


def test_a_request_for_a_route_has_the_known_bytes() -> None:
    asked = Command(code=105, opaque=1, fields={"topic": "T"}, version=399)
    frame = encode_frame(asked)
    assert frame[:8].hex() == "000000810000007d"
    assert frame[8:] == (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"PYTHON","opaque":1,'
        b'"serializeTypeCurrentRPC":"JSON","version":399}'
    )
    binary = Command(
        code=105, opaque=1, fields={"topic": "T"}, version=399, header=HeaderKind.BINARY
    )
    assert encode_frame(binary).hex() == (
        "0000002501000021006903018f0000000100000000000000000000000c0005746f7069630000000154"
    )


@given(commands)
def test_a_command_survives_the_wire(command: Command) -> None:
    assert read_one(encode_frame(command)) == command


@given(commands, commands, st.data())
def test_a_frame_ends_where_the_next_begins(
    first: Command, second: Command, data: st.DataObject
) -> None:
    frame, following = encode_frame(first), encode_frame(second)
    stream = frame + following[: data.draw(st.integers(0, len(following) - 1))]
    bounds = bounds_at(stream, 0, len(stream))
    assert bounds is not None
    assert bounds.end == len(frame)
    assert decode_frame(stream, bounds) == first
    assert bounds_at(stream, bounds.end, len(stream)) is None


@given(commands)
def test_no_part_of_a_frame_is_a_frame(command: Command) -> None:
    frame = encode_frame(command)
    assert all(bounds_at(frame, 0, end) is None for end in range(len(frame)))


@pytest.mark.parametrize(
    ("start", "at", "reason"),
    [
        ("ffffffff", 0, "length -1"),
        ("80000000", 0, "length -2147483648"),
        ("00000000", 0, "length 0"),
        ("00000003", 0, "length 3"),
        ("7fffffff", 0, "16777216 bytes are the most"),
        ("01000000", 0, "16777216 bytes are the most"),
        ("00fffffd", 0, "16777216 bytes are the most"),
        ("0000000400000001", 4, "a header of 1 bytes"),
        ("00000010 0000000d", 4, "a header of 13 bytes"),
        ("00000010 00ffffff", 4, "a header of 16777215 bytes"),
        ("00000010 02000004", 4, "kind 2"),
        ("00000010 ff000004", 4, "kind 255"),
        ("16030100 c8010000", 0, "bytes are the most"),  # a TLS handshake
        ("47455420 2f204854", 0, "bytes are the most"),  # "GET / HT"
    ],
)
def test_an_impossible_start_is_refused_at_once(start: str, at: int, reason: str) -> None:
    data = bytes.fromhex(start)
    with pytest.raises(FrameError, match=reason) as caught:
        bounds_at(data, 0, len(data))
    assert caught.value.at == at


def test_the_largest_frame_is_waited_for_and_one_byte_more_is_not() -> None:
    largest = struct.pack(">iI", MAX_FRAME_BYTES - 4, 2)
    assert bounds_at(largest, 0, 8) is None
    with pytest.raises(FrameError):
        bounds_at(struct.pack(">iI", MAX_FRAME_BYTES - 3, 2), 0, 8)
    assert bounds_at(struct.pack(">iI", 96, 2), 0, 8, 100) is None
    with pytest.raises(FrameError):
        bounds_at(struct.pack(">iI", 97, 2), 0, 8, 100)


def test_a_promised_size_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        for _ in range(100):
            assert bounds_at(struct.pack(">iI", MAX_FRAME_BYTES - 4, 2), 0, 8) is None
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_header_too_long_for_its_length_field_is_not_written() -> None:
    wide = Command(code=1, opaque=1, fields={"k": "v" * (MAX_HEADER_BYTES + 1)})
    with pytest.raises(LocalProtocolError, match="a header of"):
        encode_frame(wide)


class Vast(bytes):
    """Two gibibytes, by its own account."""

    def __len__(self) -> int:
        return 1 << 31


def test_a_body_too_long_for_the_frame_is_not_written() -> None:
    with pytest.raises(LocalProtocolError, match="a frame of length 2147"):
        encode_frame(Command(code=1, opaque=1, body=Vast()))
