"""Users and rights of servers that do not run, in the files that these keep them in.

    DIR/config/            of a broker, or of all that `serve` runs there
    DIR/namesrv/auth/      of a NameServer beside it that has users of its own
    DIR/BROKER/config/     of one of several brokers that has
    DIR/users.json         DIR itself, where it is what `authConfigPath` named

It is the way back in for who was locked out: whoever may write these files is let in by nobody.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from rocketpipe.auth.gate import Gate, Principal
from rocketpipe.auth.handlers import UserHandlers
from rocketpipe.auth.users import USERS_FILE, PolicyTable, UserTable
from rocketpipe.errors import ConfigError
from rocketpipe.protocol.request import Request, to_command
from rocketpipe.remoting.router import Call
from rocketpipe.store import roster
from rocketpipe.store.errors import StoreLocked
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.state.run_files import locked

ReplyT = TypeVar("ReplyT")

#: Who asks here: whoever may write the files.
_OWNER: Final = Principal("", is_super=True, address="", host="")


class StillRunning(ConfigError):
    """A server has the directory, and would not notice what changes in it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            "--data",
            f"a broker that runs has {directory}: stop it, or leave --data out to ask the servers "
            "that run",
        )


class StoppedServers:
    """Tables of servers that do not run, asked as servers are."""

    def __init__(self, disk: Disk, directories: dict[str, Path]) -> None:
        """Take directories by the names under which they are told of.

        Raises:
            AuthFileUnusable: If users or policies of one cannot be used.
        """
        self.tables = {
            name: (UserTable.opened(disk, directory), PolicyTable.opened(disk, directory))
            for name, directory in directories.items()
        }
        self._methods = {
            name: _methods(UserHandlers(Gate(users, policies)))
            for name, (users, policies) in self.tables.items()
        }

    def at(self, servers: Mapping[str, str]) -> StoppedServers:
        """These alone."""
        some = copy(self)
        some.tables = {name: tables for name, tables in self.tables.items() if name in servers}
        return some

    async def waves(self) -> list[list[str]]:
        """Name them, one after the other: a crash leaves no two of them half changed."""
        return [[name] for name in self.tables]

    async def call(self, server: str, request: Request[ReplyT]) -> ReplyT:
        """Do at one of them what its server would do.

        Raises:
            RequestRejected: If it refuses.
        """
        method = self._methods[server][type(request)]
        call = Call(cast("Any", None), to_command(request, 0), _OWNER)
        reply: ReplyT = await method(request, call)
        return reply


@contextmanager
def stopped(data: Path, disk: Disk | None = None) -> Iterator[StoppedServers]:
    """Have the users of a data directory to oneself inside the block.

    Raises:
        ConfigError: If there is no such directory, or a server has it.
        AuthFileUnusable: If users or policies of one cannot be used.
    """
    disk = disk or Disk()
    if not data.is_dir():
        raise ConfigError("--data", f"{data} is no directory: name what the server's --data names")
    if data.stat().st_uid != os.geteuid():
        raise ConfigError(
            "--data",
            f"{data} belongs to another user, whose server could not read what this one writes: "
            f"run it as that user (sudo -u '#{data.stat().st_uid}')",
        )
    with ExitStack() as stack:
        if (data / USERS_FILE).exists():
            yield StoppedServers(disk, {str(data): data})
            return
        roots = list(roster.stores_in(data, "", disk).values())
        for root in roots:
            if root.is_dir():
                try:
                    stack.enter_context(locked(disk, StoreLayout(root)))
                except StoreLocked:
                    raise StillRunning(root) from None
        # Several brokers of a directory have their users in common, beside their stores.
        places = list(dict.fromkeys(StoreLayout(root).config for root in (data, *roots)))
        if (data / "namesrv").is_dir():
            places.append(data / "namesrv" / "auth")
        with_users = [each for each in places if (each / USERS_FILE).exists()]
        chosen = with_users or places
        yield StoppedServers(disk, {str(each): each for each in chosen})


def _methods(handlers: UserHandlers) -> dict[type, Any]:
    return {
        method.handled_request: method
        for _, method in inspect.getmembers(handlers, inspect.ismethod)
        if hasattr(method, "handled_request")
    }
