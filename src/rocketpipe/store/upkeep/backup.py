"""A copy of a store that can be taken while it is in use, and put back somewhere else.

    commitlog/          every segment; the last one up to the confirm offset, zeros behind it
    consumequeue/       the last file of each queue whose messages have all expired: without it the
                        queue would begin again at 0, where groups have been long ago
    config/             the broker's tables
    format              in which format all of this is
    epochFileCheckpoint of a replica: whose leadership each part of the log is of
    backup.json         what should be there: sizes and checksums; written last

All other queues, the index and the timer are not copied: whoever opens the copy makes them anew
from the log, and an ``abort`` file that `restore` leaves tells them to.

The log is what it is at one moment. Tables that say how far somebody has come are copied before
that moment, and those that say what there is after it: what was consumed is in the log, and what
is in the log has its topic.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from rocketpipe.clock import Clock
from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.errors import StoreDamaged
from rocketpipe.store.files.disk import Disk, DiskError, DiskFile
from rocketpipe.store.files.snapshot import Snapshot
from rocketpipe.store.layout import UNFINISHED, StoreLayout
from rocketpipe.store.state.format_version import check_format
from rocketpipe.store.upkeep.log_scan import CHUNK_BYTES, Gap, LogFiles, log_of, scan
from rocketpipe.store.upkeep.queue_check import last_files_of_expired
from rocketpipe.store.upkeep.retention import Pins

MANIFEST: Final = "backup.json"
_FORMAT: Final = 1
_ROOMS: Final = ("commitlog", "consumequeue", "config", "format", "epochFileCheckpoint")
#: What a replica remembers of its group; what stands there for the start of the machine while
#: something may be missing, as from an old copy: it does not lead before it has caught up.
_OF_A_REPLICA: Final = "config/replication.json"
LOST: Final = "lost"
_WHAT_THERE_IS: Final = ("topics.json", "subscriptionGroup.json")


class BackupDamaged(StoreError):
    """A backup is not what was backed up."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """One file of a backup: its path within, its bytes up to the zeros behind, and its length."""

    name: str
    bytes_used: int
    crc: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What a backup holds."""

    created_ms: int
    first_offset: LogOffset
    end_offset: LogOffset
    files: tuple[CopiedFile, ...]


def back_up(
    disk: Disk,
    root: Path,
    target: Path,
    *,
    clock: Clock,
    pins: Pins | None = None,
    confirmed: Callable[[], LogOffset] | None = None,
) -> Backup:
    """Copy the store at ``root`` into the new or empty directory ``target``.

    A store in use is given by its ``pins`` and its ``confirmed`` offset; the copying may run on
    another thread then. Without them nobody may be using it, and all of its log is copied. Each
    record is checked on the way.

    Raises:
        StoreDamaged: a record is not what was written.
        FormatUnknown: a newer version has changed the store.
        StoreError: the target is not empty.
        DiskError: a file cannot be read or written.
    """
    check_format(disk, root)
    _require_empty(disk, target)
    layout, copy = StoreLayout(root), StoreLayout(target)
    disk.make_directory(copy.commit_log)
    pins = pins or Pins()
    with pins.hold(LogOffset(0), f"backup to {target}"):
        tables = [
            name
            for name in _names(disk, layout.config)
            if not name.endswith(UNFINISHED) and not _is_directory(disk, layout.config / name)
        ]
        late = [name for name in tables if name.startswith(_WHAT_THERE_IS)]
        copied = [
            file
            for name in tables
            if name not in late
            and (file := _copy_if_there(disk, layout.config / name, copy.config / name, target))
        ]
        end = None if confirmed is None else confirmed()
        with log_of(disk, layout) as files:
            end = _verified_end(files, end)
            for base in files.bases:
                if base < end or base == files.first_offset:
                    path = files.path_of(base)
                    used = min(end - base, files.segment_bytes)
                    copied.append(
                        _copy(disk, path, copy.commit_log / path.name, target, max(used, 0))
                    )
            first = files.first_offset
        copied += [
            _copy(disk, path, copy.queues / path.relative_to(layout.queues), target)
            for path in last_files_of_expired(disk, layout, first)
        ]
        copied += [_copy(disk, layout.config / name, copy.config / name, target) for name in late]
        # RocketMQ's stores have no format, and only replicas have epochs. Which replica it is stays
        # behind: a copy is for another one.
        for path in (layout.format, layout.epochs):
            if path.name in disk.names(root):
                copied.append(_copy(disk, path, target / path.name, target))
    _sync_directories(disk, target, copied)
    backup = Backup(
        created_ms=clock.now_ms(), first_offset=first, end_offset=end, files=tuple(copied)
    )
    Snapshot(disk, target / MANIFEST).save(_manifest_text(backup))
    return backup


def read_manifest(disk: Disk, directory: Path) -> Backup:
    """Tell what the backup in a directory holds.

    Raises:
        BackupDamaged: there is no complete backup in it.
    """
    found = Snapshot(disk, directory / MANIFEST).load(_parse_manifest)
    if found is None:
        raise BackupDamaged(directory / MANIFEST, "is not there: the backup was not completed")
    return found


def restore(disk: Disk, directory: Path, root: Path) -> Backup:
    """Put the backup in ``directory`` back as a store at ``root``, which is new or empty.

    The store is there as a whole or not at all.

    Raises:
        BackupDamaged: the backup is incomplete, or one of its files is not what was copied.
        FormatUnknown: a newer version made the backup.
        StoreError: the root is not empty, or a restore was interrupted before.
        DiskError: a file cannot be read or written.
    """
    backup = read_manifest(disk, directory)
    check_format(disk, directory)
    _require_empty(disk, root)
    unfinished = root.with_name(root.name + ".restoring")
    _require_empty(disk, unfinished)
    disk.make_directory(unfinished)
    for wanted in backup.files:
        copied = _copy(
            disk, directory / wanted.name, unfinished / wanted.name, unfinished, wanted.bytes_used
        )
        if copied.crc != wanted.crc or copied.bytes_used != wanted.bytes_used:
            raise BackupDamaged(directory / wanted.name, "is not the file that was backed up")
        if copied.length != wanted.length:
            raise BackupDamaged(
                directory / wanted.name, f"has {copied.length} bytes, not {wanted.length}"
            )
        if copied.name.startswith(_OF_A_REPLICA):
            _have_lost(disk, unfinished / copied.name)
    with disk.create(StoreLayout(unfinished).abort) as file:
        file.write(b"restored", at=0)
        file.sync()
    _sync_directories(disk, unfinished, backup.files)
    disk.rename(unfinished, root)
    disk.sync_directory(root.parent)
    return backup


def _have_lost(disk: Disk, path: Path) -> None:
    with disk.open(path) as file:
        try:
            value = json.loads(file.read(file.size(), 0))
            text = json.dumps({**value, "bootId": LOST}).encode()
        except (ValueError, TypeError):
            return  # it says nothing: whoever reads it finds that out
        file.truncate(0)
        file.write(text, at=0)
        file.sync()


def _verified_end(files: LogFiles, end: LogOffset | None) -> LogOffset:
    """Check every record up to ``end``, or up to where they end; give that place."""
    last = files.first_offset
    for item in scan(files, end=end):
        if isinstance(item, Gap):
            if end is None and item.next_good is None:
                break  # what a crash left behind the last record is not worth keeping
            raise StoreDamaged(files.path_of(item.at), item.at, item.reason, item.next_good)
        last = LogOffset(item.at + len(item.record))
    return last if end is None else end


def _copy(disk: Disk, source: Path, target: Path, top: Path, used: int | None = None) -> CopiedFile:
    """Copy a file, or its first ``used`` bytes with zeros behind up to its length; synced."""
    disk.make_directory(target.parent)
    crc = at = 0
    with disk.open(source, writable=False) as old, disk.create(target) as new:
        length = old.size()
        end = length if used is None else used
        while at < end and (data := old.read(min(CHUNK_BYTES, end - at), at=at)):
            crc = crc32(data, crc)
            _write_unless_zeros(new, data, at)
            at += len(data)
        new.truncate(length)
        new.sync()
    return CopiedFile(target.relative_to(top).as_posix(), at, crc, length)


def _copy_if_there(disk: Disk, source: Path, target: Path, top: Path) -> CopiedFile | None:
    """Copy a table, or the journal of one: a store in use removes those that it needs no more."""
    try:
        return _copy(disk, source, target, top)
    except DiskError as error:
        if error.errno == errno.ENOENT:
            return None
        raise


def _sync_directories(disk: Disk, top: Path, files: Iterable[CopiedFile]) -> None:
    for directory in sorted({(top / file.name).parent for file in files} | {top}):
        disk.sync_directory(directory)


def _write_unless_zeros(file: DiskFile, data: bytes, at: int) -> None:
    if data.strip(b"\0"):  # what is not written reads as zeros
        file.write(data, at=at)


def _require_empty(disk: Disk, directory: Path) -> None:
    if _names(disk, directory):
        raise StoreError(f"{directory} is not empty")


def _names(disk: Disk, directory: Path) -> list[str]:
    try:
        return disk.names(directory)
    except DiskError as error:
        if error.errno == errno.ENOENT:
            return []
        raise


def _is_directory(disk: Disk, path: Path) -> bool:
    try:
        disk.names(path)
    except DiskError as error:
        if error.errno == errno.ENOTDIR:
            return False
        raise
    return True


def _manifest_text(backup: Backup) -> bytes:
    value = {
        "format": _FORMAT,
        "createdMs": backup.created_ms,
        "firstOffset": backup.first_offset,
        "endOffset": backup.end_offset,
        "files": [[file.name, file.bytes_used, file.crc, file.length] for file in backup.files],
    }
    return json.dumps(value, indent="\t").encode()


def _parse_manifest(text: bytes) -> Backup:
    value: dict[str, Any] = json.loads(text)
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise ValueError("is of no known format")
    try:
        files = tuple(CopiedFile(*row) for row in value["files"])
        backup = Backup(
            created_ms=int(value["createdMs"]),
            first_offset=LogOffset(int(value["firstOffset"])),
            end_offset=LogOffset(int(value["endOffset"])),
            files=files,
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"is no manifest: {error}") from error
    for file in files:
        path = Path(file.name)
        # The names become paths below the new store, and nowhere else.
        if path.is_absolute() or ".." in path.parts or path.parts[0] not in _ROOMS:
            raise ValueError(f"names a file that no backup has: {file.name!r}")
    return backup
