"""Consume queues held against the log, without opening either for writing.

Records come in the order of the log, each with the entry that it should have. Blocks of entries are
read ahead and the most recent ones kept, so that memory does not grow with the store.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.layout import StoreLayout, file_name, offset_of
from rocketpipe.store.queues.entries import BLANK_SIZE, NO_ENTRY, QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from rocketpipe.store.state.checkpoint import NEVER
from rocketpipe.store.upkeep.findings import Kind, Report

_BLOCK_ENTRIES: Final = 128
_MOST_BLOCKS: Final = 8192
_CHUNK_BYTES: Final = 20 * 50_000

Queue = tuple[str, int]
Entry = tuple[int, int, int]


class QueueCheck:
    """Compares what the queues say with what they should."""

    def __init__(
        self,
        disk: Disk,
        layout: StoreLayout,
        report: Report,
        redone_from: int = NEVER,
        file_bytes: Mapping[Queue, int] | None = None,
    ) -> None:
        """Take the queues; entries of records from ``redone_from`` on are made anew by a start.

        ``file_bytes`` is how long the files of each queue are, if somebody has looked already.
        """
        self._redone_from = redone_from
        self._disk = disk
        self._layout = layout
        self._report = report
        #: How long the files of each queue are.
        self.file_bytes: dict[Queue, int] = dict(file_bytes or {})
        self._blocks: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()
        #: The queue offsets of the first and the last record of each queue.
        self.seen: dict[Queue, tuple[int, int]] = {}
        if file_bytes is None:
            self._scan_files()

    def _scan_files(self) -> None:
        for queue, directory in queues_on_disk(self._disk, self._layout):
            sizes: set[int] = set()
            for name in self._disk.names(directory):
                if offset_of(name) is None:
                    continue
                with self._disk.open(directory / name, writable=False) as file:
                    size = file.size()
                if size == 0 or size % QUEUE_ENTRY_BYTES or (sizes and size not in sizes):
                    self._report.add(
                        Kind.ODD_FILE,
                        directory / name,
                        size,
                        "is no queue file's length",
                        left_over=size == 0,  # it was just made
                    )
                    continue
                sizes.add(size)
            if sizes:
                self.file_bytes[queue] = sizes.pop()

    def expect(self, queue: Queue, queue_offset: int, entry: Entry) -> None:
        """Hold the entry at a queue offset against what its record says."""
        first, last = self.seen.get(queue, (queue_offset, queue_offset))
        self.seen[queue] = (min(first, queue_offset), max(last, queue_offset))
        found = self._entry(queue, queue_offset)
        if found is None:
            detail = f"record at {entry[0]}"
            self._find(Kind.QUEUE_ENTRY_MISSING, queue, queue_offset, detail, entry[0])
            return
        self._report.queue_entries += 1
        if found != entry:
            detail = f"{found}, not {entry}"
            self._find(Kind.QUEUE_ENTRY_WRONG, queue, queue_offset, detail, entry[0])

    def finish(self, log_first: LogOffset) -> None:
        """Look for entries of which the log knows nothing."""
        for queue in self.file_bytes:
            first, last = self.seen.get(queue, (0, -1))
            for number, (offset, size, _) in self._entries(queue):
                if first <= number <= last or size == BLANK_SIZE or offset < log_first:
                    continue
                self._report.queue_entries += 1
                self._find(Kind.QUEUE_ENTRY_DANGLING, queue, number, f"record at {offset}", offset)

    def _find(self, kind: Kind, queue: Queue, number: int, detail: str, at: int) -> None:
        left_over = at >= self._redone_from
        self._report.add(kind, self._directory(queue), number, detail, left_over=left_over)

    def _directory(self, queue: Queue) -> Path:
        # Topics come from files here, and files are only looked for where a listing had them.
        return self._layout.queues / queue[0] / str(queue[1])

    def _entry(self, queue: Queue, number: int) -> Entry | None:
        block_number, place = divmod(number, _BLOCK_ENTRIES)
        key = (*queue, block_number)
        block = self._blocks.get(key)
        if block is None:
            block = self._read_block(queue, block_number)
            self._blocks[key] = block
            if len(self._blocks) > _MOST_BLOCKS:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(key)
        at = place * QUEUE_ENTRY_BYTES
        data = block[at : at + QUEUE_ENTRY_BYTES]
        if len(data) < QUEUE_ENTRY_BYTES or data == NO_ENTRY:
            return None
        offset, size, tag_code = QUEUE_ENTRY.unpack(data)
        return None if size == BLANK_SIZE else (offset, size, tag_code)

    def _read_block(self, queue: Queue, block_number: int) -> bytes:
        file_bytes = self.file_bytes.get(queue)
        if file_bytes is None:
            return b""
        block_bytes = _BLOCK_ENTRIES * QUEUE_ENTRY_BYTES
        start = at = block_number * block_bytes
        block = bytearray()
        while at < start + block_bytes:  # it may lie in several files, some of them not there
            base = at - at % file_bytes
            size = min(start + block_bytes, base + file_bytes) - at
            data = self._read(self._directory(queue) / file_name(base), at - base, size)
            block += data.ljust(size, b"\0")
            at += size
        return bytes(block)

    def _read(self, path: Path, at: int, size: int) -> bytes:
        try:
            with self._disk.open(path, writable=False) as file:
                return file.read(size, at=at)
        except DiskError as error:
            if error.errno == errno.ENOENT:
                return b""
            raise

    def _entries(self, queue: Queue) -> Iterator[tuple[int, Entry]]:
        directory = self._directory(queue)
        file_bytes = self.file_bytes[queue]
        for name in self._disk.names(directory):
            base = offset_of(name)
            if base is None:
                continue
            with self._disk.open(directory / name, writable=False) as file:
                for start in range(0, file_bytes, _CHUNK_BYTES):
                    data = file.read(min(_CHUNK_BYTES, file_bytes - start), at=start)
                    data = data[: len(data) // QUEUE_ENTRY_BYTES * QUEUE_ENTRY_BYTES]
                    number = (base + start) // QUEUE_ENTRY_BYTES
                    for entry in QUEUE_ENTRY.iter_unpack(data):
                        if entry[1]:
                            yield number, entry
                        number += 1


def queues_on_disk(disk: Disk, layout: StoreLayout) -> Iterator[tuple[Queue, Path]]:
    """Every queue that has a directory, and that directory; other names are passed over."""
    for topic in _names(disk, layout.queues):
        for queue_id in _names(disk, layout.queues / topic):
            if queue_id.isascii() and queue_id.isdecimal():
                yield (topic, int(queue_id)), layout.queues / topic / queue_id


def last_files_of_expired(disk: Disk, layout: StoreLayout, first: LogOffset) -> Iterator[Path]:
    """The last file of each queue of which the log, beginning at ``first``, has no message.

    It is all that says where such a queue goes on.
    """
    for _, directory in queues_on_disk(disk, layout):
        names = [name for name in disk.names(directory) if offset_of(name) is not None]
        if names:
            with disk.open(directory / names[-1], writable=False) as file:
                data = file.read(file.size(), at=0)
            # A queue file is some megabytes at most, and all zeros behind its last entry.
            used = -(-len(data.rstrip(b"\0")) // QUEUE_ENTRY_BYTES) * QUEUE_ENTRY_BYTES
            last = data[used - QUEUE_ENTRY_BYTES : used]
            if len(last) == QUEUE_ENTRY_BYTES and QUEUE_ENTRY.unpack(last)[0] < first:
                yield directory / names[-1]


def _names(disk: Disk, directory: Path) -> list[str]:
    try:
        return disk.names(directory)
    except DiskError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return []
        raise
