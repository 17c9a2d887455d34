"""What changed in a table after it was last saved as a whole, so that a change costs no whole save.

    consumerOffset.json            the whole table, as others read it
    consumerOffset.journal.7       changes since some such whole, and the whole ones it follows
    consumerOffset.journal.8       the changes after those

     0  4  RPJ1
     4  8  number of the journal, as in its name
    12  4  CRC-32 of the twelve bytes before
    16     blocks: length, CRC-32 of number and content, content
             B and four bytes    the checksum of a whole table, which has all before this journal
             C and JSON          a list of changes

A table is loaded by reading the whole one, and then the changes of the oldest journal that follows
it and of every later one. A journal that follows none that is there is of another time, as after
another program wrote the whole one, and means nothing. Changes say what is, not by how much it
differs: to read one twice, or one that the whole table has already, does no harm.

A block that is not what its checksum says ends its journal: it was being written when the machine
stopped, and nobody was told that it was there.
"""

from __future__ import annotations

import errno
import logging
import struct
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

from rocketpipe.errors import StoreError
from rocketpipe.store.files.disk import Disk, DiskError, DiskFile

log = logging.getLogger(__name__)

MAX_JOURNAL_BYTES: Final = 1 << 30

_MAGIC: Final = b"RPJ1"
_HEAD: Final = struct.Struct(">4sQI")
_BLOCK: Final = struct.Struct(">II")
_WHOLE: Final = b"B"
_CHANGES: Final = b"C"


class JournalClosed(StoreError):
    """A journal ended, by a failure or as it was not needed any more, before it could be used."""

    def __init__(self) -> None:
        super().__init__("the journal was closed meanwhile")


class ChangeJournal:
    """The journals beside one table. One thread at a time may use it; a lock sees to that."""

    def __init__(self, disk: Disk, table: Path) -> None:
        self._disk = disk
        self._directory = table.parent
        self._stem = f"{table.stem}.journal."
        self._lock = threading.Lock()
        self._number = 0
        self._file: DiskFile | None = None
        self._end = 0
        #: The journal that follows the whole table, and the one that follows the version before.
        self._follows = self._followed = 0

    @property
    def is_open(self) -> bool:
        """Whether changes can be added."""
        return self._file is not None

    @property
    def size(self) -> int:
        """How long the journal is that changes are added to."""
        return self._end

    def load(self, whole_crc: int | None) -> Iterator[bytes]:
        """Give the lists of changes that follow the whole table with this checksum, in order.

        Raises:
            DiskError: A journal cannot be read.
        """
        numbers = self._numbers()
        self._number = max(numbers, default=0)
        if whole_crc is None:
            return
        wanted = _WHOLE + whole_crc.to_bytes(4, "big")
        follows = next((each for each in numbers if wanted in self._blocks(each)), None)
        if follows is None:
            if numbers:
                log.info("journals follow no table that is there, and mean nothing: %s", numbers)
            return
        self._follows = self._followed = follows
        for number in range(follows, self._number + 1):
            if number not in numbers:
                log.warning(
                    "journal is missing, and those behind it are not read number=%d", number
                )
                return
            for content in self._blocks(number):
                if content[:1] == _CHANGES:
                    yield content[1:]

    def begin(self, whole_crc: int | None) -> None:
        """Go on in a new journal, which follows the one before, or else this whole table.

        Raises:
            DiskError: It could not be made; there is none then.
        """
        with self._lock:
            is_first = self._file is None
            self._close()
            number = self._number + 1
            self._disk.make_directory(self._directory)
            if number in self._numbers():
                self._disk.remove(self._path(number))  # begun, and nothing was told of it
            file = self._disk.create(self._path(number))
            head = _HEAD.pack(_MAGIC, number, crc32(_MAGIC + number.to_bytes(8, "big")))
            self._number, self._file, self._end = number, file, _HEAD.size
            try:
                file.write(head, at=0)
                if is_first and whole_crc is not None:
                    self._write([_WHOLE + whole_crc.to_bytes(4, "big")])
                    self._follows = self._follows or number
                    self._followed = self._followed or number
                file.sync()
                self._disk.sync_directory(self._directory)
            except DiskError:
                self._close()
                raise

    def add(self, lists: Iterable[bytes]) -> None:
        """Add lists of changes; they survive a power cut when this returns.

        Raises:
            DiskError: They could not be written. The journal is closed: what a disk failed to keep
                is not tried again, and the table is to be saved as a whole.
        """
        with self._lock:
            assert self._file is not None
            try:
                self._write(_CHANGES + each for each in lists)
                self._file.sync_data()
            except DiskError:
                self._close()
                raise

    def follow(self, whole_crc: int) -> None:
        """Note that a whole table is about to be there that has all before this journal.

        Raises:
            JournalClosed: There is none that could say so.
            DiskError: As by `add`.
        """
        with self._lock:
            if self._file is None:
                raise JournalClosed
            try:
                self._write([_WHOLE + whole_crc.to_bytes(4, "big")])
                self._file.sync_data()
            except DiskError:
                self._close()
                raise
            self._followed, self._follows = self._follows, self._number

    def drop_old(self) -> None:
        """Remove the journals that neither the whole table nor its previous version needs."""
        self._remove(number for number in self._numbers() if number < self._followed)

    def drop_all(self) -> None:
        """Remove every journal: the whole table has it all."""
        with self._lock:
            self._close()
            self._follows = self._followed = 0
        self._remove(self._numbers())

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file, self._end = None, 0

    def _write(self, contents: Iterable[bytes]) -> None:
        assert self._file is not None
        seed = crc32(self._number.to_bytes(8, "big"))
        for content in contents:
            block = _BLOCK.pack(len(content), crc32(content, seed)) + content
            self._file.write(block, at=self._end)
            self._end += len(block)

    def _remove(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            try:
                self._disk.remove(self._path(number))
            except DiskError as error:
                log.warning("journal could not be removed, and means nothing: %s", error)

    def _path(self, number: int) -> Path:
        return self._directory / f"{self._stem}{number}"

    def _numbers(self) -> list[int]:
        try:
            names = self._disk.names(self._directory)
        except DiskError:
            return []
        ends = (name.removeprefix(self._stem) for name in names if name.startswith(self._stem))
        return sorted(int(end) for end in ends if end.isascii() and end.isdigit())

    def _blocks(self, number: int) -> Iterator[bytes]:
        """The contents of a journal's whole blocks, up to what the disk cannot read."""
        try:
            yield from self._read(number)
        except DiskError as error:
            if error.errno != errno.EIO:
                raise
            log.error("journal is damaged, and read no further number=%d reason=%s", number, error)

    def _read(self, number: int) -> Iterator[bytes]:
        with self._disk.open(self._path(number), writable=False) as file:
            size = min(file.size(), MAX_JOURNAL_BYTES)
            head = file.read(_HEAD.size, at=0)
            if head != _HEAD.pack(_MAGIC, number, crc32(_MAGIC + number.to_bytes(8, "big"))):
                return
            seed = crc32(number.to_bytes(8, "big"))
            at = _HEAD.size
            while at + _BLOCK.size < size:
                length, crc = _BLOCK.unpack(file.read(_BLOCK.size, at=at))
                at += _BLOCK.size
                if length > size - at:
                    break
                content = file.read(length, at=at)
                if crc32(content, seed) != crc:
                    break
                at += length
                yield content
            else:
                if at == size:
                    return
            log.warning("journal ends before its file does, as after a crash number=%d", number)
