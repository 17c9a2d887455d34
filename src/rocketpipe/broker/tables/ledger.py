"""Which batches of which application were committed here, so that none is a second time.

An application numbers its batches, so what is remembered of it is a few runs of numbers. The table
is kept in the log, by ``delivery.staging``; here it is a value that can be written down and read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from rocketpipe.model.body import Body, Int64

#: What the table may take when it is written down: it has to fit a record.
MAX_BYTES: Final = 3 << 20
MAX_PLAN_BYTES: Final = 256 << 10
_APP_BYTES: Final = 96
_RUN_BYTES: Final = 44


class AppEntry(Body, frozen=True, kw_only=True):
    """One application, written down."""

    app: str
    #: First and last number of each run, in order.
    runs: tuple[tuple[Int64, Int64], ...]
    used_ms: Int64
    #: Of the newest batch that has one.
    plan_batch: Int64 = -1
    plan: str | None = None


@dataclass(slots=True)
class _App:
    firsts: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    used_ms: int = 0
    plan_batch: int = -1
    plan: str | None = None

    def size(self, name: str) -> int:
        return (
            _APP_BYTES
            + 6 * len(name)
            + _RUN_BYTES * len(self.firsts)
            + (0 if self.plan is None else 6 * len(self.plan))
        )


class Ledger:
    """Committed batches by application, of bounded size."""

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._apps: dict[str, _App] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._apps)

    def has(self, app: str, batch: int) -> bool:
        """Whether a batch was committed."""
        known = self._apps.get(app)
        if known is None:
            return False
        at = bisect_right(known.firsts, batch) - 1
        return at >= 0 and batch <= known.lasts[at]

    def plan(self, app: str, batch: int) -> str | None:
        """What the first commit of a batch wanted to be told again; the newest one's is kept."""
        known = self._apps.get(app)
        return known.plan if known is not None and known.plan_batch == batch else None

    def refusal(self, app: str, plan: str | None) -> str | None:
        """Why one more batch cannot be noted, if it cannot."""
        plan_bytes = 0 if plan is None else len(plan)
        if plan_bytes > MAX_PLAN_BYTES:
            return f"a plan of {plan_bytes} characters, {MAX_PLAN_BYTES} are the most"
        need = _APP_BYTES + 6 * len(app) + _RUN_BYTES + 6 * plan_bytes
        if self._bytes + need > self._max_bytes:
            return (
                f"the ledger has {len(self._apps)} applications of {self._bytes} bytes, and "
                f"{self._max_bytes} are the most: number batches one by one, and use few names"
            )
        return None

    def note(self, app: str, batch: int, now_ms: int, plan: str | None = None) -> None:
        """Remember that a batch is committed; a second time changes nothing."""
        known = self._apps.setdefault(app, _App())
        if len(known.firsts) or known.used_ms:
            self._bytes -= known.size(app)
        known.used_ms = max(known.used_ms, now_ms)
        if plan is not None and batch >= known.plan_batch:
            known.plan_batch, known.plan = batch, plan
        elif batch > known.plan_batch:
            known.plan_batch, known.plan = -1, None  # of an older batch: it is over
        if not self.has(app, batch):
            _insert(known, batch)
        self._bytes += known.size(app)

    def forget_unused(self, before_ms: int) -> list[str]:
        """Let go of applications that committed nothing since; gives their names."""
        gone = [name for name, known in self._apps.items() if known.used_ms < before_ms]
        for name in gone:
            self._bytes -= self._apps.pop(name).size(name)
        return gone

    def entries(self) -> Iterator[AppEntry]:
        """All of it, to be written down."""
        for name, known in self._apps.items():
            yield AppEntry(
                app=name,
                runs=tuple(zip(known.firsts, known.lasts, strict=True)),
                used_ms=known.used_ms,
                plan_batch=known.plan_batch,
                plan=known.plan,
            )

    def load(self, entries: tuple[AppEntry, ...]) -> None:
        """Take over what was written down, in place of what is here."""
        self._apps = {
            entry.app: _App(
                [first for first, _ in entry.runs],
                [last for _, last in entry.runs],
                entry.used_ms,
                entry.plan_batch,
                entry.plan,
            )
            for entry in entries
        }
        self._bytes = sum(known.size(name) for name, known in self._apps.items())


def _insert(known: _App, batch: int) -> None:
    firsts, lasts = known.firsts, known.lasts
    at = bisect_right(firsts, batch)
    joins_left = at > 0 and lasts[at - 1] == batch - 1
    joins_right = at < len(firsts) and firsts[at] == batch + 1
    if joins_left and joins_right:
        lasts[at - 1] = lasts[at]
        del firsts[at], lasts[at]
    elif joins_left:
        lasts[at - 1] = batch
    elif joins_right:
        firsts[at] = batch
    else:
        firsts.insert(at, batch)
        lasts.insert(at, batch)
