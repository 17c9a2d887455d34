"""The stores of a directory that several brokers share, for verbs that do something to each.

    BACKUP/broker-a-0/       what `store backup` makes of one
    BACKUP/broker-a-1/
    BACKUP/config/           whom all of them let in, with access control
    BACKUP/brokers.json      who they are; written last, so without it the backup is not complete

What the NameServer keeps (``DIR/namesrv``) is no store: it is copied as any file.
"""

from __future__ import annotations

from pathlib import Path

from rocketpipe.auth.users import ACLS_FILE, USERS_FILE
from rocketpipe.clock import Clock
from rocketpipe.errors import ConfigError
from rocketpipe.store import roster
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.whole_file import write_whole
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.roster import WHOLE, Member, Roster
from rocketpipe.store.state.run_files import locked
from rocketpipe.store.upkeep.backup import Backup, back_up, restore


def stores_with_files(data: Path) -> dict[str, Path] | None:
    """The stores of several brokers that have stored something; None where one has it alone.

    Raises:
        RosterUnreadable: What says who lives there cannot be read.
    """
    known = roster.load(data)
    if known is None:
        return None
    return {
        member.name: member.root(data)
        for member in known.brokers
        if StoreLayout(member.root(data)).commit_log.is_dir()
    }


def back_up_all(
    disk: Disk, data: Path, stores: dict[str, Path], target: Path, clock: Clock
) -> dict[str, Backup]:
    """Copy every store, and who they are.

    Raises:
        StoreLocked: A broker is using one.
        StoreError: One is damaged, or files cannot be copied.
    """
    known = _known(disk, data)
    made = {}
    for name, root in stores.items():
        with locked(disk, StoreLayout(root)):
            made[name] = back_up(disk, root, target / name, clock=clock)
    disk.make_directory(target)
    if not any(member.directory == WHOLE for member in known.brokers):
        _copy_users(disk, data, target)  # else they were among that one's tables
    Roster(prefix=known.prefix, next=known.next, brokers=known.brokers).save(target, disk)
    return made


def restore_all(disk: Disk, backup: Path, data: Path) -> dict[Path, Backup]:
    """Put every store back in its place, and who they are; gives them by their places.

    Raises:
        ConfigError: There is something already.
        BackupDamaged: A backup is not what was backed up.
        StoreError: Files cannot be copied.
    """
    known = _known(disk, backup)
    if data.is_dir() and any(data.iterdir()):
        raise ConfigError(str(data), "is not empty: name another, or move what is in it")
    made = {}
    # The one that has the directory itself first: it has to find it empty.
    for member in sorted(known.brokers, key=lambda each: each.directory != WHOLE):
        if _is_there(backup, member):
            made[member.root(data)] = restore(disk, backup / member.name, member.root(data))
    disk.make_directory(data)
    _copy_users(disk, backup, data)
    known.save(data, disk)
    return made


def _copy_users(disk: Disk, source: Path, target: Path) -> None:
    """Copy whom the brokers of a directory let in, if they ask anybody."""
    here, there = StoreLayout(source).config, StoreLayout(target).config
    for name in (USERS_FILE, ACLS_FILE):
        if (here / name).is_file():
            disk.make_directory(there)
            text = (here / name).read_bytes()
            write_whole(disk, there / name, text, there / f"{name}.tmp")
            disk.sync_directory(there)


def _known(disk: Disk, data: Path) -> Roster:
    known = roster.load(data, disk)
    assert known is not None, "whoever calls has seen that there is one"
    return known


def _is_there(backup: Path, member: Member) -> bool:
    """Whether a broker had a store: one that had never stored anything has none."""
    return (backup / member.name).is_dir()
