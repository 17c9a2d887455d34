from __future__ import annotations

import base64
import sys
import tracemalloc
import zlib
from typing import Any

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import CompressionError
from rocketpipe.model.flags import Compression, with_compression
from rocketpipe.record.compression import compress, decompress, inflate

KINDS = list(Compression)
MIB = 1024 * 1024


def _bomb(kind: Compression, size: int) -> bytes:
    if kind is Compression.ZLIB:
        return zlib.compress(bytes(size), 9)
    if kind is Compression.LZ4:
        return bytes(lz4.frame.compress(bytes(size)))
    return zstandard.ZstdCompressor(level=19).compress(bytes(size))


@pytest.mark.parametrize("kind", KINDS)
def test_bodies_compressed_by_apache_5_3_3_inflate(
    kind: Compression, apache: dict[str, Any]
) -> None:
    body = base64.b64decode(apache["compressed"][kind.name])
    assert decompress(body, kind) == apache["compressed"]["body"].encode()


def test_zlib_at_level_5_gives_the_bytes_of_apache_5_3_3(apache: dict[str, Any]) -> None:
    body = base64.b64decode(apache["compressed"]["ZLIB"])
    ours = compress(apache["compressed"]["body"].encode(), Compression.ZLIB)
    # The streams may differ with the zlib at hand; both are level 5, which the header shows.
    assert ours[:2] == body[:2] == b"\x78\x5e"
    assert abs(len(ours) - len(body)) < len(body) // 10


@pytest.mark.parametrize("kind", KINDS)
@given(body=st.binary(max_size=2000), times=st.integers(1, 40))
def test_what_was_compressed_inflates(kind: Compression, body: bytes, times: int) -> None:
    whole = body * times
    assert decompress(compress(whole, kind), kind) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_of_many_blocks_inflates(kind: Compression) -> None:
    body = bytes(range(256)) * 12_000 + b"tail"
    assert decompress(compress(body, kind), kind) == body


def test_the_flags_tell_how_to_inflate() -> None:
    assert inflate(b"as it is", 0) == b"as it is"
    assert inflate(b"", 1) == b""
    assert inflate(zlib.compress(b"4.x"), 1) == b"4.x"
    for kind in KINDS:
        assert inflate(compress(b"5.x", kind), with_compression(0, kind)) == b"5.x"
    with pytest.raises(CompressionError, match="names no compression") as caught:
        inflate(b"x", 0x401, at=88)
    assert caught.value.at == 88


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_of_just_the_limit_inflates_and_one_byte_more_does_not(kind: Compression) -> None:
    body = compress(b"x" * 1000, kind)
    assert decompress(body, kind, 1000) == b"x" * 1000
    with pytest.raises(CompressionError, match="more than 999 bytes"):
        decompress(body, kind, 999)
    assert decompress(compress(b"", kind), kind, 0) == b""


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_refused_within_the_memory_of_the_limit(kind: Compression) -> None:
    bomb = _bomb(kind, 64 * MIB)
    assert len(bomb) < MIB
    limit = MIB
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError, match=f"more than {limit} bytes"):
            decompress(bomb, kind, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What was inflated, and a copy of the input or a few blocks beside it.
    assert peak < 2 * limit + 4 * len(bomb) + MIB


def test_a_zstd_frame_that_asks_for_a_huge_window_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    body = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = body.compress(b"small") + body.flush()
    assert zstandard.get_frame_parameters(frame).window_size == 128 * MIB
    with pytest.raises(CompressionError, match="zstd"):
        decompress(frame, Compression.ZSTD)


def test_a_zstd_frame_that_lies_about_its_size_is_not_believed() -> None:
    frame = bytearray(zstandard.ZstdCompressor().compress(b"x" * 70_000))
    assert zstandard.get_frame_parameters(bytes(frame)).content_size == 70_000
    frame[5:9] = b"\xff\xff\xff\x7f"
    with pytest.raises(CompressionError):
        decompress(bytes(frame), Compression.ZSTD)


@pytest.mark.parametrize("checksum", [False, True])
def test_zstd_checksums_are_held_to(checksum: bool) -> None:
    frame = bytearray(zstandard.ZstdCompressor(write_checksum=checksum).compress(b"hello" * 100))
    assert decompress(bytes(frame), Compression.ZSTD) == b"hello" * 100
    for cut in range(len(frame)):
        with pytest.raises(CompressionError, match=r"cut off|zstd frame"):
            decompress(bytes(frame[:cut]), Compression.ZSTD)
    frame[-1] ^= 1
    if checksum:
        with pytest.raises(CompressionError, match="zstd"):
            decompress(bytes(frame), Compression.ZSTD)


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_cut_at_any_byte_is_refused(kind: Compression) -> None:
    body = compress(bytes(range(256)) * 3, kind)
    for cut in range(len(body)):
        with pytest.raises(CompressionError):
            decompress(body[:cut], kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("extra", [b"\x00", b"trailing garbage"])
def test_what_follows_a_body_is_refused_where_it_starts(kind: Compression, extra: bytes) -> None:
    body = compress(b"hello" * 50, kind)
    with pytest.raises(CompressionError, match=f"{len(extra)} bytes after") as caught:
        decompress(body + extra, kind, at=88)
    assert caught.value.at == 88 + len(body)


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_stream_is_refused(kind: Compression) -> None:
    body = compress(b"hello" * 50, kind)
    with pytest.raises(CompressionError, match="after the end"):
        decompress(body + body, kind)


@pytest.mark.parametrize("kind", KINDS)
@given(body=st.binary(max_size=300))
def test_any_bytes_raise_nothing_unnamed(kind: Compression, body: bytes) -> None:
    try:
        decompress(body, kind, 10_000)
    except CompressionError:
        pass


@pytest.mark.parametrize("kind", KINDS)
def test_every_single_byte_of_a_body_may_change(kind: Compression) -> None:
    body = compress(b"order 1;order 2;order 3;" * 20, kind)
    for at in range(len(body)):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(body)
            changed[at] ^= flip
            try:
                inflated = decompress(bytes(changed), kind, 10_000)
            except CompressionError:
                continue
            assert len(inflated) <= 10_000


@pytest.mark.parametrize(
    ("kind", "module"), [(Compression.LZ4, "lz4.frame"), (Compression.ZSTD, "zstandard")]
)
def test_a_missing_library_says_what_to_install(
    kind: Compression, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for act in (lambda: compress(b"x", kind), lambda: decompress(b"x", kind)):
        with pytest.raises(CompressionError, match=f"pip install {module.split('.')[0]}"):
            act()
