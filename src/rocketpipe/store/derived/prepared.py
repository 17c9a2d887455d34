"""What follows from stretches of the log, worked out beforehand and left for the dispatcher.

A file is about consecutive records, and has portions of some thousand of them:

     0   8  RPPART, then a zero and a one
     8   8  where in the log the portion starts
    16   8  where it ends
    24   4  CRC-32 of what follows behind this head, and of the two places
    28   4  length of the description
    32   8  length of the bytes behind it
    40      {"records": n, "runs": [[topic, queue id, queue offset, log offset, entries], …],
             "keys": length, "timed": [[log offset, size, queue offset, stored ms, topic, queue id,
             flags, length of the properties], …]}
            entries of the runs, keys, properties, as ``derivation`` has them

They are believed by nobody but the process that had them made, and are not made durable: what
cannot be read of them follows from the log, as ever. An opening removes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.derived.derivation import Derivation, QueueRun
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.log.puts import Appended
from rocketpipe.store.queues.entries import QUEUE_ENTRY_BYTES

#: How the files are called, which lie among the checksums.
SUFFIX: Final = ".part"
_MAGIC: Final = b"RPPART\x00\x01"
_HEAD: Final = Struct(">8sqqIIQ")
_PLACES: Final = Struct(">qq")


class Prepared(NamedTuple):
    """What follows from the records between two places of the log; arrivals are left out."""

    start: LogOffset
    end: LogOffset
    derived: Derivation


def encode(portion: Prepared) -> bytes:
    """Give a portion as it is in a file."""
    derived = portion.derived
    described = {
        "records": derived.records,
        "runs": [
            [run.topic, run.queue_id, run.first, run.log_offset, len(run.entries)]
            for run in derived.runs
        ],
        "keys": len(derived.keys),
        "timed": [[*each[:7], len(each.properties)] for each in derived.timed],
    }
    text = json.dumps(described).encode()
    data = b"".join(
        [
            *(run.entries for run in derived.runs),
            derived.keys,
            *(each.properties for each in derived.timed),
        ]
    )
    crc = crc32(data, crc32(text, crc32(_PLACES.pack(portion.start, portion.end))))
    head = _HEAD.pack(_MAGIC, portion.start, portion.end, crc, len(text), len(data))
    return head + text + data


def portions(disk: Disk, files: Sequence[Path]) -> Iterator[Prepared]:
    """Give what files have, one after the other, up to what cannot be read."""
    for path in files:
        try:
            with disk.open(path, writable=False) as file:
                size, at = file.size(), 0
                while at < size:
                    head = file.read(_HEAD.size, at)
                    if len(head) < _HEAD.size:
                        return
                    magic, start, end, crc, text_bytes, data_bytes = _HEAD.unpack(head)
                    length = text_bytes + data_bytes
                    if magic != _MAGIC or length > size - at:
                        return
                    rest = file.read(length, at + _HEAD.size)
                    if crc32(rest, crc32(_PLACES.pack(start, end))) != crc:
                        return
                    derived = _decoded(json.loads(rest[:text_bytes]), rest[text_bytes:])
                    yield Prepared(LogOffset(start), LogOffset(end), derived)
                    at += _HEAD.size + length
        except DiskError:
            return


def _decoded(described: Any, data: bytes) -> Derivation:
    at = 0

    def taken(size: int) -> bytes:
        nonlocal at
        at += size
        return data[at - size : at]

    runs = []
    for topic, queue_id, first, log_offset, size in described["runs"]:
        run = QueueRun(topic, queue_id, first, log_offset)
        run.entries = taken(size)
        run.next = first + size // QUEUE_ENTRY_BYTES
        runs.append(run)
    keys = taken(described["keys"])
    timed = [
        Appended(
            *(LogOffset(log_offset), size, QueueOffset(offset), stored_ms, topic, queue_id, flags),
            taken(length),
        )
        for log_offset, size, offset, stored_ms, topic, queue_id, flags, length in described[
            "timed"
        ]
    ]
    return Derivation(described["records"], runs, keys, timed, [])


def remove_prepared(disk: Disk, directory: Path) -> None:
    """Remove the files that are left in a directory, which need not be there.

    Raises:
        DiskError: One cannot be removed.
    """
    if directory.name in disk.names(directory.parent):
        for name in disk.names(directory):
            if name.endswith(SUFFIX):
                disk.remove(directory / name)
