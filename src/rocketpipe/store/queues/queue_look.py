"""How far the files of a queue can be right, by the look of them, where no checksum tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.files.disk import DiskFile
from rocketpipe.store.files.open_files import OpenFiles
from rocketpipe.store.queues.entries import QUEUE_ENTRY_BYTES, whole_entries

#: How many of the last files are looked through.
FILES_LOOKED_THROUGH: Final = 3
#: How much of a file is read at a time.
LOOKED_AT_BYTES: Final = 3000 * QUEUE_ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class Looked:
    """The byte where right entries end, whether zeros follow it, and what the files have."""

    end: int
    only_zeros: bool
    #: Count of entries and checksum by the first byte of each file that was looked into.
    sums: dict[int, tuple[int, int]]


def look_through(
    files: OpenFiles, paths: Sequence[tuple[int, Path]], file_bytes: int, log_end: LogOffset
) -> Looked:
    """Find where right entries end; ``paths`` has the first byte of each file and its path.

    Raises:
        DiskError: A file cannot be read.
    """
    sums: dict[int, tuple[int, int]] = {}
    start = max(0, len(paths) - FILES_LOOKED_THROUGH)
    while paths:
        behind, end = 0, paths[start][0]
        for base, path in paths[start:]:
            size, behind, crc, zeros = _look_into(files.get(path), file_bytes, behind, log_end)
            sums[base] = (size // QUEUE_ENTRY_BYTES, crc)
            end = base + size
            if size < file_bytes:
                if end > paths[start][0] or start == 0:
                    return Looked(end, zeros and base == paths[-1][0], sums)
                break  # nothing in these files is right: look further back
        else:
            return Looked(end, True, sums)
        start -= 1
    return Looked(0, True, sums)


def _look_into(
    file: DiskFile, file_bytes: int, behind: int, log_end: LogOffset
) -> tuple[int, int, int, bool]:
    """Give how much of a file is right, where its last record ends, and what follows it."""
    at = crc = 0
    rest = b""
    while at < file_bytes and not rest:
        # Step by step: a file has few entries and a long hole behind them, as a rule.
        data = file.read(min(LOOKED_AT_BYTES, file_bytes - at), at)
        count, behind = whole_entries(data, behind, log_end)
        size = count * QUEUE_ENTRY_BYTES
        crc = crc32(data[:size], crc)
        at += size
        rest = data[size:]
    return at, behind, crc, rest == bytes(len(rest))
