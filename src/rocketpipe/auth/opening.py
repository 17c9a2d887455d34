"""A server's gate, made of its settings and of the users and policies on its disk."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, Final, NoReturn
from weakref import WeakValueDictionary

from rocketpipe.auth.config import INNER_USER, AuthConfig
from rocketpipe.auth.gate import Gate
from rocketpipe.auth.measured import measure
from rocketpipe.auth.needs import Surroundings
from rocketpipe.auth.plain.acl import PlainAclRefused
from rocketpipe.auth.plain.file import PlainAclFile
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.clock import Clock
from rocketpipe.errors import ConfigError
from rocketpipe.store.files.disk import Disk

log = logging.getLogger(__name__)

#: How often files are looked at that other processes may change.
LOOK_EVERY_MS: Final = 250

#: Servers of one process that are told the same directory have the same tables.
_opened: Final[WeakValueDictionary[tuple[str, int], UserTable | PolicyTable]] = (
    WeakValueDictionary()
)


async def keep_looking(gate: Gate, clock: Clock) -> NoReturn:
    """Have what other processes of a directory change in force here soon after.

    Who is new there is known at once: before somebody is refused the files are looked at.
    """
    while True:
        await clock.sleep(LOOK_EVERY_MS)
        for table in (gate.users, gate.policies):
            if table.is_behind:
                await asyncio.to_thread(table.look)


def open_tables(disk: Disk, directory: Path) -> tuple[UserTable, PolicyTable]:
    """Open the users and policies of a directory.

    Raises:
        AuthFileUnusable: If they cannot be used.
        DiskError: If the disk refuses.
    """
    which = id(disk) if type(disk) is not Disk else 0
    found: list[Any] = []
    for kind in (UserTable, PolicyTable):
        place = (str((directory / kind.file_name).absolute()), which)
        table = _opened.get(place)
        if table is None:
            table = _opened[place] = kind.opened(disk, directory)
        found.append(table)
    users, policies = found
    return users, policies


def open_gate(
    config: AuthConfig, *, disk: Disk, clock: Clock, usual: Path | None, cluster: str
) -> Gate | None:
    """Make the gate of a server; None if it lets everybody in.

    ``usual`` is where users are kept if nothing is said.

    Raises:
        ConfigError: If the settings do not fit together, or nobody could ever come in.
        AuthFileUnusable: If the users or policies cannot be used.
        DiskError: If the disk refuses.
    """
    config.check_auth()
    if not config.authenticates:
        return None
    directory = config.auth_directory.expanduser() if config.auth_directory is not None else usual
    if directory is None:
        raise ConfigError(
            "authConfigPath", "authentication is on: say in which directory users are kept"
        )
    users, policies = open_tables(disk, directory)
    accounts = _accounts(config, users, policies)
    new = [user for user in config.first_users() if users.get(user.name) is None]
    if new:
        users.put_all(new)
        log.info("users made users=%s", ",".join(dict.fromkeys(user.name for user in new)))
    if not users.has_super:
        raise ConfigError(
            "authenticationEnabled",
            f"no user in {directory} may do everything, so nobody could make others: name one with "
            "its secret in initAuthenticationUser",
        )
    inner = config.inner_client()
    gate = Gate(
        users,
        policies,
        authorizes=config.authorizes,
        around=Surroundings(cluster=cluster),
        open_codes=config.codes_for_strangers(),
        clock=clock,
        accounts=accounts,
        # Of another name it may be a person too.
        inner_user=INNER_USER if inner is not None and inner.access_key == INNER_USER else "",
        inner_secret=None if inner is None else inner.secret,
    )
    measure(gate)
    return gate


def _accounts(config: AuthConfig, users: UserTable, policies: PolicyTable) -> PlainAclFile | None:
    if config.plain_acl_file is None:
        return None
    accounts = PlainAclFile(
        config.plain_acl_file.expanduser(),
        users,
        policies,
        white_lists_ignored=config.white_lists_ignored,
    )
    try:
        accounts.load()
    except (PlainAclRefused, OSError) as error:
        raise ConfigError("plainAclFile", str(error)) from error
    return accounts
