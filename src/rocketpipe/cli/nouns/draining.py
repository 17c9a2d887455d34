"""``rocketpipe broker drain``: have a broker read empty, and take it out of its directory.

    1. sends go elsewhere       brokerPermission=4; the roster says so too, for its next start
    2. everything is read       by every group that reads it, retries and delayed messages too
    3. it takes nothing more    and is looked at again: what came in the last moment is read first
    4. it leaves the roster     the process that supervises it ends it
    5. its files are set aside  in DIR/drained, or deleted

Each step is written down before it is taken, so that the same command goes on after a kill.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rocketpipe.broker.config.draining import CLOSED, DRAINING, OPEN
from rocketpipe.cli.nouns.drained_traces import DrainedTraces
from rocketpipe.cli.terminal import confirm
from rocketpipe.cli.terminal.backlog_line import BacklogLine
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.brokers import BrokerInfo
from rocketpipe.client.admin.draining import Backlog
from rocketpipe.client.admin.findings import counted
from rocketpipe.client.admin.fleet import NoBroker
from rocketpipe.errors import CallTimeout, ConfigError, ConnectionLost, RocketPipeError
from rocketpipe.model.topic import Perm
from rocketpipe.store import roster, set_aside
from rocketpipe.store.errors import StoreLocked
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.roster import MemberState, Roster
from rocketpipe.store.state.run_files import locked

_LOOK_EVERY_S: Final = 1.0
_TRY_EVERY_S: Final = 0.2
#: A broker that ends in order takes seconds; after so long somebody has to be asked to end it.
_ENDS_WITHIN_S: Final = 90.0
_FORGOTTEN_WITHIN_S: Final = 10.0
_MOST_NAMED: Final = 5

_SETTINGS: Final = {MemberState.DRAINING: DRAINING, MemberState.CLOSED: CLOSED}


class CannotDrain(RocketPipeError):
    """A broker cannot be drained, or not now; the text says what to do."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this verb."""
    parser.add_argument("broker", metavar="NAME", help="its name")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="the directory that it shares with others, as `serve --data` has it; found through "
        "the broker as a rule",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="give up waiting after so long; it stays as it is, for the next time",
    )
    parser.add_argument(
        "--leave-unread",
        action="store_true",
        help="do not mind topics that no group reads, and dead letters: they are set aside too",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--delete", action="store_true", help="delete its files; keep none of them")
    what.add_argument(
        "--cancel", action="store_true", help="have a broker that is being drained serve again"
    )
    confirm.add_flags(parser, dry_run=False)


async def drain(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    """Drain a broker; the number is the exit code."""
    name, given = options.broker, options.data
    everyone = {each.name: each for each in await admin.brokers.all()}
    data: Path | None = given
    if name in everyone:
        await _refuse_replicas(admin, everyone[name])
        data = await _data_of(admin, name, given)
    elif given is None:
        data = await _left_in(admin, everyone, name)
    with ExitStack() as held:
        if data is not None:
            try:
                held.enter_context(roster.changing(data))
            except StoreLocked as error:
                raise CannotDrain(
                    f"another `broker drain` is at work in {data}: wait for it, or stop it"
                ) from error
        work = _Drain(admin, printer, options, data)
        if options.cancel:
            return await work.cancel()
        if name not in everyone:
            return await work.finish()
        return await work.run(everyone)


class _Drain:
    """One run of the command."""

    def __init__(
        self, admin: Admin, printer: Printer, options: argparse.Namespace, data: Path | None
    ) -> None:
        self._admin = admin
        self._printer = printer
        self._options = options
        self._name: str = options.broker
        #: None for a broker that runs by itself, or elsewhere.
        self._data = data
        self._traces = DrainedTraces(admin, self._name)

    async def run(self, everyone: dict[str, BrokerInfo]) -> int:
        """Drain a broker that runs, and take it out."""
        other = await self._another(everyone)
        before = await self._admin.draining.look(self._name)
        await self._refuse_unread(before, self._stays() if self._began() else "nothing was changed")
        self._note(MemberState.DRAINING)
        try:
            await self._traces.leave_order()
            last = await self._consumed()
        except asyncio.CancelledError:
            sys.stderr.write(f"{self._stays()}\n")
            raise
        if self._data is None:
            return self._tell_drained()
        unread = sum(last.unread.values())
        if unread and self._options.delete:
            what = f"delete {counted(unread, 'message')} at {self._name!r} that nobody has read"
            confirm.confirm(what, self._options)
        await self._traces.leave(last.ends, other)
        set_aside.save_ends(self._data, self._name, last.ends)
        known = self._roster()
        known.with_leaving(self._name, delete=self._options.delete).save(self._data)
        return await self.finish(unread)

    async def cancel(self) -> int:
        """Have it serve again."""
        if self._data is not None and self._roster().member(self._name) is None:
            raise CannotDrain(f"{self._name} has left already: its files are being set aside")
        self._note(MemberState.SERVING)
        await self._admin.brokers.change(self._name, OPEN)
        await self._traces.join_order()
        self._printer.record({"broker": self._name, "state": MemberState.SERVING.value})
        return 0

    async def finish(self, unread: int = 0) -> int:
        """Wait until it runs no more, and set its files aside."""
        assert self._data is not None, "who has no directory has nothing to set aside"
        leaving = {each.name: each for each in self._roster().leaving}
        if self._name not in leaving:
            raise CannotDrain(
                f"{self._name} does not run: start it, so that what it has can be read"
                if self._roster().member(self._name)
                else f"{self._data} has no broker {self._name!r}"
            )
        waited_s = 0.0
        while True:
            try:
                set_aside.finish_leaving(self._data)
                break
            except StoreLocked as error:
                if waited_s >= _ENDS_WITHIN_S:
                    raise CannotDrain(
                        f"{self._name} has left, but a process still has its files ({error}): stop "
                        "it, and run this again"
                    ) from error
            await asyncio.sleep(_TRY_EVERY_S)
            waited_s += _TRY_EVERY_S
        await self._forgotten()
        deleted = leaving[self._name].delete
        place = set_aside.place_of(self._data, self._name)
        self._printer.record(
            {
                "broker": self._name,
                "state": "removed",
                "files": "deleted" if deleted else str(place),
                "unread": unread,
            }
        )
        return 0

    # Waiting

    async def _consumed(self) -> Backlog:
        """Wait until all is read and nothing more is taken; the broker is closed then."""
        loop = asyncio.get_running_loop()
        timeout_s = self._options.timeout
        until_s = None if timeout_s is None else loop.time() + timeout_s
        state, before = MemberState.DRAINING, None
        with BacklogLine(self._name) as line:
            while True:
                found = await self._look(state)
                line.show(found)
                is_read = found is not None and found.is_consumed
                if found is not None and is_read and _is_same(before, found):
                    if state is MemberState.CLOSED:
                        return found
                    await self._refuse_unread(found, self._stays())
                    before, state = None, MemberState.CLOSED
                    self._note(state)
                    continue
                if state is MemberState.CLOSED and found is not None and not is_read:
                    # What came in before it was closed has to be read as well.
                    state = MemberState.DRAINING
                    self._note(state)
                before = found if is_read else None
                if until_s is not None and loop.time() >= until_s:
                    raise CannotDrain(f"{line.text(found)}, after {timeout_s:g} s; {self._stays()}")
                await asyncio.sleep(_LOOK_EVERY_S)

    async def _look(self, state: MemberState) -> Backlog | None:
        """What is left; None while the broker does not answer, as one that starts again."""
        try:
            settings = await self._admin.brokers.settings(self._name)
            wanted = _SETTINGS[state]
            if any(settings.get(key) != value for key, value in wanted.items()):
                await self._admin.brokers.change(self._name, wanted)
            return await self._admin.draining.look(self._name)
        except (ConnectionLost, CallTimeout, NoBroker):
            return None

    def _began(self) -> bool:
        """Whether an earlier run has closed it to producers."""
        member = self._roster().member(self._name) if self._data is not None else None
        return member is not None and member.state is not MemberState.SERVING

    def _note(self, state: MemberState) -> None:
        """Have it so at its next start; the next look has it so now."""
        if self._data is not None:
            known = self._roster()
            if (member := known.member(self._name)) and member.state is not state:
                known.with_state(self._name, state).save(self._data)

    async def _forgotten(self) -> None:
        """Wait until routes have it no more, if it takes leave of the NameServers at all."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _FORGOTTEN_WITHIN_S
        while loop.time() < until_s:
            try:
                if all(each.name != self._name for each in await self._admin.brokers.all()):
                    return
            except RocketPipeError:
                return  # nobody to ask, or nobody left
            await asyncio.sleep(_TRY_EVERY_S)

    # What stands against it

    async def _another(self, everyone: dict[str, BrokerInfo]) -> str:
        """A broker that takes what would have gone to this one."""
        if self._data is not None and len(self._roster().brokers) == 1:
            raise CannotDrain(
                f"{self._name} is the last broker of {self._data}: stop it, and remove the "
                "directory, if it is not needed any more"
            )
        cluster = everyone[self._name].cluster
        for other in everyone.values():
            if other.name == self._name or other.cluster != cluster or other.leader is None:
                continue
            settings = await self._admin.brokers.settings(other.name)
            if int(settings.get("brokerPermission", "6")) & Perm.WRITE:
                return other.name
        raise CannotDrain(
            f"no other broker of cluster {cluster!r} takes messages: start one, so that what is "
            f"sent has somewhere to go when {self._name} is drained"
        )

    async def _refuse_unread(self, found: Backlog, so_far: str) -> None:
        if self._options.leave_unread or not found.unread:
            return
        done = await self._admin.draining.replayed(self._name, found.unread)
        left = {topic: count for topic, count in found.unread.items() if topic not in done}
        if not left:
            return
        named = [f"{topic} ({count})" for topic, count in list(left.items())[:_MOST_NAMED]]
        more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
        raise CannotDrain(
            f"no group reads {', '.join(named)}{more} at {self._name}: have a group read them, see "
            "to dead letters with `rocketpipe dlq replay|purge GROUP`, or add --leave-unread, "
            f"which sets them aside with its files; {so_far}"
        )

    def _tell_drained(self) -> int:
        self._printer.record(
            {
                "broker": self._name,
                "state": "drained",
                "next": "stop it: it is not of a directory on this machine that several share; if "
                "it is of one on another, run this there with --data DIR",
            }
        )
        return 0

    def _stays(self) -> str:
        return (
            f"{self._name} stays closed to new messages: run this again to go on, or with "
            "--cancel to have it serve again"
        )

    def _roster(self) -> Roster:
        assert self._data is not None, "only a directory has one"
        known = roster.load(self._data)
        if known is None:
            raise ConfigError("--data", f"{self._data} has no {roster.FILE_NAME}: name another")
        return known


def _is_same(before: Backlog | None, found: Backlog) -> bool:
    return before is not None and before.log_end == found.log_end


async def _refuse_replicas(admin: Admin, broker: BrokerInfo) -> None:
    settings = await admin.brokers.settings(broker.name)
    is_of_group = len(broker.addresses) > 1 or settings.get("zookeeperAddr")
    if is_of_group or settings.get("brokerRole") in ("SLAVE", "SYNC_MASTER"):
        raise CannotDrain(
            f"{broker.name} has replicas, and is not drained by this: set brokerPermission=4 at "
            "its leader with `rocketpipe broker config`, wait until `rocketpipe group lag` shows "
            "nothing of it, and stop all of them"
        )


async def _data_of(admin: Admin, name: str, given: Path | None) -> Path | None:
    """The directory that a broker which runs shares with others on this machine, if it does."""
    root = Path((await admin.brokers.settings(name)).get("storePathRootDir", ""))
    for data in (root.parent, root) if given is None else (given,):
        known = roster.load(data)
        member = known.member(name) if known is not None else None
        if member is not None and _is_in_use(member.root(data)):
            return data
    if given is not None:
        raise ConfigError(
            "--data", f"{given} is not the directory of {name}, which keeps its files in {root}"
        )
    return None


async def _left_in(admin: Admin, everyone: dict[str, BrokerInfo], name: str) -> Path:
    """The directory that a broker has left which does not run any more."""
    for other in everyone:
        root = Path((await admin.brokers.settings(other)).get("storePathRootDir", ""))
        for data in (root.parent, root):
            known = roster.load(data)
            if known is not None and any(each.name == name for each in known.leaving):
                return data
    raise NoBroker(f"no broker {name!r}", f"there are {', '.join(everyone) or 'none'}")


def _is_in_use(root: Path) -> bool:
    """Whether a process of this machine has a store: another's path may only look the same."""
    disk, layout = Disk(), StoreLayout(root)
    if not layout.lock.exists():
        return False
    try:
        with locked(disk, layout):
            return False
    except StoreLocked:
        return True
