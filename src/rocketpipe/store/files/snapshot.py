"""A small file that is replaced as a whole, with its previous version beside it.

    topics.json         what was saved last
    topics.json.bak     what was saved before
    topics.json.tmp     what is being saved; left behind by a crash, it means nothing
    topics.json.damaged what could not be read, nor the one before it; kept for who looks

The text is a JSON object, and its checksum is its first member, which other readers ignore as
they do every key they do not know:

    {
        "rocketpipe.crc32":"1c291ca3",
        "dataVersion":{ …

It is the CRC-32 of the text without that line. A text that does not begin so, such as RocketMQ
writes, is taken as it is. Who edits a file by hand takes the line out.

Nothing here knows JSON beyond the opening brace: what the text means is for the one who saves it.
"""

from __future__ import annotations

import errno
import logging
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar
from zlib import crc32

from rocketpipe.errors import RocketPipeError, StoreError
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.whole_file import write_whole

log = logging.getLogger(__name__)

T = TypeVar("T")

#: No table of a broker comes near this; a longer file is something else.
MAX_SNAPSHOT_BYTES: Final = 256 * 1024 * 1024
#: Behind the name of a file that could not be read, and was set aside.
DAMAGED: Final = ".damaged"

_OPENING: Final = b'{\n\t"rocketpipe.crc32":"%08x",'
_SEALED: Final = re.compile(rb'\{\s*"rocketpipe\.crc32":"([^"]*)"(,|(?=\s*\}))')


class SnapshotDamaged(StoreError):
    """Neither a file nor the version before it can be read."""

    def __init__(self, path: Path, reason: str, previous: Path, previous_reason: str) -> None:
        super().__init__(f"{path}: {reason}; {previous}: {previous_reason}")
        self.path = path
        self.previous = previous


class _Damaged(StoreError):
    pass


class Snapshot:
    """One such file. Saving may be done on another thread than the rest; one save at a time."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self.path = path
        self.previous = path.with_name(path.name + ".bak")
        self._disk = disk
        self._temporary = path.with_name(path.name + ".tmp")
        self._streamed = path.with_name(path.name + ".long.tmp")
        self._lock = threading.Lock()
        #: The checksum of the text that was loaded or saved last; None before, and for no file.
        self.crc: int | None = None
        #: Whether the file may become the previous version: a damaged one must not push out a good.
        self._worth_keeping: bool | None = None

    def load(self, parse: Callable[[bytes], T], *, fall_back: bool = True) -> T | None:
        """Read what was saved last, or, with a warning, what was saved before; None for nothing.

        Without ``fall_back`` what was saved before does not do: it says what is no longer so.
        ``parse`` is given the text, and refuses one that it cannot read with a ``ValueError`` or
        one of our own errors.

        Raises:
            SnapshotDamaged: something is there, but neither version can be read.
            DiskError: the directory or a file in it cannot be read.
        """
        present = self._present()
        if self.path.name in present:
            reason, value = self._try(self.path, parse)
        else:
            reason, value = "is not there", None
        self._worth_keeping = reason is None and self.path.name in present
        if reason is None:
            return value
        self.crc = None
        if self.previous.name not in present:
            if self.path.name not in present:
                return None
            raise SnapshotDamaged(self.path, reason, self.previous, "is not there")
        if not fall_back:
            raise SnapshotDamaged(self.path, reason, self.previous, "is older, and not taken")
        previous_reason, value = self._try(self.previous, parse)
        if previous_reason is not None:
            raise SnapshotDamaged(self.path, reason, self.previous, previous_reason)
        log.warning(
            "snapshot fell back to its previous version file=%s reason=%r previous=%s",
            self.path,
            reason,
            self.previous,
        )
        return value

    def set_aside(self) -> list[str]:
        """Give what cannot be read other names, for who wants to look at it; tells which.

        Raises:
            DiskError: it could not be renamed.
        """
        present = self._present()
        kept = []
        for path in (self.path, self.previous):
            if path.name in present:
                name, number = path.name + DAMAGED, 1
                while name in present:
                    number += 1
                    name = f"{path.name}{DAMAGED}-{number}"
                self._disk.rename(path, path.with_name(name))
                kept.append(name)
        self._disk.sync_directory(self.path.parent)
        return kept

    def save(self, text: bytes) -> None:
        """Replace the file by this JSON object; what was there becomes the previous version.

        When it returns, the new version survives a power cut. At no moment is there neither.

        Raises:
            DiskError: it could not be written; the last version is still in place.
        """
        with self._lock:
            self._disk.make_directory(self.path.parent)
            present = self._present()
            if self.path.name in present and self._keepable():
                # A copy and not a rename, so that a reader finds the file at every moment.
                kept = self._kept()
                if kept is not None:
                    write_whole(self._disk, self.previous, kept, self._temporary)
            write_whole(self._disk, self.path, sealed(text), self._temporary)
            self._disk.sync_directory(self.path.parent)
            self._worth_keeping = True
            self.crc = crc32(text)

    def save_pieces(self, pieces: Iterable[bytes], about_to: Callable[[int], None]) -> None:
        """Do as `save` with a long text, which is written as it comes and never held as a whole.

        ``about_to`` is told the text's checksum when all is written, before it takes its place.
        What raises before that leaves the last version in place.

        Raises:
            DiskError: it could not be written; the last version is in place, or is the previous
                one, which is read then.
        """
        with self._lock:
            self._disk.make_directory(self.path.parent)
            present = self._present()
            if self._streamed.name in present:
                self._disk.remove(self._streamed)
            try:
                crc = self._write_pieces(pieces)
                about_to(crc)
            except BaseException:
                _remove_if_there(self._disk, self._streamed)
                raise
            if self.path.name in present and self._keepable():
                # A long one is not copied: for a moment there is only the previous version.
                self._disk.rename(self.path, self.previous)
            self._disk.rename(self._streamed, self.path)
            self._disk.sync_directory(self.path.parent)
            self._worth_keeping = True
            self.crc = crc

    def _write_pieces(self, pieces: Iterable[bytes]) -> int:
        with self._disk.create(self._streamed) as file:
            crc, at = 0, 0
            for piece in pieces:
                crc = crc32(piece, crc)
                if not at:
                    assert piece[:1] == b"{", "an object with a member, and its brace first"
                    at = len(_OPENING % 0)
                    file.write(piece[1:], at=at)
                    at -= 1
                else:
                    file.write(piece, at=at)
                at += len(piece)
            file.write(_OPENING % crc, at=0)
            file.sync()
        return crc

    def _keepable(self) -> bool:
        if self._worth_keeping is None:
            try:
                unsealed(_contents(self._disk, self.path))
            except _Damaged:
                return False
            return True
        return self._worth_keeping

    def _kept(self) -> bytes | None:
        """What the file has, to become the previous version; None if it is damaged by now."""
        try:
            return _contents(self._disk, self.path)
        except _Damaged as damage:
            log.warning("snapshot is not kept as the previous one file=%s: %s", self.path, damage)
            return None

    def _present(self) -> set[str]:
        try:
            return set(self._disk.names(self.path.parent))
        except DiskError as error:
            if error.errno == errno.ENOENT:
                return set()
            raise

    def _try(self, path: Path, parse: Callable[[bytes], T]) -> tuple[str | None, T | None]:
        try:
            text = unsealed(_contents(self._disk, path))
            value = parse(text)
            self.crc = crc32(text)
            return None, value
        except DiskError:
            raise
        except (_Damaged, RocketPipeError, ValueError) as error:
            return str(error) or type(error).__name__, None


def sealed(text: bytes) -> bytes:
    """Give a JSON object its checksum as the first member.

    The text is as RocketMQ prints it: an opening brace, then a member or the closing brace.
    """
    assert text.startswith(b"{")
    rest = text[1:]
    comma = b"" if rest.strip() == b"}" else b","
    return b'{\n\t"rocketpipe.crc32":"%08x"%b%b' % (crc32(text), comma, rest)


def unsealed(data: bytes) -> bytes:
    """Give the text without its checksum, having verified that; one without is taken as it is.

    Raises:
        StoreError: If it is empty, or not what its checksum was computed of.
    """
    if not data.strip(b" \t\r\n\0"):
        raise _Damaged("is empty")
    match = _SEALED.match(data)
    if match is None:
        return data
    text = b"{" + data[match.end() :]
    if match[1] != b"%08x" % crc32(text):
        raise _Damaged(
            "is not what its checksum was computed of; if it was edited by hand, "
            'take the line "rocketpipe.crc32" out'
        )
    return text


def _contents(disk: Disk, path: Path) -> bytes:
    with disk.open(path, writable=False) as file:
        size = file.size()
        if size > MAX_SNAPSHOT_BYTES:
            raise _Damaged(f"has {size} bytes, more than {MAX_SNAPSHOT_BYTES}")
        try:
            return file.read(size, at=0)
        except DiskError as error:
            if error.errno != errno.EIO:
                raise
            # A part of the disk that cannot be read does not come back.
            raise _Damaged(str(error)) from error


def _remove_if_there(disk: Disk, path: Path) -> None:
    try:
        disk.remove(path)
    except DiskError:
        pass
