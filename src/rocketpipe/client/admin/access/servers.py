"""The servers that have users of their own, and changes that are to reach all of them.

NameServers and brokers do not tell each other of users: what is changed is changed at each, leaders
before followers, and read back, since a server that says yes need not have done it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from rocketpipe.client.admin.fleet import Fleet, PartlyDone, each
from rocketpipe.errors import AccessDenied, RequestRejected, RocketPipeError
from rocketpipe.model.route import LEADER_ID
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request

ReplyT = TypeVar("ReplyT")

#: How often a change is looked for where it was made, and how long in between: a follower may have
#: passed it to its leader, and hears of it from there.
_LOOKS: Final = 20
_BETWEEN_S: Final = 0.1
_LAST: Final = "is the last who may do everything"


class NoAccessControl(RocketPipeError):
    """No server of the cluster has users: it lets everybody in."""

    def __init__(self) -> None:
        self.hint = "start NameServers and brokers with authenticationEnabled=true"
        super().__init__(f"no server here has access control, so none has users: {self.hint}")


class NoUser(RocketPipeError):
    """No server has a user of this name."""

    def __init__(self, name: str) -> None:
        self.hint = f"`rocketpipe user list` has all names, `rocketpipe user create {name}` adds it"
        super().__init__(f"there is no user {name!r}: {self.hint}")


class LastSuperuser(RocketPipeError):
    """It would leave nobody who may do everything, and nobody to make another one."""

    def __init__(self, name: str) -> None:
        self.hint = "make another first: `rocketpipe user create NAME --super`"
        super().__init__(f"{name!r} is the last enabled user who may do everything: {self.hint}")


class UserRefused(RocketPipeError):
    """What a server says of the user that is to be changed, and not of who asks."""


class NotKept(RocketPipeError):
    """A server said that it did what was asked, and shows something else."""

    def __init__(self, server: str, what: str) -> None:
        self.hint = "look at its log, and at what else answers at its address"
        super().__init__(f"{server} said yes, but {what}: {self.hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """At which servers something was changed, was so already, or cannot be: these have no users."""

    done: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def servers(self) -> tuple[str, ...]:
        """Those where it is so now."""
        return (*self.done, *self.unchanged)


class AccessServers(Protocol):
    """Servers by name; those of one wave may be asked at the same time, and the next after them."""

    async def waves(self) -> Sequence[Sequence[str]]:
        """Name the servers."""

    async def call(self, server: str, request: Request[ReplyT]) -> ReplyT:
        """Ask one of them."""

    def at(self, servers: Mapping[str, str]) -> AccessServers:
        """These alone, by name and address."""


class ClusterServers:
    """Every NameServer and broker of a cluster, or some of them."""

    def __init__(self, fleet: Fleet, only: Mapping[str, str] | None = None) -> None:
        """Take ``only`` some servers by name and address, or all that are found."""
        self._fleet = fleet
        self._only = only
        self._addresses: dict[str, str] = {}

    def at(self, servers: Mapping[str, str]) -> ClusterServers:
        """These alone, by name and address."""
        return ClusterServers(self._fleet, servers)

    async def waves(self) -> list[list[str]]:
        """NameServers and leaders, then followers.

        Raises:
            ConnectionLost: If no NameServer answers.
        """
        if self._only is not None:
            self._addresses = dict(self._only)
            return [list(self._only)]
        found = {f"NameServer {address}": address for address in self._fleet.name_servers.values()}
        first, second = list(found), list[str]()
        known = await self._fleet.everyone()
        for name, broker in sorted(known.brokers.items()):
            for number, address in sorted(broker.addresses.items()):
                label = name if number == LEADER_ID else f"{name}/{number}"
                found[label] = address
                (first if number == LEADER_ID else second).append(label)
        # Somebody else may be at work with those of before.
        self._addresses |= found
        return [first, second] if second else [first]

    async def call(self, server: str, request: Request[ReplyT]) -> ReplyT:
        """Ask one of them.

        Raises:
            RequestRejected: If it refuses.
            ConnectionLost: If it is out of reach.
        """
        return await self._fleet.call(self._addresses[server], request)


async def ask_all(
    servers: AccessServers,
    request: Request[ReplyT],
    silent: dict[str, RocketPipeError] | None = None,
) -> dict[str, ReplyT]:
    """Ask every server that has users; why some did not answer is put into ``silent``, if given.

    Raises:
        NoAccessControl: If none has.
        RocketPipeError: What the first of them failed with; with ``silent``, if none answered.
    """
    found: dict[str, ReplyT] = {}
    failed: dict[str, RocketPipeError] = {}
    for wave in await servers.waves():

        async def attempt(server: str) -> ReplyT | RocketPipeError | None:
            try:
                return await servers.call(server, request)
            except RocketPipeError as error:
                has_none = isinstance(error, RequestRejected) and _has_no_users(error)
                return None if has_none else error

        for server, reply in (await each(list(wave), attempt)).items():
            if isinstance(reply, RocketPipeError):
                failed[server] = reply
            elif reply is not None:
                found[server] = reply
    if failed and (silent is None or not found):
        raise next(iter(failed.values()))
    if not found:
        raise NoAccessControl
    if silent is not None:
        silent.update(failed)
    return found


async def change_all(
    servers: AccessServers,
    act: Callable[[str], Awaitable[bool]],
    *,
    about: str,
    known_at: Collection[str] = (),
) -> Change:
    """Have ``act`` done at every server; it tells whether there was anything to do.

    Servers of one machine may share their users: what is done at one shows at the others, which
    may be before they are asked. Those of ``known_at``, who knew the user just now, have done it
    if they refuse that user when another is done with it.

    Raises:
        NoAccessControl: If no server has users.
        LastSuperuser: If a server keeps ``about``, a user, for that reason.
        PartlyDone: If some servers did it and others did not.
        RocketPipeError: What all of them failed with, if it is the same.
    """
    results: dict[str, bool | RocketPipeError | None] = {}
    for wave in await servers.waves():

        async def attempt(server: str) -> bool | RocketPipeError | None:
            try:
                return await act(server)
            except RequestRejected as error:
                return None if _has_no_users(error) else _plain(error, about)
            except RocketPipeError as error:
                return error

        results |= await each(list(wave), attempt)
    if True in results.values():
        for name in known_at:
            if isinstance(results.get(name), UserRefused):
                results[name] = True
    change = Change(
        done=tuple(name for name, result in results.items() if result is True),
        unchanged=tuple(name for name, result in results.items() if result is False),
        without=tuple(name for name, result in results.items() if result is None),
    )
    failed = {name: one for name, one in results.items() if isinstance(one, RocketPipeError)}
    if failed and not change.servers and len({str(error) for error in failed.values()}) == 1:
        raise next(iter(failed.values()))
    if failed:
        raise PartlyDone(change.servers, failed)
    if not change.servers:
        raise NoAccessControl
    return change


async def seen(look: Callable[[], Awaitable[bool]]) -> bool:
    """Look until it is so, for a moment."""
    for _ in range(_LOOKS):
        if await look():
            return True
        await asyncio.sleep(_BETWEEN_S)
    return False


def _has_no_users(error: RequestRejected) -> bool:
    return error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def _plain(error: RequestRejected, about: str) -> RocketPipeError:
    """What a refusal means that is about whom it is about, and not about who asks."""
    if _LAST in error.remark:
        return LastSuperuser(about)
    if isinstance(error, AccessDenied) and not error.resource and error.user == about:
        return UserRefused(error.remark.strip().removesuffix("."))
    return error
