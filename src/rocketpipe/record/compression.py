"""Compressed bodies: zlib, which every RocketMQ reads, lz4 frames and zstd, which 5.x reads.

Bodies come from strangers, and a few bytes can stand for gigabytes, so nothing is inflated without
a limit, and memory follows the limit, not the claim. A body is one stream: one that is cut off, or
is followed by anything, is refused.

Producers refuse bodies of more than 4 MiB before they compress them. ``DEFAULT_LIMIT`` is four
times that, for clusters that raised ``maxMessageSize``; those that raised it further pass theirs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from rocketpipe.errors import CompressionError
from rocketpipe.model.flags import Compression, compression_of
from rocketpipe.record.layout import MAX_BODY_BYTES

DEFAULT_LIMIT: Final = 4 * MAX_BODY_BYTES
DEFAULT_LEVEL: Final = 5
#: Producers leave shorter bodies as they are.
WORTHWHILE_BYTES: Final = 4096

_CHUNK_BYTES: Final = 64 * 1024
_BLOCK_HEADER_BYTES: Final = 3
_RLE_BLOCK: Final = 1
_RESERVED_BLOCK: Final = 3


def compress(body: bytes, kind: Compression, level: int = DEFAULT_LEVEL) -> bytes:
    """Compress a body; lz4 has no use for the level, as in Java.

    Raises:
        CompressionError: If the library for it is not installed.
    """
    if kind is Compression.ZLIB:
        return zlib.compress(body, level)
    library: Any = _library(kind)
    if kind is Compression.LZ4:
        return bytes(library.compress(body))
    return bytes(library.ZstdCompressor(level=level).compress(body))


def inflate(body: bytes, sys_flag: int, limit: int = DEFAULT_LIMIT, at: int = 0) -> bytes:
    """Give the body that was compressed as ``sys_flag`` says, or the body itself if it was not.

    ``at`` is where the body starts, for the errors.

    Raises:
        CompressionError: If the body does not inflate, is longer than ``limit``, is followed by
            more, or needs a library that is not installed.
    """
    try:
        kind = compression_of(sys_flag)
    except ValueError:
        raise CompressionError(f"sysFlag {sys_flag:#x} names no compression", at) from None
    return body if kind is None or not body else decompress(body, kind, limit, at)


def decompress(body: bytes, kind: Compression, limit: int = DEFAULT_LIMIT, at: int = 0) -> bytes:
    """Inflate a compressed body to no more than ``limit`` bytes; ``at`` is as in ``inflate``.

    Raises:
        CompressionError: If it does not inflate, is longer than ``limit``, is followed by more, or
            needs a library that is not installed.
    """
    if kind is Compression.ZLIB:
        return _unzlib(body, limit, at)
    library: Any = _library(kind)
    if kind is Compression.LZ4:
        return _unlz4(library, body, limit, at)
    return _unzstd(library, body, limit, at)


_LIBRARIES = {
    Compression.LZ4: ("lz4", "lz4.frame"),
    Compression.ZSTD: ("zstandard", "zstandard"),
}


def _library(kind: Compression) -> ModuleType:
    package, module = _LIBRARIES[kind]
    try:
        return import_module(module)
    except ImportError as error:
        raise CompressionError(f"{kind.name} bodies need `pip install {package}`") from error


def _unzlib(body: bytes, limit: int, at: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        # One more than allowed tells a body of just the limit from a longer one.
        inflated = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise CompressionError(f"not a zlib stream: {error}", at) from None
    _check_length(len(inflated), limit, at)
    _check_end(stream.eof, len(stream.unused_data), "zlib", len(body), at)
    return inflated


def _unlz4(library: Any, body: bytes, limit: int, at: int) -> bytes:
    stream = library.LZ4FrameDecompressor()
    chunks: list[bytes] = []
    length = 0
    chunk_bytes = max(_CHUNK_BYTES, 4 * len(body))
    feed = body
    while not stream.eof:
        try:
            chunk = stream.decompress(feed, max_length=min(chunk_bytes, limit + 1 - length))
        except (RuntimeError, EOFError) as error:
            raise CompressionError(f"not an lz4 frame: {error}", at) from None
        length += len(chunk)
        _check_length(length, limit, at)
        chunks.append(chunk)
        feed = b""
        if not chunk and stream.needs_input:
            break
    _check_end(stream.eof, len(stream.unused_data or b""), "lz4", len(body), at)
    return b"".join(chunks)


def _unzstd(library: Any, body: bytes, limit: int, at: int) -> bytes:
    # Neither window nor content size of a frame are believed: a window of up to the limit serves
    # any body within it, and blocks, of at most 128 KiB each, are inflated one by one.
    window_bytes = max(1 << max(limit - 1, 1).bit_length(), 8 * 1024 * 1024)
    stream = library.ZstdDecompressor(max_window_size=window_bytes).decompressobj()
    chunks: list[bytes] = []
    length = start = 0
    try:
        for end in _zstd_cuts(library, body, at):
            chunk = stream.decompress(body[start:end])
            length += len(chunk)
            _check_length(length, limit, at)
            chunks.append(chunk)
            start = end
    except library.ZstdError as error:
        raise CompressionError(f"not a zstd frame: {error}", at) from None
    _check_end(stream.eof, len(body) - start, "zstd", len(body), at)
    return b"".join(chunks)


def _zstd_cuts(library: Any, body: bytes, at: int) -> Iterator[int]:
    """Where the header, each block and the checksum of a zstd frame end, as far as they are there.

    A block starts with three bytes, least first: whether it is the last (1 bit), its type (2) and
    its size (21). A block that repeats one byte has just that byte, whatever its size.
    """
    cut = library.frame_header_size(body)
    has_checksum = library.get_frame_parameters(body).has_checksum
    yield cut
    last = 0
    while not last:
        header = int.from_bytes(body[cut : cut + _BLOCK_HEADER_BYTES], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind == _RESERVED_BLOCK:
            raise CompressionError("not a zstd frame: a block of an unknown type", at + cut)
        cut += _BLOCK_HEADER_BYTES + (1 if kind == _RLE_BLOCK else size)
        if cut > len(body):
            raise CompressionError("a zstd body that is cut off", at + len(body))
        if not last or not has_checksum:
            yield cut
    if has_checksum:
        if cut + 4 > len(body):
            raise CompressionError("a zstd body that is cut off", at + len(body))
        yield cut + 4


def _check_length(length: int, limit: int, at: int) -> None:
    if length > limit:
        raise CompressionError(f"a body that inflates to more than {limit} bytes", at)


def _check_end(complete: bool, left_over: int, kind: str, length: int, at: int) -> None:
    if not complete:
        raise CompressionError(f"a {kind} body that is cut off", at + length)
    if left_over:
        raise CompressionError(
            f"{left_over} bytes after the end of a {kind} body", at + length - left_over
        )
