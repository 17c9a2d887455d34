"""The rules that keep what was acknowledged, in a model that knows nothing else.

Three replicas whose logs are lists; a coordinator that is a few fields with versions; steps in any
order that a seed gives: leaders that were replaced and go on, reports that arrive after their
sender closed its connection, changes whose local half comes late. After each step, each
acknowledged record has to be in the log of every in-sync member and of the leader.

A rule can be left out, to see that the walks would find it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

#: What is done when a rule is left out.
RULES = {
    "ack alone": "a leader acknowledges what it has written itself",
    "count who reported": "members of the set that never reported are not waited for",
    "shrink locally first": "a leader stops waiting before the set says so",
    "shrink without epoch": "the set is changed whatever epoch it is",
    "grow in the set only": "a new member is waited for only when the answer is here",
    "grow below the epoch": "a new member need not have what leaders before this one wrote",
    "stand before closing": "who was elected still reports to the old leader",
    "anybody stands": "who is not in sync is elected",
    "forget the epoch joined": "a replaced leader is followed again",
    "forget what is pending": "a change ends, and with it the wait for whom another one adds",
    "keep connections": "reports of an older term count in a newer one",
}

STEPS = 70
#: The epoch that wrote it, and which one it is.
Record = tuple[int, int]


@dataclass
class Term:
    """A leader's own view; it may be over without its knowing."""

    epoch: int
    set_version: int
    in_sync: frozenset[int]
    required: frozenset[int]
    reports: dict[int, int] = field(default_factory=dict)
    #: What may have been acknowledged: by this leader, or by those before it.
    acked: int = 0
    #: The local half of a change that the coordinator has made, not yet done.
    late: Callable[[], None] | None = None
    #: A member that is waited for, and not in the set yet.
    growing: int | None = None


@dataclass
class Replica:
    id: int
    log: list[Record] = field(default_factory=list)
    joined: int = 0
    term: Term | None = None
    #: The leader and its epoch, while connected.
    follows: tuple[int, int] | None = None
    #: Elected, and not leading yet.
    won: Term | None = None


class Broken(AssertionError):
    """Something acknowledged is missing."""


class Model:
    """One walk; ``without`` is the rule that is left out."""

    def __init__(self, seed: int, without: str | None = None) -> None:
        assert without is None or without in RULES
        self._chance = Random(seed)
        self._without = without
        self._replicas = [Replica(id_) for id_ in range(3)]
        self._epoch = 0
        self._in_sync = frozenset({0, 1, 2})
        self._set_version = 0
        self._leader: int | None = None
        self._reports: list[tuple[int, int, int, int]] = []  # leader, epoch, sender, end
        self._serial = 0
        self.acked: list[Record] = []
        self.elections = 0

    def walk(self, steps: int = STEPS) -> None:
        moves = (
            (self._append, 4),
            (self._connect, 5),
            (self._copy, 8),
            (self._report, 7),
            (self._deliver, 8),
            (self._acknowledge, 6),
            (self._expire, 2),
            (self._notice, 2),
            (self._stand, 4),
            (self._promote, 5),
            (self._begin_change, 4),
            (self._end_change, 4),
        )
        chosen = self._chance.choices(
            [move for move, _ in moves], [weight for _, weight in moves], k=steps
        )
        for move in chosen:
            move()
            self._check()

    def _check(self) -> None:
        acked = self.acked
        for id_ in self._in_sync if self._leader is None else self._in_sync | {self._leader}:
            if self._replicas[id_].log[: len(acked)] != acked:
                raise Broken(f"{id_} lacks what was acknowledged")

    # --- the log

    def _append(self) -> None:
        replica, term = self._some_leader()
        if term is not None:
            self._serial += 1
            replica.log.append((term.epoch, self._serial))

    def _connect(self) -> None:
        leader, term = self._some_leader()
        follower = self._some(lambda each: not each.term and not each.won)
        if term is None or follower is None or follower.follows == (leader.id, term.epoch):
            return
        if term.epoch < follower.joined and self._without != "forget the epoch joined":
            return
        follower.joined = max(follower.joined, term.epoch)
        common = 0
        for mine, theirs in zip(follower.log, leader.log, strict=False):
            if mine != theirs:
                break
            common += 1
        del follower.log[common:]
        follower.follows = (leader.id, term.epoch)

    def _copy(self) -> None:
        follower = self._some(lambda each: each.follows and not each.term)
        if follower is not None and follower.follows:
            id_, epoch = follower.follows
            leader = self._replicas[id_]
            if leader.term is not None and leader.term.epoch == epoch:
                end = len(follower.log)
                follower.log += leader.log[end : end + self._chance.randrange(1, 4)]

    def _report(self) -> None:
        if (follower := self._some(lambda each: each.follows)) and follower.follows:
            self._reports.append((*follower.follows, follower.id, len(follower.log)))

    def _deliver(self) -> None:
        if not self._reports:
            return
        report = self._reports.pop(self._chance.randrange(len(self._reports)))
        id_, epoch, sender, end = report
        term = self._replicas[id_].term
        if term is None:
            if self._without == "keep connections":
                self._reports.append(report)  # the connection is there for the next term
        elif term.epoch == epoch or self._without == "keep connections":
            term.reports[sender] = max(end, term.reports.get(sender, 0))

    def _acknowledge(self) -> None:
        replica, term = self._some_leader()
        if term is None:
            return
        waited_for = term.required - {replica.id}
        if self._without == "ack alone":
            waited_for = frozenset()
        elif self._without == "count who reported":
            waited_for &= term.reports.keys()
        end = min((term.reports.get(id_, 0) for id_ in waited_for), default=len(replica.log))
        end = min(end, len(replica.log))
        term.acked = max(term.acked, end)
        before = self.acked[:end]
        if replica.log[: len(before)] != before:
            raise Broken(f"{replica.id} acknowledged something else")
        self.acked += replica.log[len(self.acked) : end]

    # --- who leads

    def _expire(self) -> None:
        """The coordinator gives the leader up; who leads need not know."""
        self._leader = None

    def _notice(self) -> None:
        replica, term = self._some_leader()
        if term is not None and (self._leader != replica.id or self._epoch != term.epoch):
            replica.term = None

    def _stand(self) -> None:
        candidate = self._some(lambda each: not each.term and not each.won)
        if self._leader is not None or candidate is None:
            return
        if candidate.id not in self._in_sync and self._without != "anybody stands":
            return
        if self._without != "stand before closing":
            candidate.follows = None
        present = {id_ for id_ in self._in_sync if self._chance.random() < 0.8}
        self._in_sync = frozenset(present | {candidate.id})
        self._set_version += 1
        self._epoch += 1
        self._leader = candidate.id
        self.elections += 1
        candidate.won = Term(self._epoch, self._set_version, self._in_sync, self._in_sync)

    def _promote(self) -> None:
        if (replica := self._some(lambda each: each.won)) and replica.won:
            if self._without != "stand before closing":
                assert replica.follows is None
            replica.term, replica.won = replica.won, None
            replica.joined = max(replica.joined, replica.term.epoch)
            if self._without != "grow below the epoch":
                replica.term.acked = len(replica.log)
            self._serial += 1
            replica.log.append((replica.term.epoch, self._serial))

    # --- the in-sync set

    def _begin_change(self) -> None:
        replica, term = self._some_leader()
        if term is None or term.late is not None:
            return
        id_ = self._chance.choice([each.id for each in self._replicas if each is not replica])
        if id_ in term.in_sync:
            if self._without == "shrink locally first":
                term.required -= {id_}
            else:
                self._change(term, term.in_sync - {id_})
        elif self._without == "grow in the set only":
            if term.reports.get(id_, 0) >= term.acked:
                self._change(term, term.in_sync | {id_})
        elif term.growing is None and id_ in term.reports:
            term.growing = id_
            term.required |= {id_}

    def _end_change(self) -> None:
        """The other half of what was begun: the set after the growth, the leader after the set."""
        _, term = self._some_leader()
        if term is None:
            return
        if term.late is not None:
            late, term.late = term.late, None
            late()
        elif (id_ := term.growing) is not None:
            if term.reports.get(id_, 0) >= term.acked:
                term.growing = None
                self._change(term, term.in_sync | {id_})
        elif self._without == "shrink locally first" and term.required < term.in_sync:
            self._change(term, term.required)

    def _change(self, term: Term, in_sync: frozenset[int]) -> None:
        if self._without == "shrink without epoch" and in_sync < term.in_sync:
            in_sync = self._in_sync - (term.in_sync - in_sync)  # read anew, and written
            if not in_sync:
                return
        elif (self._epoch, self._set_version) != (term.epoch, term.set_version):
            return  # fenced
        self._in_sync = in_sync
        self._set_version += 1
        version = self._set_version

        def done() -> None:
            term.in_sync = term.required = in_sync
            if term.growing is not None and self._without != "forget what is pending":
                term.required |= {term.growing}
            term.set_version = version

        term.late = done

    def _some_leader(self) -> tuple[Replica, Term | None]:
        replica = self._some(lambda each: each.term) or self._replicas[0]
        return replica, replica.term

    def _some(self, fits: Callable[[Replica], object]) -> Replica | None:
        fitting = [each for each in self._replicas if fits(each)]
        return self._chance.choice(fitting) if fitting else None
