"""Which batches of which application were committed here, so that none is a second time.

An application numbers its batches, so what is remembered of it is a few runs of numbers. Beside
them, of some batches: the plan, while other brokers may not have shown their share; and what the
newest ones held. The table is kept in the log, by ``delivery.staging``; here it is a value that can
be written down and read.

An application is forgotten when it has committed nothing for long. That counts the time in which
the broker ran: whoever waited for a broker that was away is not taken for somebody new.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rocketpipe.model.body import Body, Int64

#: What the table may take when it is written down: it has to fit a record.
MAX_BYTES: Final = 3 << 20
MAX_PLAN_BYTES: Final = 256 << 10
MAX_CONTENT_BYTES: Final = 2048
#: How many batches of an application may wait for other brokers at a time.
MAX_PLANS: Final = 64
#: Of how many batches of an application it is known what they held: the newest.
MAX_CONTENTS: Final = 16
#: How many of its batches are told of to whoever takes over.
MAX_NEWEST: Final = 64
_APP_BYTES: Final = 96
_RUN_BYTES: Final = 44
_NUMBERED_BYTES: Final = 24


class AppEntry(Body, frozen=True, kw_only=True):
    """One application, written down."""

    app: str
    #: First and last number of each run, in order.
    runs: tuple[tuple[Int64, Int64], ...]
    #: For how long a broker had run since its last commit.
    age_ms: Int64 = 0
    #: Of batches that other brokers may not have shown.
    plans: tuple[tuple[Int64, str], ...] = ()
    #: Of the newest batches.
    contents: tuple[tuple[Int64, str], ...] = ()


@dataclass(slots=True)
class _App:
    firsts: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    #: The moment of its last commit, on the clock of this run: may be before its start.
    used_ms: int = 0
    plans: dict[int, str] = field(default_factory=dict)
    contents: dict[int, str] = field(default_factory=dict)

    def size(self, name: str) -> int:
        noted = [*self.plans.values(), *self.contents.values()]
        return (
            _APP_BYTES
            + _text_bytes(name)
            + _RUN_BYTES * len(self.firsts)
            + sum(_NUMBERED_BYTES + _text_bytes(text) for text in noted)
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

    @property
    def plan_count(self) -> int:
        """Of how many batches other brokers may not have shown their share."""
        return sum(len(known.plans) for known in self._apps.values())

    def plan(self, app: str, batch: int) -> str | None:
        """What a batch's commit said of other brokers, while that is not known to be done."""
        known = self._apps.get(app)
        return None if known is None else known.plans.get(batch)

    def content(self, app: str, batch: int) -> str | None:
        """What a batch held, in its writer's words; of older ones that is not known any more."""
        known = self._apps.get(app)
        return None if known is None else known.contents.get(batch)

    def newest(self) -> Iterator[tuple[str, tuple[int, ...], dict[int, str]]]:
        """Each application with the numbers of its newest batches, and what some of them held."""
        for name, known in self._apps.items():
            found: list[int] = []
            for first, last in zip(reversed(known.firsts), reversed(known.lasts), strict=True):
                found += range(last, max(first, last - MAX_NEWEST + len(found) + 1) - 1, -1)
                if len(found) >= MAX_NEWEST:
                    break
            yield name, tuple(sorted(found)), dict(known.contents)

    def refusal(self, app: str, plan: str | None, content: str | None = None) -> str | None:
        """Why one more batch cannot be noted, if it cannot."""
        for kind, text, most in (
            ("plan", plan, MAX_PLAN_BYTES),
            ("content", content, MAX_CONTENT_BYTES),
        ):
            if text is not None and len(text) > most:
                return f"a {kind} of {len(text)} characters, {most} are the most"
        known = self._apps.get(app)
        if plan is not None and known is not None and len(known.plans) >= MAX_PLANS:
            some = ", ".join(str(number) for number in sorted(known.plans)[:5])
            return (
                f"{len(known.plans)} batches of {app!r} may not show yet at other brokers, among "
                f"them {some}: start those brokers, or commit the batches again"
            )
        need = _APP_BYTES + _text_bytes(app) + _RUN_BYTES
        need += sum(_NUMBERED_BYTES + _text_bytes(text) for text in (plan, content) if text)
        if self._bytes + need > self._max_bytes:
            return (
                f"the ledger has {len(self._apps)} applications of {self._bytes} bytes, and "
                f"{self._max_bytes} are the most: number batches one by one, and use few names; "
                "each is remembered for stagedLedgerTime after its last commit"
            )
        return None

    def note(
        self,
        app: str,
        batch: int,
        now_ms: int,
        plan: str | None = None,
        content: str | None = None,
    ) -> None:
        """Remember that a batch is committed; ``now_ms`` is on the clock of this run."""
        known = self._taken(app)
        known.used_ms = max(known.used_ms, now_ms)
        if plan is not None:
            known.plans[batch] = plan
        if content is not None:
            known.contents[batch] = content
            if len(known.contents) > MAX_CONTENTS:
                del known.contents[min(known.contents)]
        if not self.has(app, batch):
            _insert(known, batch)
        self._bytes += known.size(app)

    def replan(self, app: str, batch: int, plan: str | None) -> None:
        """Remember what is left of a plan; None for nothing."""
        if self.plan(app, batch) is None:
            return
        known = self._taken(app)
        if plan is None:
            del known.plans[batch]
        else:
            known.plans[batch] = plan
        self._bytes += known.size(app)

    def _taken(self, app: str) -> _App:
        """An application that is about to change, out of the sum; whoever asks puts it back."""
        known = self._apps.get(app)
        if known is None:
            known = self._apps[app] = _App()
        else:
            self._bytes -= known.size(app)
        return known

    def forget_unused(self, before_ms: int) -> list[str]:
        """Let go of applications that committed nothing since; gives their names.

        One whose plans are not done stays: another broker, or the writer, may still ask for them.
        """
        gone = [
            name
            for name, known in self._apps.items()
            if known.used_ms < before_ms and not known.plans
        ]
        for name in gone:
            self._bytes -= self._apps.pop(name).size(name)
        return gone

    def entries(self, now_ms: int) -> Iterator[AppEntry]:
        """All of it, to be written down."""
        for name, known in self._apps.items():
            yield AppEntry(
                app=name,
                runs=tuple(zip(known.firsts, known.lasts, strict=True)),
                age_ms=max(0, now_ms - known.used_ms),
                plans=tuple(known.plans.items()),
                contents=tuple(known.contents.items()),
            )

    def load(self, entries: tuple[AppEntry, ...], now_ms: int) -> None:
        """Take over what was written down, in place of what is here."""
        self._apps = {
            entry.app: _App(
                [first for first, _ in entry.runs],
                [last for _, last in entry.runs],
                now_ms - entry.age_ms,
                dict(entry.plans),
                dict(entry.contents),
            )
            for entry in entries
        }
        self._bytes = sum(known.size(name) for name, known in self._apps.items())


def _text_bytes(text: str) -> int:
    """What a text takes as JSON."""
    return len(msgspec.json.encode(text))


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
