"""The data directory of several brokers: who is to live in it, decided before any of them starts.

    nothing there        --brokers N makes N           broker-a-0, broker-a-1 …
    one broker's         it stays, N - 1 are new       broker-a, broker-a-1 …
    several brokers'     they stay; fewer are refused  as they are called

New ones get the topics and groups of the first that was there.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.tables.newcomer import give_tables
from rocketpipe.cli.serving.fleet import cores
from rocketpipe.errors import ConfigError
from rocketpipe.store import roster, set_aside
from rocketpipe.store.errors import StoreLocked
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.roster import WHOLE, Member, Roster

log = logging.getLogger(__name__)

#: As many as there is one core for.
AUTO: Final = "auto"
#: More processes than this on one machine are a slip of the finger.
MOST: Final = 256

FLAG: Final = "--brokers"


def finish_leaving(data: Path) -> None:
    """Set the files of brokers aside that `broker drain` was to take out, and was killed over it.

    Raises:
        StoreLocked: One of them runs, though the roster does not have it.
        StoreError: Files cannot be moved, or the roster not be read or written.
    """
    known = roster.load(data)
    if known is None or not known.leaving:
        return
    try:
        with roster.changing(data):
            for each in set_aside.finish_leaving(data):
                what = "deleted" if each.delete else f"in {set_aside.place_of(data, each.name)}"
                log.warning("%s was drained: its files are %s", each.name, what)
    except StoreLocked as error:
        if error.path.name != roster.CHANGE_NAME:
            raise
        log.info("a `broker drain` that runs sets files aside")


def wanted(config: BrokerConfig, asked: int | str | None) -> Roster | None:
    """Who is to live in a broker's data directory; None for one broker that has it alone.

    Raises:
        ConfigError: There are more of them than were asked for.
        RosterUnreadable: What says who lives there cannot be read.
    """
    data = config.data
    known = roster.load(data)
    if known is None:
        taken = StoreLayout(data).commit_log.is_dir()
        known = roster.begun(config.name, taken=taken)
        count = cores.usable() if asked == AUTO else asked or 1
        return None if count == 1 else known.grown(int(count))
    there = len(known.brokers)
    if asked is None or asked == AUTO:
        count = max(there, 1, cores.usable() if asked == AUTO else 1)
        return known.grown(count)
    count = int(asked)
    if count < there:
        names = ", ".join(member.name for member in known.brokers)
        raise ConfigError(
            FLAG,
            f"{data} holds {there} brokers ({names}), and with {count} what is in the others could "
            "not be read: empty one first with `rocketpipe broker drain NAME`",
        )
    return known.grown(count)


def refuse_unless_alone(data: Path, origin: str) -> None:
    """Have a single broker keep out of a directory that has only others in it.

    Raises:
        ConfigError: It is one.
        RosterUnreadable: What says who lives there cannot be read.
    """
    known = roster.load(data)
    if known is None or any(member.directory == WHOLE for member in known.brokers):
        return
    names = ", ".join(member.name for member in known.brokers)
    raise ConfigError(
        origin,
        f"{data} holds several brokers ({names}): run them with `rocketpipe serve --data {data}`, "
        "or name the directory of one of them",
    )


def settle(config: BrokerConfig, wished: Roster, disk: Disk | None = None) -> list[Member]:
    """Make room for those that are new, and write down who lives there; gives the new ones.

    Whoever was killed in between is done again: nobody is written down before its tables are there.

    Raises:
        ConfigError: A directory that a new one would get has somebody's messages in it.
        StoreError: Tables cannot be read, or files not written.
    """
    disk = disk or Disk()
    data = config.data
    known = roster.load(data, disk)
    before = known.brokers if known is not None else ()
    names = {member.name for member in before}
    added = [member for member in wished.brokers if member.name not in names]
    old = [member for member in wished.brokers if member.directory == WHOLE or member in before]
    for member in added:
        if member.directory == WHOLE:
            continue
        root = member.root(data)
        if StoreLayout(root).commit_log.exists():
            raise ConfigError(
                FLAG,
                f"{root} has a store already that is not in {roster.FILE_NAME}: move it elsewhere",
            )
        disk.make_directory(root)
        if old:
            give_tables(
                disk,
                StoreLayout(old[0].root(data)).config,
                StoreLayout(root).config,
                cluster=config.cluster,
                broker=old[0].name,
            )
    if known is None or added:
        with roster.changing(data, disk):
            known = roster.load(data, disk)
            disk.sync_directory(data)
            leaving = known.leaving if known is not None else ()
            replace(wished, leaving=leaving).save(data, disk)
    return [member for member in added if member.directory != WHOLE]
