"""How far the files of a store are good, in one page that is written with every flush.

RocketMQ's part, five 64-bit numbers of which it trusts the first three after a crash:

      0  8  store time of the newest record that is durable
      8  8  the same, of the newest whose queue entry is
     16  8  the same, of the newest that is in the key index
     24  8  how far the master's log was flushed
     32  8  confirm offset: readers of the files go no further than here or where it is durable

Ours, twice, at 512 and at 1024; the two are written in turn, so that one is whole when the other
is torn. The valid one with the greater number counts:

      0  8  RPCKPT, then a zero and a one
      8  8  number, one more each time
     16  8  everything before it is durable, whether readers may see it or not
     24  8  where the last whole record before it starts; −1 if there is none
     32  8  how far queues, index and timer are durable
     40  8  length of a segment
     48  8  from where on every record has a checksum
     56  4  1 after a clean stop
     60  4  process id of the run
     64  8  when the run started, ms
     72  8  the first number of RocketMQ's part: another there is another broker's
     80  4  CRC-32 of these 80 bytes

The page may be older than the log, and never newer. What cannot be read is as if it were not
there: recovery then looks at more of the log.
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from zlib import crc32

from rocketpipe.store.files.disk import Disk, DiskError, DiskFile

PAGE_BYTES: Final = 4096
_APACHE: Final = struct.Struct(">qqqqq")
_BLOCK: Final = struct.Struct(">8sqqqqqqiiqq")
_CRC: Final = struct.Struct(">I")
_MAGIC: Final = b"RPCKPT\x00\x01"
#: No offset is as great.
NEVER: Final = (1 << 63) - 1
_PLACES: Final = (512, 1024)
#: RocketMQ's recovery starts this much before the times it finds.
_MARGIN_MS: Final = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnBlock:
    """What we note beyond RocketMQ's times."""

    confirmed: int = 0
    last_record: int = -1
    derived: int = 0
    segment_bytes: int = 0
    #: Beyond every log unless something is known.
    sealed_from: int = NEVER
    clean: bool = False
    pid: int = 0
    started_ms: int = 0
    log_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointData:
    """A checkpoint as it was read; ``own`` is ``None`` where RocketMQ wrote it, or it is torn."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    master_flushed: int = 0
    confirmed: int = 0
    own: OwnBlock | None = None
    #: Whether another broker has written to it since we did.
    foreign: bool = False

    @property
    def safe_ms(self) -> int:
        """Records that were stored before this time are in the log and in the queues."""
        return max(0, min(self.log_ms, self.queues_ms) - _MARGIN_MS)


def read_checkpoint(disk: Disk, path: Path) -> CheckpointData:
    """Read a checkpoint; what is not there or torn reads as nothing known.

    Raises:
        DiskError: It is there and cannot be read.
    """
    if path.name not in disk.names(path.parent):
        return CheckpointData()
    with disk.open(path, writable=False) as file:
        page = file.read(PAGE_BYTES, 0)
    return parse_checkpoint(page)[0]


def parse_checkpoint(page: bytes) -> tuple[CheckpointData, int]:
    """Read the bytes of a checkpoint; beside it the number of our block, 0 if there is none."""
    if len(page) < _APACHE.size:
        return CheckpointData(), 0
    log_ms, queues_ms, index_ms, master_flushed, confirmed = _APACHE.unpack_from(page)
    blocks = [block for at in _PLACES if (block := _read_block(page, at)) is not None]
    number, own = max(blocks, key=lambda block: block[0], default=(0, None))
    # The other block may be the last: the page is written in two steps.
    foreign = own is not None and all(block.log_ms != log_ms for _, block in blocks)
    data = CheckpointData(
        foreign=foreign,
        log_ms=log_ms,
        queues_ms=queues_ms,
        index_ms=index_ms,
        master_flushed=master_flushed,
        confirmed=confirmed,
        own=own,
    )
    return data, number


def _read_block(page: bytes, at: int) -> tuple[int, OwnBlock] | None:
    block = page[at : at + _BLOCK.size + _CRC.size]
    if len(block) < _BLOCK.size + _CRC.size:
        return None
    (
        magic,
        number,
        confirmed,
        last,
        derived,
        segment_bytes,
        sealed_from,
        clean,
        pid,
        started,
        log_ms,
    ) = _BLOCK.unpack_from(block)
    (crc,) = _CRC.unpack_from(block, _BLOCK.size)
    if magic != _MAGIC or crc != crc32(block[: _BLOCK.size]):
        return None
    own = OwnBlock(
        confirmed=confirmed,
        last_record=last,
        derived=derived,
        segment_bytes=segment_bytes,
        sealed_from=sealed_from,
        clean=bool(clean),
        pid=pid,
        started_ms=started,
        log_ms=log_ms,
    )
    return number, own


class Checkpoint:
    """The checkpoint of a store that is open; any thread may move it on."""

    def __init__(self, disk: Disk, path: Path) -> None:
        """Open the page, or make it.

        Raises:
            DiskError: It cannot be opened or made.
        """
        self._lock = threading.Lock()
        self._file = _open_page(disk, path)
        self.data, self._number = parse_checkpoint(self._file.read(PAGE_BYTES, 0))
        self._own = self.data.own or OwnBlock()

    def begin(self, *, segment_bytes: int, sealed_from: int, pid: int, started_ms: int) -> None:
        """Start a run: the mark of the last clean stop goes, durably.

        Raises:
            DiskError: It cannot be written.
        """
        self._move(
            own={
                "segment_bytes": segment_bytes,
                "sealed_from": sealed_from,
                "pid": pid,
                "started_ms": started_ms,
                "clean": False,
            }
        )
        self.sync()

    def flushed(
        self, durable: int, last_record: int, stored_ms: int, published: int | None = None
    ) -> None:
        """Note how far the log is durable: where that is, its last record, and when it was stored.

        ``published`` is how far readers may go, if that is less.

        Raises:
            DiskError: It cannot be written.
        """
        shown = durable if published is None else published
        self._move(
            own={"confirmed": durable, "last_record": last_record},
            # Of the last record: had the clock been ahead, a later one would say too much.
            data={"confirmed": shown, "log_ms": stored_ms or self.data.log_ms},
        )

    def publish(self, confirmed: int) -> None:
        """Note how far readers of the files may go, where nothing new became durable.

        Raises:
            DiskError: It cannot be written.
        """
        self._move(own={}, data={"confirmed": confirmed})

    def seal_from(self, offset: int) -> None:
        """Note from where on every record has a checksum.

        Raises:
            DiskError: It cannot be written.
        """
        self._move(own={"sealed_from": offset})

    def derived(self, upto: int, stored_ms: int) -> None:
        """Note how far queues, index and timer are durable, and when that record was stored.

        Raises:
            DiskError: It cannot be written.
        """
        self._move(
            own={"derived": upto},
            data={
                "queues_ms": stored_ms or self.data.queues_ms,
                "index_ms": stored_ms or self.data.index_ms,
            },
        )

    def rewind(
        self,
        end: int,
        last_record: int,
        derived: int,
        stored_ms: int,
        published: int | None = None,
    ) -> None:
        """Take back what lies behind the end of a log that was opened or truncated.

        ``published`` is how far readers may go, if that is less.

        Raises:
            DiskError: It cannot be written.
        """
        self._move(
            own={"confirmed": end, "last_record": last_record, "derived": derived},
            data={
                "confirmed": end if published is None else published,
                "log_ms": stored_ms,
                "queues_ms": min(stored_ms, self.data.queues_ms),
                "index_ms": min(stored_ms, self.data.index_ms),
            },
        )

    def finish(self) -> None:
        """Leave the mark of a clean stop, durably, and close.

        Raises:
            DiskError: It cannot be written.
        """
        self._move(own={"clean": True})
        self.sync()
        self.close()

    def sync(self) -> None:
        """Return once the page survives a power cut.

        Raises:
            DiskError: It may not.
        """
        self._file.sync_data()

    def close(self) -> None:
        """Close the file; nothing is written."""
        self._file.close()

    def _move(self, own: dict[str, int], data: dict[str, int] | None = None) -> None:
        with self._lock:
            moved = replace(self.data, **(data or {}))  # type: ignore[arg-type]
            self._own = replace(self._own, **own, log_ms=moved.log_ms)  # type: ignore[arg-type]
            self.data = replace(moved, own=self._own, foreign=False)
            self._number += 1
            # Ours first: what then is in RocketMQ's part is known to one of our two.
            place = _PLACES[self._number % len(_PLACES)]
            self._file.write(_write_block(self._own, self._number), place)
            self._file.write(
                _APACHE.pack(
                    self.data.log_ms,
                    self.data.queues_ms,
                    self.data.index_ms,
                    self.data.master_flushed,
                    self.data.confirmed,
                ),
                0,
            )


def _write_block(own: OwnBlock, number: int) -> bytes:
    block = _BLOCK.pack(
        _MAGIC,
        number,
        own.confirmed,
        own.last_record,
        own.derived,
        own.segment_bytes,
        own.sealed_from,
        own.clean,
        own.pid,
        own.started_ms,
        own.log_ms,
    )
    return block + _CRC.pack(crc32(block))


def _open_page(disk: Disk, path: Path) -> DiskFile:
    if path.name in disk.names(path.parent):
        file = disk.open(path)
        if file.size() == PAGE_BYTES:
            return file
    else:
        file = disk.create(path)
    # Absent, or cut by a crash while it was being made: zeros are "nothing known".
    try:
        file.preallocate(PAGE_BYTES)
        file.sync()
        disk.sync_directory(path.parent)
    except DiskError:
        file.close()
        raise
    return file
