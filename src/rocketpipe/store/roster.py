"""Which brokers live in one data directory, as ``rocketpipe serve --brokers N`` leaves it.

    DIR/brokers.json          this; a directory without it is one broker's, or nobody's
    DIR/brokers.lock          held by the process that supervises them
    DIR/namesrv/              what the NameServer keeps
    DIR/broker-a-0/           each broker's store, as `store.layout` draws it, under its name
    DIR/broker-a-1/
    DIR/commitlog/, …         the store of the broker that had the directory alone, if one had
    DIR/brokers.change        held by the process that changes who lives there
    DIR/drained/              the stores of brokers that have left: see `store.set_aside`

``brokers.json`` has its checksum as its first member, as all our JSON on disk:

    {
        "rocketpipe.crc32":"1c291ca3",
        "version":1,
        "prefix":"broker-a",                                  what names of new ones begin with
        "next":2,                                             the number of the next one
        "brokers":[{"name":"broker-a","number":0,"directory":"."},
                   {"name":"broker-a-1","number":1,"directory":"broker-a-1","state":"draining"}],
        "leaving":[]                                          whose files are yet to be set aside
    }

It is replaced as a whole, durably, before a broker that is new in it starts for the first time, and
before the files of one that has left are removed. There is no version before it to fall back to:
that would open fewer brokers than hold messages.

Routes, offsets of groups and Spark's checkpoints go by a broker's name. So the broker that had the
directory alone keeps its name and its files (directory ``.``), and a number is given out once: it
says on which port a broker listens, ten further for each, and is part of its name.

A broker leaves in four steps, each of which the file says before it is taken:

    draining   producers are sent elsewhere, also after a restart of it
    closed     it takes nothing from anybody: what it has is all that it will ever have had
    leaving    it is not run any more; its files are set aside, or deleted
    gone       nothing says that it was there, but its number, which is not given out again
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
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
CHANGE_NAME: Final = "brokers.change"
#: The directory of a broker that had all of it before there were others.
WHOLE: Final = "."

_FORMAT: Final = 1
_MOST_BYTES: Final = 1 << 20


class MemberState(StrEnum):
    """What a broker of a directory is run for."""

    SERVING = "serving"
    #: To be read, and written by nobody who has another to go to.
    DRAINING = "draining"
    #: To be read: what it has is all that it will have.
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Member:
    """One broker of a directory."""

    name: str
    number: int
    #: The name of its own directory, or `WHOLE`.
    directory: str
    state: MemberState = MemberState.SERVING

    def root(self, data: Path) -> Path:
        """Where its store is, in the data directory of all."""
        return data / self.directory


@dataclass(frozen=True, slots=True)
class Leaving:
    """A broker that is not run any more, and whose files are where they were."""

    name: str
    directory: str
    #: Whether its files go for good.
    delete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The brokers of one data directory, by their numbers."""

    prefix: str
    next: int
    brokers: tuple[Member, ...]
    leaving: tuple[Leaving, ...] = ()
    version: int = _FORMAT

    def member(self, name: str) -> Member | None:
        """The broker of a name, if it lives here."""
        return next((each for each in self.brokers if each.name == name), None)

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

    def with_state(self, name: str, state: MemberState) -> Roster:
        """The same with one of them run for something else."""
        changed = (
            replace(member, state=state) if member.name == name else member
            for member in self.brokers
        )
        return replace(self, brokers=tuple(changed))

    def with_leaving(self, name: str, *, delete: bool) -> Roster:
        """The same without one of them, whose files are yet to be set aside, or deleted.

        Raises:
            KeyError: If there is none of that name.
        """
        left = self.without(name)
        member = self.member(name)
        assert member is not None, "it was just left out"
        leaving = Leaving(name, member.directory, delete)
        return replace(left, leaving=(*left.leaving, leaving))

    def with_left(self, name: str) -> Roster:
        """The same once those files are no longer in the way."""
        return replace(self, leaving=tuple(each for each in self.leaving if each.name != name))

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


@contextmanager
def changing(data: Path, disk: Disk | None = None) -> Iterator[None]:
    """Be the only one who changes who lives in a directory, inside the block.

    Raises:
        StoreLocked: Somebody else does.
        DiskError: It cannot be locked.
    """
    disk = disk or Disk()
    path = data / CHANGE_NAME
    with disk.open(path) if CHANGE_NAME in disk.names(data) else disk.create(path) as file:
        if not file.lock():
            raise StoreLocked(path)
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
    for each in roster.leaving:
        check_broker(each.name)
        if each.directory not in (WHOLE, each.name):
            raise ValueError(f"{each.name} cannot be in {each.directory!r}")
    for what in ("name", "number", "directory"):
        if len({getattr(member, what) for member in roster.brokers}) < len(roster.brokers):
            raise ValueError(f"two brokers have the same {what}")
