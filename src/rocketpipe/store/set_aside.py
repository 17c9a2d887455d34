"""What becomes of a broker's files when it has left the directory that it shared with others.

    DIR/broker-a-1/     →  DIR/drained/broker-a-1/      the whole directory, in one step
    DIR/commitlog/, …   →  DIR/drained/broker-a/        of the one that had DIR alone: its own files
    DIR/drained/broker-a-1.json                         how far its queues reached when it left

The roster says who is leaving before anything is moved, and stops saying so when all of it is: a
kill in between is made up for by whoever looks next. Files that are deleted are set aside first.

By the last file a reader whose checkpoint knows the broker tells whether it had read everything. It
stays when the store is deleted, with its checksum as its first member:

    {"rocketpipe.crc32":"…", "topics":{"orders":{"0":42,"1":40}}}
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from rocketpipe.errors import StoreError
from rocketpipe.model.names import check_broker
from rocketpipe.store import roster
from rocketpipe.store.errors import RosterUnreadable
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.snapshot import sealed, unsealed
from rocketpipe.store.files.whole_file import write_whole
from rocketpipe.store.layout import UNFINISHED, StoreLayout
from rocketpipe.store.roster import WHOLE, Leaving
from rocketpipe.store.state.run_files import locked

DIRECTORY: Final = "drained"

#: By topic and queue: the offset that the next message would have had.
QueueEnds = dict[str, dict[int, int]]

_MOST_BYTES: Final = 64 << 20


class _EndsFile(msgspec.Struct, frozen=True):
    topics: QueueEnds


def save_ends(
    data: Path, name: str, ends: Mapping[str, Mapping[int, int]], disk: Disk | None = None
) -> None:
    """Keep how far the queues of a broker reach that is about to leave.

    Raises:
        DiskError: It could not be written.
    """
    disk = disk or Disk()
    disk.make_directory(data / DIRECTORY)
    path = _ends_path(data, name)
    topics = {topic: dict(queues) for topic, queues in sorted(ends.items())}
    text = msgspec.json.encode(_EndsFile(topics))
    write_whole(disk, path, sealed(text), path.with_name(path.name + UNFINISHED))
    disk.sync_directory(path.parent)


def load_ends(data: Path, name: str, disk: Disk | None = None) -> QueueEnds | None:
    """How far the queues of a broker reached that has left; None if nothing says so.

    Raises:
        RosterUnreadable: It is damaged.
        DiskError: It cannot be read.
    """
    path = _ends_path(data, name)
    try:
        with (disk or Disk()).open(path, writable=False) as file:
            found = file.read(_MOST_BYTES, at=0)
    except DiskError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    try:
        return msgspec.json.decode(unsealed(found), type=_EndsFile).topics
    except (StoreError, ValueError) as error:
        raise RosterUnreadable(path, str(error)) from error


def place_of(data: Path, name: str) -> Path:
    """Where the files of a broker go that leaves."""
    return data / DIRECTORY / name


def finish_leaving(data: Path, disk: Disk | None = None) -> list[Leaving]:
    """Set the files of those aside who are leaving, or delete them; gives who they were.

    Whoever calls is the only one who changes the roster.

    Raises:
        StoreLocked: A broker that is leaving still runs.
        StoreError: Files cannot be moved, or the roster not be read or written.
    """
    disk = disk or Disk()
    known = roster.load(data, disk)
    done = []
    while known is not None and known.leaving:
        each = known.leaving[0]
        if each.directory == WHOLE:
            _move_own_files(data, each.name, disk)
        else:
            _move_directory(data, each.name, disk)
        if each.delete:
            _delete(place_of(data, each.name))
        known = known.with_left(each.name)
        known.save(data, disk)
        done.append(each)
    return done


def _move_directory(data: Path, name: str, disk: Disk) -> None:
    source, target = data / name, place_of(data, name)
    if name not in disk.names(data):
        return
    _make_room(data, disk)
    with locked(disk, StoreLayout(source)):
        disk.rename(source, target)
        disk.sync_directory(target.parent)
        disk.sync_directory(data)


def _move_own_files(data: Path, name: str, disk: Disk) -> None:
    """Move what is a store's own; the lock goes last, so that nobody takes what is left for one."""
    layout, target = StoreLayout(data), place_of(data, name)
    own = {path.name for path in layout.own_files()}
    there = [each for each in disk.names(data) if each.removesuffix(UNFINISHED) in own]
    if not there:
        return
    _make_room(data, disk)
    disk.make_directory(target)
    with locked(disk, layout):
        for each in sorted(set(there) - {layout.lock.name}):
            disk.rename(data / each, target / each)
        disk.rename(layout.lock, target / layout.lock.name)
        disk.sync_directory(target)
        disk.sync_directory(data)


def _make_room(data: Path, disk: Disk) -> None:
    disk.make_directory(data / DIRECTORY)


def _delete(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise DiskError("delete", path, error) from error


def _ends_path(data: Path, name: str) -> Path:
    check_broker(name)
    return data / DIRECTORY / f"{name}.json"
