"""A coordinator that tells of each new in-sync set, and whose answers may be old."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any, Protocol

from rocketpipe.coordination.coordinator import GroupState, Leadership
from rocketpipe.testing.coordinator import SimEnsemble


class Watching(Protocol):
    """Who is told."""

    def set_changed(self, why: str) -> None:
        """The in-sync set is another."""
        ...

    def leading(self) -> Collection[int]:
        """Those that lead, as they see it."""
        ...


class WatchedEnsemble(SimEnsemble):
    """Tells of each change of the in-sync set."""

    def __init__(self, run: Watching, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._run = run
        #: How often an answer is one of before, as of a server that lags behind the others.
        self.old_answers = 0.0
        self._before: deque[GroupState] = deque(maxlen=12)

    def _tell(self) -> None:
        self._before.append(self.state())
        super()._tell()

    def answer(self) -> GroupState:
        """The group, as who asks is told; an old answer names a leader that goes on as one."""
        if self.chance.random() >= self.old_answers:
            return self.state()
        leaders = self._run.leading()
        old = [each for each in self._before if each.leader and each.leader.id in leaders]
        return old[0] if old else self.state()

    def campaign(self, me: int, *given: Any, **named: Any) -> Leadership:
        lead = super().campaign(me, *given, **named)
        self._run.set_changed(f"{me} was elected in epoch {lead.leader.epoch}")
        return lead

    def change_in_sync(self, lead: Leadership, *given: Any) -> GroupState:
        state = super().change_in_sync(lead, *given)
        self._run.set_changed(f"{lead.leader.id} had it changed in epoch {lead.leader.epoch}")
        return state
