"""The brokers of one directory as processes: started, watched, started again, ended in order.

    serve ─┬─ NameServer, health port     in this process
           ├─ broker-a-0                  a child each, in a session of its own
           └─ broker-a-1                  which ends with this process, even if that is killed

A child that dies is started again, after half a second, then after twice as long each time, up to
a minute; once it has served for a minute, that is forgotten. The others go on meanwhile. One that
is no longer in the roster (``rocketpipe broker drain``) is ended, and not started again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from rocketpipe.background import running
from rocketpipe.broker.config.advertise import local_address
from rocketpipe.cli.children.child import Child, State
from rocketpipe.cli.children.events import Event
from rocketpipe.cli.children.output import LogLines
from rocketpipe.cli.serving.fleet import cores
from rocketpipe.cli.serving.fleet.absences import Absences
from rocketpipe.cli.serving.fleet.commands import Commands
from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError, StoreError
from rocketpipe.protocol.command import Sign
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.tls_settings import TlsSettings
from rocketpipe.store import roster
from rocketpipe.store.roster import Member, Roster

log = logging.getLogger(__name__)

FIRST_REST_MS: Final = 500
LONGEST_REST_MS: Final = 60_000
#: Ending a broker in order may take as long as its disk takes to have everything.
STOP_MS: Final = 60_000
#: One that died so often while it started does not get better by itself.
HOPELESS: Final = 3
_LOOK_EVERY_MS: Final = 500


class NoBrokerStarts(RocketPipeError):
    """Not one of the brokers could be started."""


def rest_ms(deaths: int) -> int:
    """How long one rests that has died so often in a row."""
    return min(FIRST_REST_MS << min(deaths - 1, 10), LONGEST_REST_MS)


class Fleet:
    """The brokers that run."""

    def __init__(
        self,
        data: Path,
        brokers: Roster,
        commands: Commands,
        clock: Clock,
        placement: Mapping[str, int | None],
        tls: TlsSettings | None = None,
        sign: Sign | None = None,
    ) -> None:
        """Take who is to run where, which core each gets, and how they are asked."""
        self.members = {member.name: member for member in brokers.brokers}
        self.children: dict[str, Child] = {}
        self._data = data
        self._commands = commands
        self._clock = clock
        self._placement = placement
        self._tls = tls
        self._sign = sign
        #: Who has died since all were started for the first time, and of what.
        self._died = {name: asyncio.Event() for name in self.members}
        self._last_words: dict[str, str] = {}
        self._absences: Absences | None = None

    @asynccontextmanager
    async def serving(self, name_server: str) -> AsyncIterator[None]:
        """Have them run inside the block; they register with ``name_server``.

        Raises:
            NoBrokerStarts: None of them could be started.
        """
        seen = _state_of(self._data)
        async with AsyncExitStack() as stack:
            # Nobody writes there. Who reads the end of it knows that this process is gone.
            pipe, pipe_end = os.pipe()
            stack.callback(os.close, pipe)
            stack.callback(os.close, pipe_end)
            caller = await stack.enter_async_context(Caller(tls=self._tls, sign=self._sign))
            self._absences = Absences(caller, self._clock, self._others)
            await stack.enter_async_context(self._absences.watched())
            for name, member in self.members.items():
                self.children[name] = self._child(member, name_server, pipe)
            for child in self.children.values():
                await stack.enter_async_context(running(child.keep(), f"keep {child.name}"))
            stack.push_async_callback(self._stop)
            for child in self.children.values():
                child.start()
            await asyncio.gather(*(self._settled(child) for child in self.children.values()))
            if not any(child.ready.is_set() for child in self.children.values()):
                raise NoBrokerStarts(self._why())
            await stack.enter_async_context(running(self._keep_to_roster(seen), "roster"))
            yield

    def address(self, name: str) -> str:
        """Where a broker listens."""
        return self._commands.address(self.members[name])

    def _others(self, name: str) -> list[str]:
        """Where those are reached that serve beside one."""
        return [
            local_address(self.address(each))
            for each, child in self.children.items()
            if each != name and child.state is State.RUNNING
        ]

    def problems(self) -> dict[str, str]:
        """Which of them do not serve now, and what they do instead."""
        return {
            name: f"{name} is down: {child.state}"
            + (f" {child.deaths} times in a row" if child.deaths > 1 else "")
            for name, child in self.children.items()
            if child.state is not State.RUNNING
        }

    def _child(self, member: Member, name_server: str, pipe: int) -> Child:
        def changed() -> None:
            if child.pid is not None:
                cores.keep_on(child.pid, self._placement.get(member.name))

        child = Child(
            member.name,
            lambda: self._commands.of(self._as_it_is(member.name), name_server),
            address=partial(self._commands.address, member),
            output=LogLines(member.name, _to_log),
            pipe=pipe,
            clock=self._clock,
            tell=self._happened,
            changed=changed,
            rest_ms=rest_ms,
            stop_ms=STOP_MS,
        )
        return child

    def _as_it_is(self, name: str) -> Member:
        """What a broker is to be run for now: also one that died the moment after it changed."""
        try:
            known = roster.load(self._data)
        except StoreError:
            known = None  # whoever watches the roster says so
        return (known and known.member(name)) or self.members[name]

    async def _settled(self, child: Child) -> None:
        """Wait until a broker serves, or has died over it once."""
        waits = [
            asyncio.ensure_future(event.wait()) for event in (child.ready, self._died[child.name])
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    def _why(self) -> str:
        return "; ".join(sorted(set(self._last_words.values())))

    def _happened(self, event: Event) -> None:
        log.warning("%s", event.text)
        assert self._absences is not None
        if event.what == "serves":
            self._absences.end(event.name, local_address(self.address(event.name)))
        if event.what != "died":
            return
        self._absences.begin(event.name)
        child, member = self.children[event.name], self.members[event.name]
        self._last_words[event.name] = child.output.last_words()
        self._died[event.name].set()
        if not child.told:
            self._commands.another_port(member)
        if event.facts["deaths"] == HOPELESS and not event.facts["served"]:
            log.error(
                "%s does not start: the others go on, and it is tried again, at last once a "
                "minute; `rocketpipe store check %s` looks at its files",
                event.name,
                member.root(self._data),
            )

    async def _stop(self) -> None:
        await asyncio.gather(*(child.stop() for child in self.children.values()))

    async def _keep_to_roster(self, seen: object) -> None:
        """End those that have left; what cannot be read says nothing of anybody."""
        while True:
            await self._clock.sleep(_LOOK_EVERY_MS)
            if (now := _state_of(self._data)) == seen:
                continue
            try:
                known = roster.load(self._data)
            except StoreError as error:
                log.error("brokers stay as they are: %s", error)
                known = None
            seen = now
            if known is not None:
                staying = {member.name for member in known.brokers}
                await asyncio.gather(*(self._leave(name) for name in self.members.keys() - staying))

    async def _leave(self, name: str) -> None:
        log.warning("%s leaves, as %s no longer has it", name, roster.FILE_NAME)
        await self.children[name].stop()
        del self.children[name], self.members[name]


def _state_of(data: Path) -> tuple[int, int] | None:
    try:
        found = (data / roster.FILE_NAME).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _to_log(text: bytes) -> None:
    """Pass on what children say to where our own log goes; nobody may read it any more."""
    try:
        sys.stderr.buffer.write(text)
        sys.stderr.buffer.flush()
    except (OSError, ValueError):
        pass
