"""Users: who is let in by the servers of a cluster, and with which secret.

Each server has its own users. What is read is put together from all of them, and says where a user
is missing; what is changed is changed at all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rocketpipe.auth.infos import read_status, read_type
from rocketpipe.auth.secret import LEAST_ON_THE_WIRE, Secret, check_secret
from rocketpipe.auth.subject import UserStatus, UserType, check_user
from rocketpipe.client.admin.access.servers import (
    AccessServers,
    Change,
    NotKept,
    NoUser,
    ask_all,
    change_all,
    seen,
)
from rocketpipe.errors import AccessDenied, RocketPipeError
from rocketpipe.protocol.requests.users import (
    CreateUser,
    DeleteUser,
    GetUser,
    ListUsers,
    UpdateUser,
    UserInfo,
)


class UserExists(RocketPipeError):
    """A user of this name is there already, at some servers or at all of them."""

    def __init__(self, name: str, at: list[str], missing: list[str]) -> None:
        where = f" at {', '.join(at)}, and not at {', '.join(missing)}" if missing else ""
        self.hint = (
            f"`rocketpipe user create {name} --secret-file FILE`, with the secret that it has, "
            "makes it at the others"
            if missing
            else f"`rocketpipe user rotate {name}` gives it another secret"
        )
        super().__init__(f"user {name!r} is there already{where}: {self.hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserState:
    """One user, as the servers of a cluster tell of it; its secret is told by none."""

    name: str
    is_super: bool
    is_enabled: bool
    #: Until when the secret before this one is good too, in ms since 1970; None if it is not.
    old_until_ms: int | None
    #: Servers that have this user, and those that have users and not this one.
    servers: tuple[str, ...]
    missing: tuple[str, ...] = ()
    #: Servers that tell something else of its type or status than the first.
    different: tuple[str, ...] = ()
    #: Servers that did not answer.
    silent: tuple[str, ...] = ()


class UserAdmin:
    """Creates, lists, rotates, disables and deletes users, at every server that has some."""

    def __init__(self, servers: AccessServers) -> None:
        self._servers = servers

    def at(self, servers: Mapping[str, str]) -> UserAdmin:
        """The same, at these servers alone, which are given by name and address."""
        return UserAdmin(self._servers.at(servers))

    async def all(self, contains: str = "") -> list[UserState]:
        """Every user whose name contains something, by name.

        Raises:
            NoAccessControl: If no server has users.
            RequestRejected: If one does not tell who asks.
        """
        return (await self.all_with_servers(contains))[0]

    async def all_with_servers(self, contains: str = "") -> tuple[list[UserState], list[str]]:
        """The same, and the servers that have no access control.

        Raises: as `all` does.
        """
        replies = await ask_all(self._servers, ListUsers(filter=contains or None))
        everyone = [server for wave in await self._servers.waves() for server in wave]
        told = {
            server: {info.username: info for info in reply.users or () if info.username}
            for server, reply in replies.items()
        }
        names = sorted({name for users in told.values() for name in users})
        states = [
            _state(name, {server: users.get(name) for server, users in told.items()})
            for name in names
        ]
        return states, [server for server in everyone if server not in told]

    async def show(self, name: str) -> UserState:
        """One user.

        Raises:
            NoUser: If there is none of this name.
            NoAccessControl: If no server has users.
        """
        found = await self.find(name)
        if found is None:
            raise NoUser(name)
        return found

    async def find(self, name: str) -> UserState | None:
        """One user, by the servers that answer; None if there is none of this name.

        Raises:
            InvalidName: If no user may have it.
            NoAccessControl: If no server has users.
            RocketPipeError: What they failed with, if none answers.
        """
        silent: dict[str, RocketPipeError] = {}
        replies = await ask_all(self._servers, GetUser(username=check_user(name)), silent)
        told = {server: reply.user for server, reply in replies.items()}
        if not any(told.values()):
            return None
        return replace(_state(name, told), silent=tuple(silent))

    async def create(
        self,
        name: str,
        secret: str | Secret,
        *,
        is_super: bool = False,
        weak: bool = False,
        where_missing: bool = False,
        dry_run: bool = False,
    ) -> Change:
        """Make a user, with a secret such as ``Secret.generate()`` gives.

        With ``where_missing`` servers that have it keep it as it is, and the others get it.

        Raises:
            InvalidName: If no user may have this name.
            ValueError: If the secret has fewer than 16 characters, or 7 where it may be weak.
            UserExists: If it is there already.
            NoAccessControl: If no server has users.
            PartlyDone: If some servers made it, and others did not.
        """
        checked = _checked(secret, weak=weak)
        found = await self.find(name)
        if found is not None and (not where_missing or not found.missing):
            raise UserExists(name, list(found.servers), list(found.missing))
        kind = UserType.SUPER if is_super else UserType.NORMAL
        info = UserInfo(
            username=name,
            password=checked.reveal(),
            user_type=kind.value,
            user_status=UserStatus.ENABLE.value,
        )

        async def act(server: str) -> bool:
            if await self._told(server, name) is not None:
                return False
            if not dry_run:
                await self._servers.call(server, CreateUser(username=name, user=info))
                await self._see(server, name, lambda now: now is not None and _is(now, kind))
            return True

        return await change_all(self._servers, act, about=name)

    async def rotate(
        self,
        name: str,
        secret: str | Secret,
        *,
        old_until_ms: int = 0,
        weak: bool = False,
        dry_run: bool = False,
    ) -> Change:
        """Give a user another secret; the one it has is good until then, beside the new one.

        Told again with the same secret, it changes nothing but that time.

        Raises:
            NoUser: If there is none of this name.
            ValueError: If the secret has fewer than 16 characters, or 7 where it may be weak.
            NotKept: If a server did not keep the old one valid, as RocketMQ's own do not.
            PartlyDone: If some servers have it, and others do not: tell them the same again.
        """
        checked = _checked(secret, weak=weak)
        known = await self.show(name)
        info = UserInfo(password=checked.reveal(), old_password_until=old_until_ms or None)

        async def act(server: str) -> bool:
            if await self._told(server, name) is None:
                raise NoUser(name)
            if not dry_run:
                await self._servers.call(server, UpdateUser(username=name, user=info))
                if old_until_ms:
                    await self._see(
                        server,
                        name,
                        lambda now: now is not None and now.old_password_until == old_until_ms,
                        "has not kept the last secret valid: change clients over now",
                    )
            return True

        return await change_all(self._servers, act, about=name, known_at=known.servers)

    async def enable(self, name: str, *, dry_run: bool = False) -> Change:
        """Let a user in again.

        Raises: as `disable` does.
        """
        return await self._set(name, UserStatus.ENABLE, dry_run=dry_run)

    async def disable(self, name: str, *, dry_run: bool = False) -> Change:
        """Let a user in no longer, from its next request on; its rights stay.

        Raises:
            NoUser: If there is none of this name.
            LastSuperuser: If nobody else may do everything.
            PartlyDone: If some servers did it, and others did not.
        """
        return await self._set(name, UserStatus.DISABLE, dry_run=dry_run)

    async def delete(self, name: str, *, dry_run: bool = False) -> Change:
        """Remove a user with all its rights.

        Raises:
            NoUser: If there is none of this name.
            LastSuperuser: If nobody else may do everything.
            PartlyDone: If some servers did it, and others did not.
        """
        known = await self.show(name)

        async def act(server: str) -> bool:
            if await self._told(server, name) is None:
                return False
            if not dry_run:
                await self._servers.call(server, DeleteUser(username=name))
                await self._see(server, name, lambda now: now is None)
            return True

        return await change_all(self._servers, act, about=name, known_at=known.servers)

    async def set_type(self, name: str, *, is_super: bool) -> Change:
        """Have a user be one who may do everything, or no longer.

        Raises: as `disable` does.
        """
        kind = UserType.SUPER if is_super else UserType.NORMAL
        return await self._update(
            name, UserInfo(user_type=kind.value), lambda now: _is(now, kind), dry_run=False
        )

    async def _set(self, name: str, status: UserStatus, *, dry_run: bool) -> Change:
        return await self._update(
            name,
            UserInfo(user_status=status.value),
            lambda now: _status(now) is status,
            dry_run=dry_run,
        )

    async def _update(
        self, name: str, info: UserInfo, so: Callable[[UserInfo], bool], *, dry_run: bool
    ) -> Change:
        known = await self.show(name)

        async def act(server: str) -> bool:
            now = await self._told(server, name)
            if now is None or so(now):
                return False
            if not dry_run:
                await self._servers.call(server, UpdateUser(username=name, user=info))
                await self._see(server, name, lambda now: now is not None and so(now))
            return True

        return await change_all(self._servers, act, about=name, known_at=known.servers)

    async def _told(self, server: str, name: str) -> UserInfo | None:
        return (await self._servers.call(server, GetUser(username=name))).user

    async def _see(
        self,
        server: str,
        name: str,
        so: Callable[[UserInfo | None], bool],
        otherwise: str = "tells something else of this user",
    ) -> None:
        async def look() -> bool:
            try:
                return so(await self._told(server, name))
            except AccessDenied as error:
                if error.user != name:
                    raise
                return True  # it was about who asks, who is not let in there any more

        if not await seen(look):
            raise NotKept(server, f"{otherwise}: {name!r}")


def _checked(secret: str | Secret, *, weak: bool) -> Secret:
    text = secret.reveal() if isinstance(secret, Secret) else secret
    return check_secret(text, least=LEAST_ON_THE_WIRE) if weak else check_secret(text)


def _is(info: UserInfo, kind: UserType) -> bool:
    return _type(info) is kind


def _type(info: UserInfo) -> UserType:
    try:
        return read_type(info.user_type) or UserType.NORMAL
    except ValueError:
        return UserType.NORMAL


def _status(info: UserInfo) -> UserStatus:
    try:
        return read_status(info.user_status) or UserStatus.DISABLE
    except ValueError:
        return UserStatus.DISABLE


def _state(name: str, told: Mapping[str, UserInfo | None]) -> UserState:
    there = {server: info for server, info in told.items() if info is not None}
    first = next(iter(there.values()))
    until = [info.old_password_until for info in there.values() if info.old_password_until]
    return UserState(
        name=name,
        is_super=_is(first, UserType.SUPER),
        is_enabled=_status(first) is UserStatus.ENABLE,
        old_until_ms=max(until, default=None),
        servers=tuple(there),
        missing=tuple(server for server, info in told.items() if info is None),
        different=tuple(
            server
            for server, info in there.items()
            if (_type(info), _status(info)) != (_type(first), _status(first))
        ),
    )
