"""Which brokers live in one data directory, as ``rocketpipe serve --brokers N`` leaves it.

    DIR/brokers.json          this; a directory without it is one broker's, or nobody's
    DIR/brokers.lock          held by the process that supervises them
    DIR/namesrv/              what the NameServer keeps
    DIR/broker-a-0/           each broker's store, as `store.layout` draws it, under its name
    DIR/broker-a-1/
    DIR/commitlog/, …         the store of the broker that had the directory alone, if one had

``brokers.json`` has its checksum as its first member, as all our JSON on disk:

    {
        "rocketpipe.crc32":"1c291ca3",
        "version":1,
        "prefix":"broker-a",                                  what names of new ones begin with
        "next":2,                                             the number of the next one
        "brokers":[{"name":"broker-a","number":0,"directory":"."},
                   {"name":"broker-a-1","number":1,"directory":"broker-a-1"}]
    }

It is replaced as a whole, durably, before a broker that is new in it starts for the first time, and
before the files of one that has left are removed. There is no version before it to fall back to:
that would open fewer brokers than hold messages.

Routes, offsets of groups and Spark's checkpoints go by a broker's name. So the broker that had the
directory alone keeps its name and its files (directory ``.``), and a number is given out once: it
says on which port a broker listens, ten further for each, and is part of its name.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from rocketpipe.errors import InvalidName, StoreError
from rocketpipe.model.names import check_broker
from rocketpipe.store.errors import RosterUnreadable, StoreLocked
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.snapshot import sealed, unsealed
from rocketpipe.store.files.whole_file import write_whole
from rocketpipe.store.layout import UNFINISHED, StoreLayout
from rocketpipe.store.state.run_files import locked

FILE_NAME: Final = "brokers.json"
LOCK_NAME: Final = "brokers.lock"
#: The directory of a broker that had all of it before there were others.
WHOLE: Final = "."

_FORMAT: Final = 1
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """One broker of a directory."""

    name: str
    number: int
    #: The name of its own directory, or `WHOLE`.
    directory: str

    def root(self, data: Path) -> Path:
        """Where its store is, in the data directory of all."""
        return data / self.directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The brokers of one data directory, by their numbers."""

    prefix: str
    next: int
    brokers: tuple[Member, ...]
    version: int = _FORMAT

    def grown(self, count: int) -> Roster:
        """The same with new brokers, so that there are ``count``."""
        added = [
            Member(name, number, name)
            for number in range(self.next, self.next + count - len(self.brokers))
            for name in [f"{self.prefix}-{number}"]
        ]
        return replace(self, next=self.next + len(added), brokers=(*self.brokers, *added))

    def without(self, name: str) -> Roster:
        """The same without one of them; its number is not given out again.

        Raises:
            KeyError: If there is none of that name.
        """
        left = tuple(member for member in self.brokers if member.name != name)
        if len(left) == len(self.brokers):
            raise KeyError(name)
        return replace(self, brokers=left)

    def save(self, data: Path, disk: Disk | None = None) -> None:
        """Put it into its directory, durably.

        Raises:
            DiskError: It could not be written; what was there is there still.
        """
        disk = disk or Disk()
        text = msgspec.json.format(msgspec.json.encode(self), indent=2)
        path = data / FILE_NAME
        write_whole(disk, path, sealed(text), path.with_name(FILE_NAME + UNFINISHED))
        disk.sync_directory(data)


def begun(prefix: str, *, taken: bool) -> Roster:
    """The roster of a directory that has none: one broker has it alone already, or nobody has."""
    if taken:
        return Roster(prefix=prefix, next=1, brokers=(Member(prefix, 0, WHOLE),))
    return Roster(prefix=prefix, next=0, brokers=())


def load(data: Path, disk: Disk | None = None) -> Roster | None:
    """Give who lives in a directory; None where nothing says so.

    Raises:
        RosterUnreadable: It is damaged, or of a later version.
        DiskError: It cannot be read.
    """
    path = data / FILE_NAME
    try:
        with (disk or Disk()).open(path, writable=False) as file:
            found = file.read(_MOST_BYTES, at=0)
    except DiskError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    try:
        roster = msgspec.json.decode(unsealed(found), type=Roster)
        _check(roster)
    except (StoreError, InvalidName, ValueError) as error:
        raise RosterUnreadable(path, str(error)) from error
    return roster


@contextmanager
def claimed(data: Path, disk: Disk | None = None) -> Iterator[None]:
    """Be the only one who supervises the brokers of a directory, inside the block.

    Raises:
        StoreLocked: Somebody else does, or a broker has the directory alone.
        DiskError: It cannot be locked.
    """
    disk = disk or Disk()
    path = data / LOCK_NAME
    with disk.open(path) if LOCK_NAME in disk.names(data) else disk.create(path) as file:
        if not file.lock():
            raise StoreLocked(path)
        layout = StoreLayout(data)
        if layout.lock.name in disk.names(data):
            with locked(disk, layout):
                pass  # nobody has it: the brokers take it, each its own
        yield


def stores_in(data: Path, alone: str, disk: Disk | None = None) -> dict[str, Path]:
    """Every store of a data directory, by its broker's name.

    ``alone`` is the name of a broker that has the directory to itself, which nothing in it says.

    Raises: as `load` does.
    """
    roster = load(data, disk)
    if roster is None:
        return {alone: data}
    return {member.name: member.root(data) for member in roster.brokers}


def _check(roster: Roster) -> None:
    if roster.version != _FORMAT:
        raise ValueError(f"is of version {roster.version}, and {_FORMAT} is known here")
    check_broker(roster.prefix)
    for member in roster.brokers:
        check_broker(member.name)
        if member.directory not in (WHOLE, member.name):
            raise ValueError(f"{member.name} cannot be in {member.directory!r}")
        if not 0 <= member.number < roster.next:
            raise ValueError(f"{member.name} has number {member.number}, next is {roster.next}")
    for what in ("name", "number", "directory"):
        if len({getattr(member, what) for member in roster.brokers}) < len(roster.brokers):
            raise ValueError(f"two brokers have the same {what}")
