"""Mistakes that a replicated broker could make and still pass all tests in which nothing dies.

Some rules of `replication_model` are not here, as a second one holds where they are left out: who
stands before it closes is stopped by ``lead``, which ends the connection before its epoch begins,
and by the store, which takes a leader's bytes at its end only; who follows a replaced leader by the
epochs in its log, and by refusing to cut what was confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest

from rocketpipe.broker.replication.following import incoming
from rocketpipe.broker.replication.following.incoming import Incoming
from rocketpipe.broker.replication.leading.followers import Followers
from rocketpipe.broker.replication.leading.in_sync import ElectedSet
from rocketpipe.broker.replication.role import RoleKeeper
from rocketpipe.broker.roles import run
from rocketpipe.broker.roles.tenure import Tenure
from rocketpipe.coordination.coordinator import GroupState
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.message_store import MessageStore

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]


def acknowledge_before_the_set(patch: Patch) -> None:
    patch.setattr(Followers, "_call_when_acknowledged", lambda self, end, done: done(0, ""))


def acknowledge_before_the_set_on_the_fast_path(patch: Patch) -> None:
    patch.setattr(Followers, "when_acknowledged", lambda self, end, done: done(0, ""))


def count_only_who_reported(patch: Patch) -> None:
    def common_end(self: ElectedSet) -> int | None:
        ends = [
            self._connected[each].end
            for each in self._required()
            if each in self._connected and self._connected[each].end >= 0
        ]
        return min([*ends, int(self._positions.written)])

    patch.setattr(ElectedSet, "common_end", common_end)


def grow_without_waiting(patch: Patch) -> None:
    async def grow(self: ElectedSet) -> None:
        entering = {
            each for each, follower in self._connected.items() if self._may_enter(each, follower)
        }
        if self._over or not entering:
            return
        grown = self.members | entering
        await self._change(frozenset(grown))
        self.members = frozenset(grown)

    patch.setattr(ElectedSet, "_grow", grow)


def grow_below_what_was_inherited(patch: Patch) -> None:
    def may_enter(self: ElectedSet, each: int, follower: Any) -> bool:
        if each in self.members | self.pending or each in self._lost_data:
            return False
        return bool(follower.end >= 0 and follower.end >= (self._positions.acknowledged or 0))

    patch.setattr(ElectedSet, "_may_enter", may_enter)


def shrink_locally_first(patch: Patch) -> None:
    shrink = ElectedSet._shrink

    async def locally_first(self: ElectedSet) -> None:
        change = self._change

        async def changed(members: frozenset[int]) -> None:
            self.members, self.pending = members, frozenset()
            self._changed()
            await change(members)

        self._change = changed
        try:
            await shrink(self)
        finally:
            self._change = change

    patch.setattr(ElectedSet, "_shrink", locally_first)


def report_inside_a_group(patch: Patch) -> None:
    report = Incoming._report

    def inside(self: Incoming) -> None:
        if self.ended.done() or not self._greeted or self._congested:
            return
        if self._next > self._store.positions.written and self._transport is not None:
            self._transport.write(self._side.report(self._next))
        else:
            report(self)

    patch.setattr(Incoming, "_report", inside)


def report_what_is_not_synced(patch: Patch) -> None:
    began = Incoming.__init__

    def begin(self: Incoming, *given: Any, **named: Any) -> None:
        began(self, *given, **named)
        self._sync = False

    patch.setattr(Incoming, "__init__", begin)


def show_what_is_not_confirmed(patch: Patch) -> None:
    confirm = Incoming._confirm

    def confirms(self: Incoming) -> None:
        self._confirmed = int(self._store.positions.written)
        confirm(self)

    patch.setattr(Incoming, "_confirm", confirms)


def serve_before_all_shows(patch: Patch) -> None:
    async def at_once(self: Tenure, inherited: LogOffset) -> None:
        pass

    patch.setattr(Tenure, "_until_shown", at_once)


def reuse_a_queue_offset(patch: Patch) -> None:
    adopt = MessageStore.adopt_tail

    def adopted(self: MessageStore) -> int:
        raise_next = self.derived.queues.raise_next
        self.derived.queues.raise_next = lambda *_: None  # type: ignore[method-assign]
        try:
            return adopt(self)
        finally:
            self.derived.queues.raise_next = raise_next  # type: ignore[method-assign]

    patch.setattr(MessageStore, "adopt_tail", adopted)


def do_not_cut(patch: Patch) -> None:
    agree = incoming.agree

    def agreed(store: Any, epochs: Any, hello: Any) -> bool:
        try:
            return agree(store, epochs, hello)
        except incoming.NothingInCommon:
            raise
        except Exception:
            return True

    patch.setattr(incoming, "agree", agreed)


def stand_unclean(patch: Patch) -> None:
    patch.setattr(run, "_is_clean", lambda store, joined, now: True)


def anybody_stands(patch: Patch) -> None:
    patch.setattr(RoleKeeper, "_why_not_stand", lambda self, state: None)
    patch.setattr(GroupState, "check_candidate", lambda self, *given, **named: None)


def go_on_when_the_session_is_lost(patch: Patch) -> None:
    """And whatever else is not in the epoch's version."""
    patch.setattr(RoleKeeper, "_lost", lambda self: None)
    patch.setattr(RoleKeeper, "_still_leads", lambda self, lead, state: True)


class Planted(NamedTuple):
    """Where a mistake is looked for: from a seed on, with which it is found soon."""

    first: int = 0
    mode: str = "C"
    #: What the runs are given beside that, where any schedule would take long.
    aim: Mapping[str, Any] = MappingProxyType({})


_SUCCESSIONS: Final = ("kill", "kill", "start", "start", "slow", "reset", "part", "heal")

MUTANTS: Final[Mapping[Mutant, Planted]] = {
    acknowledge_before_the_set: Planted(),
    acknowledge_before_the_set_on_the_fast_path: Planted(),
    count_only_who_reported: Planted(),
    grow_without_waiting: Planted(25),
    grow_below_what_was_inherited: Planted(595, aim={"acts": _SUCCESSIONS, "steps": 14}),
    shrink_locally_first: Planted(),
    report_inside_a_group: Planted(2),
    report_what_is_not_synced: Planted(mode="D"),
    show_what_is_not_confirmed: Planted(),
    serve_before_all_shows: Planted(6),
    reuse_a_queue_offset: Planted(18),
    do_not_cut: Planted(7),
    stand_unclean: Planted(5),
    anybody_stands: Planted(14),
    go_on_when_the_session_is_lost: Planted(),
}
