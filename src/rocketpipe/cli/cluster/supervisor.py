"""Runs all processes of a cluster, in the foreground, until Ctrl-C or ``cluster down``.

    cluster up ─┬─ zookeeper-1   ◀── relays ──┐
                ├─ namesrv                    │
                ├─ broker-a-1  ── relays ─────┘
                └─ …                            each in a session of its own
                ▲
                └─ control.sock ◀── cluster status|kill|start|pause|resume|cut|heal|down

They start in the order of the drawing and end in the reverse one.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
from collections.abc import Awaitable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from rocketpipe.cli.children.child import Child, NotPossible, State
from rocketpipe.cli.children.events import Event, Tell, seconds
from rocketpipe.cli.children.output import LogFile
from rocketpipe.cli.cluster import control, leftovers
from rocketpipe.cli.cluster.commands import Commands
from rocketpipe.cli.cluster.layout import HOST, Kind, Layout, Mode, Place
from rocketpipe.cli.cluster.peers import process_at
from rocketpipe.cli.cluster.relay import Cuts, Relay
from rocketpipe.cli.cluster.roles import LEADER, Progress, Roles
from rocketpipe.client.admin.replicas import behind
from rocketpipe.client.credentials import credentials_of
from rocketpipe.clock import Clock
from rocketpipe.coordination import zookeeper_server
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.tls_settings import TlsSettings

log = logging.getLogger(__name__)

LOCK_NAME: Final = "cluster.lock"

#: What a row of `cluster status` has, in this order.
COLUMNS: Final = (
    "kind",
    "name",
    "broker",
    "id",
    "role",
    "state",
    "cut",
    "address",
    "pid",
    "epoch",
    "log_end",
    "lag",
    "in_sync",
    "starts",
    "up_ms",
    "log",
)

#: They are started in this order, and end in the reverse one.
_ORDER: Final = (Kind.ZOOKEEPER, Kind.NAMESRV, Kind.BROKER)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Be the only one who supervises a cluster in this directory.

    Raises:
        ConfigError: If somebody else does.
    """
    with (directory / LOCK_NAME).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(
                "--data",
                f"a cluster runs in {directory} already: look at it with "
                f"`rocketpipe cluster status --data {directory}`, or name another directory",
            ) from error
        yield


class Supervisor:
    """One cluster that runs."""

    def __init__(
        self, layout: Layout, directory: Path, commands: Commands, clock: Clock, tell: Tell
    ) -> None:
        """Take what to run and where; ``tell`` is told of what happens."""
        self._layout = layout
        self._directory = directory
        self._clock = clock
        self._tell = tell
        self._cuts = Cuts()
        # As whom, and how, the environment says, which servers hear as well.
        by = credentials_of()
        self._caller = Caller(tls=TlsSettings.of(None), sign=None if by is None else by.sign)
        # Nobody writes there. Who reads the end of it knows that this process is gone.
        self._pipe, self._pipe_end = os.pipe()
        self._places = {place.name: place for place in layout.places}
        self._children = {
            place.name: Child(
                place.name,
                partial(commands.of, place),
                address=partial(getattr, place, "address"),
                output=LogFile(self._log(place.name)),
                pipe=self._pipe,
                clock=clock,
                tell=self._happened,
                changed=self._keep_ids,
                answers=partial(_zookeeper_answers, place.port)
                if place.kind is Kind.ZOOKEEPER
                else None,
            )
            for place in layout.places
        }
        self._roles = Roles(
            layout,
            self._caller,
            clock,
            able=self._able,
            tell=tell,
        )
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None

    async def run(self) -> None:
        """Start everything, and keep it running until a signal or ``down`` says stop.

        Raises:
            OSError: If a relay's port is taken, or the control socket cannot be made.
        """
        self._heed_signals()
        async with AsyncExitStack() as stack:
            stack.callback(os.close, self._pipe)
            stack.callback(os.close, self._pipe_end)
            await stack.enter_async_context(control.listening(self._directory, self._answer))
            await stack.enter_async_context(self._caller)
            for relay, port in self._relays():
                await relay.open(port)
                stack.callback(relay.close)
            keeping = [self._running(child.keep()) for child in self._children.values()]
            stack.push_async_callback(_cancelled, keeping)
            others = [self._running(self._roles.keep_watching()), self._running(self._start())]
            await self._stopping.wait()
            await _cancelled(others)
            await self._stop()
            self._ended.set()
        if self._failure is not None:
            raise self._failure

    def _running(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Have something done beside; should it fail, which nobody expects, all of it ends."""

        def done(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (failure := task.exception()) is not None:
                self._failure = failure
                self._stopping.set()

        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(done)
        return task

    async def _start(self) -> None:
        for kind in _ORDER:
            children = self._of_kind(kind)
            for child in children:
                child.start()
            await asyncio.gather(*(child.ready.wait() for child in children))
        await self._roles.complete.wait()
        where = f"namesrv={self._layout.name_server}"
        facts = {"namesrv": self._layout.name_server}
        self._tell(Event("", "ready", f"ready {where}", facts))

    async def _stop(self) -> None:
        for kind in reversed(_ORDER):
            await asyncio.gather(*(child.stop() for child in self._of_kind(kind)))
        (self._directory / leftovers.FILE_NAME).unlink(missing_ok=True)

    def _log(self, name: str) -> Path:
        return self._directory / "logs" / f"{name}.log"

    def _of_kind(self, kind: Kind) -> list[Child]:
        return [child for child in self._children.values() if self._places[child.name].kind is kind]

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()

        def on_signal() -> None:
            if self._stopping.is_set():  # said twice: without waiting for anybody
                for child in self._children.values():
                    child.end_now()
                return
            self._tell(Event("", "stopping", "stopping; once more ends everything at once"))
            self._stopping.set()

        for each in _SIGNALS:
            loop.add_signal_handler(each, on_signal)

    def _relays(self) -> Iterator[tuple[Relay, int]]:
        """Every relay, with the port that it listens on."""
        for place in self._layout.places:
            for name, port in place.relays.items():
                server = self._places[name]
                target = server.port if server.kind is Kind.ZOOKEEPER else server.ha_port
                relay = Relay(
                    server=name,
                    target=target,
                    client=partial(self._who, port) if server is place else place.name,
                    cuts=self._cuts,
                )
                yield relay, port

    def _who(self, relay: int, port: int) -> str | None:
        """Which broker connected to a relay from this port."""
        running = {
            child.pid: child.name for child in self._of_kind(Kind.BROKER) if child.pid is not None
        }
        process = process_at(port, relay, running)
        return running[process] if process is not None else None

    def _happened(self, event: Event) -> None:
        if event.what == "died":
            self._roles.hit(event.name)
        self._tell(event)

    def _able(self, name: str) -> bool:
        return self._children[name].state is State.RUNNING and name not in self._cuts

    def _keep_ids(self) -> None:
        running = {name: child.pid for name, child in self._children.items()}
        try:
            leftovers.keep(self._directory, {name: pid for name, pid in running.items() if pid})
        except OSError as error:  # the disk is full: they end with this process all the same
            log.warning("cannot write down which processes run: %s", error)

    async def _answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Do what another terminal asks.

        Raises:
            NotPossible: If that cannot be done.
        """
        verb, name = asked.get("verb"), asked.get("name")
        if verb == "status":
            return {"rows": await self.rows()}
        if verb == "down":
            self._stopping.set()
            await self._ended.wait()
            return {"done": "everything has ended"}
        if self._stopping.is_set():
            raise NotPossible("the cluster is ending")
        child = self._children.get(name) if isinstance(name, str) else None
        if child is None:
            raise NotPossible(f"there is no {name!r} here: {', '.join(self._children)}")
        match verb:
            case "kill":
                text = await self._kill(child)
            case "start":
                child.start()
                text = f"{child.name} starts"
            case "pause":
                text = self._pause(child, asked.get("for_ms"))
            case "resume":
                child.resume()
                return {"done": f"{child.name} goes on"}  # and it has said so itself
            case "cut":
                text = self._cut(self._places[child.name])
            case "heal":
                text = self._heal(self._places[child.name])
            case _:
                raise NotPossible(f"nobody here knows how to {verb!r}")
        self._tell(Event(child.name, str(verb), text))
        return {"done": text}

    async def _kill(self, child: Child) -> str:
        self._roles.hit(child.name)
        await child.kill()
        return f"{child.name} is killed, and stays dead until it is started"

    def _pause(self, child: Child, for_ms: object) -> str:
        length = for_ms if isinstance(for_ms, int) and for_ms > 0 else None
        child.pause(length)
        self._roles.hit(child.name)
        until = f"for {seconds(length)}" if length else "until it is resumed"
        return f"{child.name} is paused {until}"

    def _cut(self, place: Place) -> str:
        concerned = place.kind is not Kind.NAMESRV and any(
            place.relays or place.name in each.relays for each in self._layout.places
        )
        if not concerned:
            raise NotPossible(
                f"{place.name} has neither replicas nor a coordinator to be cut off from"
            )
        if place.name in self._cuts:
            raise NotPossible(f"{place.name} is cut off already: heal it first")
        self._cuts.add(place.name)
        self._roles.hit(place.name)
        if place.kind is Kind.ZOOKEEPER:
            return f"{place.name} is cut off from the brokers"
        whom = "the coordinator and its replicas"
        if self._layout.mode is not Mode.ELECTED:
            whom = "its replicas"
        return f"{place.name} is cut off from {whom}, and not from clients"

    def _heal(self, place: Place) -> str:
        if place.name not in self._cuts:
            raise NotPossible(f"{place.name} is not cut off")
        self._cuts.remove(place.name)
        return f"{place.name} is no longer cut off"

    async def rows(self) -> list[dict[str, Any]]:
        """A row for each process, as `COLUMNS` says."""
        answering = [
            self._places[child.name]
            for child in self._of_kind(Kind.BROKER)
            if child.state is State.RUNNING
        ]
        progress = await self._roles.progress(answering)
        now_ms = self._clock.monotonic_ms()
        rows = []
        for name, child in self._children.items():
            place = self._places[name]
            known = progress.get(name, Progress())
            role = self._roles.role(name, known) if child.pid is not None else None
            leader = self._roles.leader(place.group) if place.group else None
            ahead = progress.get(leader or "", Progress())
            lag = None
            if role != LEADER:
                lag = behind(known.end, ahead.end, follows=known.follows)
            rows.append(
                {
                    "kind": place.kind,
                    "name": name,
                    "broker": place.group or None,
                    "id": known.id,
                    "role": role,
                    "state": child.state,
                    "cut": name in self._cuts,
                    "address": f"{HOST}:{place.port}",
                    "pid": child.pid,
                    "epoch": known.epoch,
                    "log_end": known.end,
                    "lag": lag,
                    "in_sync": None if ahead.in_sync is None else place.address in ahead.in_sync,
                    "starts": child.starts,
                    "up_ms": now_ms - child.began_ms if child.began_ms is not None else None,
                    "log": str(self._log(name)),
                }
            )
        return rows


async def _cancelled(tasks: Iterable[Awaitable[Any]]) -> None:
    """End tasks, and wait for that."""
    ending = [asyncio.ensure_future(task) for task in tasks]
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


def _zookeeper_answers(port: int) -> bool:
    return zookeeper_server.mode_of(port) is not None
