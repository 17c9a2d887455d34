"""Why something is allowed or not: the judgement of `auth.policy`, with its reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocketpipe.auth.needs import group_wanted, publishing, topic_wanted
from rocketpipe.auth.policy import Action, Entry, Kind, Part, Policy, Wanted, decide
from rocketpipe.model.names import RETRY_PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One thing that was asked, and what decides it."""

    #: As it was asked, and what that comes to: a retry topic is its group's.
    asked: str
    wanted: str
    allowed: bool
    why: str
    entry: Entry | None = None
    part: Part | None = None
    #: Entries that have a say as well, and do not decide.
    others: tuple[Entry, ...] = ()
    #: Entries that would have one if it came from somewhere else.
    elsewhere: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """All that was asked; it is allowed if each of it is."""

    points: tuple[Point, ...]

    @property
    def allowed(self) -> bool:
        return bool(self.points) and all(point.allowed for point in self.points)


def explain(
    policy: Policy | None, asked: Sequence[tuple[Kind, str, Action]], source: str = ""
) -> Answer:
    """Judge what one subject wants, which is neither disabled nor may do everything.

    Of a ``source`` that is not known, entries that are for some sources only do not count.
    """
    return Answer(tuple(_point(policy, *each, source) for each in asked))


def _point(policy: Policy | None, kind: Kind, name: str, action: Action, source: str) -> Point:
    said = f"{action.value} {kind.value}:{name}"
    if kind is Kind.TOPIC and action is Action.PUB and not publishing(name):
        return Point(
            asked=said, wanted=said, allowed=True, why="every user who is let in writes traces"
        )
    wanted = _wanted(kind, name, action)
    (needed,) = wanted.actions
    text = f"{needed.value} {wanted}"
    verdict = decide(policy, wanted, source)
    alike = [each for each in _entries(policy, verdict.part) if each.counts(wanted, source)]
    return Point(
        asked=said,
        wanted=text,
        allowed=verdict.allowed,
        why=_why(policy, verdict.entry, verdict.part, alike, wanted, source),
        entry=verdict.entry,
        part=verdict.part,
        others=tuple(
            each
            for part in Part
            for each in _entries(policy, part)
            if each is not verdict.entry and each.counts(wanted, source)
        ),
        elsewhere=tuple(
            each
            for part in Part
            for each in _entries(policy, part)
            if each.sources and not each.counts(wanted, source) and _concerns(each, wanted)
        ),
    )


def _wanted(kind: Kind, name: str, action: Action) -> Wanted:
    if kind is Kind.TOPIC:
        return topic_wanted(name, action)
    if kind is Kind.GROUP:
        return group_wanted(name.removeprefix(RETRY_PREFIX), action)
    return Wanted(kind, name, frozenset({action}))


def _why(
    policy: Policy | None,
    entry: Entry | None,
    part: Part | None,
    alike: Sequence[Entry],
    wanted: Wanted,
    source: str,
) -> str:
    if entry is None:
        about = [
            each
            for some in Part
            for each in _entries(policy, some)
            if each.resource.covers(wanted.kind, wanted.name)
        ]
        if not about:
            return f"no entry is about {wanted}, and what nobody allows is denied"
        if any(each.sources and _concerns(each, wanted) for each in about):
            return f"what is said of {wanted} is for other sources than {source or 'this one'}"
        return f"entries about {wanted} are for other actions"
    own = _entries(policy, Part.CUSTOM)
    second = min(
        (each for each in alike if each is not entry), key=lambda each: each.rank, default=None
    )
    if second is not None:
        return _before(entry, second)
    if part is Part.DEFAULT and own:
        return "no entry of the user's own counts, so the default one does"
    if any(each.counts(wanted, source) for each in _default(policy, part)):
        return "an entry of the user's own counts before those by default"
    return "the only entry that counts"


def _before(entry: Entry, second: Entry) -> str:
    if entry.rank[:-1] != second.rank[:-1]:
        return f"{entry.resource} is more specific than {second.resource}"
    if entry.decision is not second.decision:
        return "of two that are alike, Deny counts before Allow"
    return "all entries that count say the same"


def _default(policy: Policy | None, part: Part | None) -> tuple[Entry, ...]:
    """Entries by default, where it is not one of them that decides."""
    return () if part is Part.DEFAULT else _entries(policy, Part.DEFAULT)


def _concerns(entry: Entry, wanted: Wanted) -> bool:
    return entry.resource.covers(wanted.kind, wanted.name) and (
        Action.ALL in entry.actions or not wanted.actions.isdisjoint(entry.actions)
    )


def _entries(policy: Policy | None, part: Part | None) -> tuple[Entry, ...]:
    return policy.of(part) if policy is not None and part is not None else ()
