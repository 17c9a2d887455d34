"""A console: the cluster it shows, the people at it, and what they changed.

It is read-only until somebody proves who they are. On a cluster with access control that is one of
its users, in whose name the console then asks. On one without, everybody may look, and whoever has
the token may change things.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from rocketpipe.auth.behalf import said_for
from rocketpipe.auth.secret import Secret
from rocketpipe.background import running
from rocketpipe.client.session import Session
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.console.answers import Problem
from rocketpipe.console.changes import Change, ChangeLog
from rocketpipe.console.cluster import Cluster
from rocketpipe.console.masking import Masks
from rocketpipe.console.people import COOKIE, People, Person, is_same
from rocketpipe.errors import AccessDenied, RocketPipeError

#: Whether a cluster asks who asks is looked up so often at most.
GUARDED_MS: Final = 15_000
#: So many leaders are asked for it.
_PROBED: Final = 8
_TIDY_MS: Final = 30_000
#: The longest name and password that anybody may have.
_MAX_SECRET: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    """What a console is told when it starts; nothing of it comes from a request."""

    name_servers: str
    #: What lets change things on a cluster without users; without one nobody may.
    token: Secret | None = None
    #: Names that it is asked by, beside the address that it listens at.
    public_hosts: frozenset[str] = frozenset()
    #: Whether browsers are to send the cookie by HTTPS only.
    is_https: bool = False
    #: Whether only who is logged in sees bodies.
    hide_bodies: bool = False
    #: Fields whose values nobody sees.
    masks: Masks = Masks()  # noqa: RUF009 - it does not change
    #: Folders of pipelines that are shown.
    pipelines: tuple[Path, ...] = ()
    #: Where it listens, as people are told; ``host:port``.
    address: str = ""
    #: By what it proves to servers of its own process where people are.
    inner_secret: Secret | None = None
    #: So many tabs are told news at a time.
    max_streams: int = 64

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers send cookies to all ports of a host alike."""
        port = self.address.rpartition(":")[2]
        return f"{COOKIE}_{port}" if port else COOKIE


@dataclass(slots=True)
class _Guards:
    """Which servers turned a stranger away, and when that was found out."""

    servers: tuple[str | None, ...] = ()
    found_ms: int | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Console:
    """Everything behind the pages: ``async with Console(config) as console``."""

    def __init__(
        self,
        config: ConsoleConfig,
        *,
        clock: Clock | None = None,
        session: Callable[..., Session] = Session,
    ) -> None:
        """Take what it is told, and what makes sessions of NameServers."""
        self.config = config
        self.clock = clock or SystemClock()
        self.people = People(self.clock)
        self.changes = ChangeLog()
        #: Set when it ends: streams watch it.
        self.closing = asyncio.Event()
        self.streams = 0
        self._new_session = session
        self._stack = AsyncExitStack()
        self._clusters: dict[Cluster, AsyncExitStack] = {}
        self._guards = _Guards()
        self.everybody = self._person(None, may_change=False, anonymous=True)

    async def __aenter__(self) -> Self:
        await self._open(self.everybody.cluster)
        await self._stack.enter_async_context(running(self._tidy(), "console visits"))
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.closing.set()
        await self._stack.aclose()
        for cluster in list(self._clusters):
            await self._close(cluster)

    # Who may what

    async def is_guarded(self) -> bool:
        """Whether the cluster asks who asks."""
        return bool(await self._guarding())

    async def person(self, cookie: str | None, address: str) -> Person:
        """Who asks: somebody that is logged in from that address, or everybody."""
        return self.people.find(cookie, address) or self.everybody

    async def login(
        self, address: str, *, user: str = "", password: str = "", token: str = ""
    ) -> tuple[str, Person]:
        """Let somebody in who proves to be somebody; gives the cookie.

        Raises:
            Problem: If it is no proof, there is nothing to prove, or too many tried.
            RocketPipeError: If no server answers that could tell.
        """
        if max(len(user), len(password), len(token)) > _MAX_SECRET:
            raise Problem(400, "that is too long for a name or a secret", "type them again")
        guards = await self._guarding()
        if token and not guards:
            person = await self._by_token(address, token)
        elif user and password and guards:
            person = await self._by_password(address, user, password, guards)
        elif guards:
            raise Problem(400, "this cluster has users", "give user and password")
        else:
            raise Problem(
                400,
                "this cluster has no users: everybody may look",
                "give the token that the console printed when it started, to change something",
            )
        cookie, gone = self.people.enter(person, address)
        for each in gone:
            await self._forget(each)
        self.note(person, address, "log in", "ok", ok=True)
        return cookie, person

    async def logout(self, cookie: str | None) -> None:
        """Have somebody go."""
        person = self.people.leave(cookie)
        if person is not None:
            await self._forget(person)

    async def send_away(self, name: str) -> None:
        """Have everybody go who is here under a name, whose secret is good no longer."""
        for person in self.people.leave_all(name):
            await self._forget(person)

    def note(self, person: Person, address: str, what: str, outcome: str, *, ok: bool) -> None:
        """Write down what somebody did."""
        who = person.name or "somebody"
        self.changes.add(Change(self.clock.now_ms(), who, address, what, outcome, ok))

    async def _by_token(self, address: str, token: str) -> Person:
        wanted = self.config.token
        if wanted is None:
            raise Problem(
                403,
                "this console changes nothing",
                "start it with --allow-changes, which prints the token",
            )
        if not is_same(token, wanted.reveal()):
            await self._was_wrong(address)
            raise Problem(401, "that is not the token", "copy the one that was printed last")
        return Person(
            name="token",
            may_change=True,
            may_see_bodies=True,
            cluster=self.everybody.cluster,
        )

    async def _by_password(
        self, address: str, user: str, password: str, guards: tuple[str | None, ...]
    ) -> Person:
        person = self._person(user, may_change=True, password=password, address=address)
        await self._open(person.cluster)
        try:
            await self._prove(person.cluster, guards)
        except BaseException as error:
            await self._close(person.cluster)
            if isinstance(error, AccessDenied):
                await self._was_wrong(address)
                raise Problem(
                    401,
                    "no such user, or another password",
                    "try again; `rocketpipe mqadmin listUser` shows who there is",
                ) from error
            raise
        return person

    async def _prove(self, cluster: Cluster, guards: tuple[str | None, ...]) -> None:
        """Have a server that turns strangers away let this one in.

        Raises:
            AccessDenied: If it does not.
            RocketPipeError: If none of them answers.
        """
        lost: RocketPipeError | None = None
        for name in guards:
            try:
                await _knock(cluster, name)
            except AccessDenied as error:
                if not error.resource:
                    raise
                return  # it is somebody, who may not ask this
            except RocketPipeError as error:
                lost = error
            else:
                return
        assert lost is not None, "there was somebody to ask"
        raise lost

    async def _guarding(self) -> tuple[str | None, ...]:
        """The servers that turn strangers away; None stands for the NameServers."""
        guards = self._guards
        async with guards.lock:
            now_ms = self.clock.monotonic_ms()
            if guards.found_ms is not None and now_ms - guards.found_ms < GUARDED_MS:
                return guards.servers
            cluster = self.everybody.cluster
            names: list[str | None] = [None]
            try:
                names += [each.name for each in await cluster.admin.brokers.all()][:_PROBED]
            except RocketPipeError:
                pass  # a stranger is not told, or nobody answers
            found, answered = [], False
            for name in names:
                try:
                    await _knock(cluster, name)
                    answered = True
                except AccessDenied:
                    found.append(name)
                    answered = True
                except RocketPipeError:
                    continue
            if answered:
                guards.servers, guards.found_ms = tuple(found), now_ms
            return guards.servers

    async def _was_wrong(self, address: str) -> None:
        """Note a wrong proof; not what was typed, which may be a secret in the wrong field."""
        at_ms = self.clock.now_ms()
        self.changes.add(Change(at_ms, "somebody", address, "log in", "refused", ok=False))
        await self.people.was_wrong(address)

    # Their clients

    def _person(
        self,
        name: str | None,
        *,
        may_change: bool,
        password: str = "",
        address: str = "",
        anonymous: bool = False,
    ) -> Person:
        signing: dict[str, Any] = {}
        if name is not None and not anonymous:
            said = said_for(name, address, self.config.inner_secret)
            signing = {"access_key": name, "secret_key": Secret(password), "said": said}
        session = self._new_session(
            self.config.name_servers, clock=self.clock, anonymous=anonymous, **signing
        )
        seen = name is not None or not self.config.hide_bodies
        return Person(name, may_change, seen, Cluster(session))

    async def _open(self, cluster: Cluster) -> None:
        stack = AsyncExitStack()
        await stack.enter_async_context(cluster)
        self._clusters[cluster] = stack

    async def _close(self, cluster: Cluster) -> None:
        stack = self._clusters.pop(cluster, None)
        if stack is not None:
            await stack.aclose()

    async def _forget(self, person: Person) -> None:
        if person.cluster is not self.everybody.cluster:
            await self._close(person.cluster)

    async def _tidy(self) -> None:
        while True:
            await self.clock.sleep(_TIDY_MS)
            for person in self.people.leave_idle():
                await self._forget(person)


async def _knock(cluster: Cluster, broker: str | None) -> None:
    """Ask a broker, or a NameServer, something that takes a name where names are asked for."""
    if broker is None:
        await cluster.admin.brokers.clusters()
    else:
        await cluster.admin.brokers.runtime(broker)
