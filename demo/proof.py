"""What the run has to show: for each stage how much was expected, found, lost, and came twice.

What is expected comes from the file of flights alone, and where the broker or a leader was killed
from what it had acknowledged by then. Consumers get messages at least once, so
after a kill some may come twice, which is counted and told; the topic and the tables have each
flight exactly once, or the proof fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from demo.data import Facts, Flight, Window
from demo.delaying import BoardingCalls
from demo.following import Followers
from demo.rejecting import RETRIES, Departures
from demo.takeover import Takeover
from demo.tally import Tally
from demo.third_party import CARRIERS, SmallCarriers

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Stage:
    """One row of the proof."""

    name: str
    expected: int
    found: int
    lost: int
    #: How many came more than once.
    twice: int
    #: Acknowledged, and not to be seen at that moment: all of them were later.
    not_yet: int = 0
    #: At least once is what is promised here.
    may_repeat: bool = False
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether all came, nothing else did, and nothing twice that may not."""
        complete = self.lost == 0 and self.found + self.not_yet == self.expected
        return complete and (self.may_repeat or self.twice == 0)


@dataclass(frozen=True, slots=True)
class Check:
    """Something else that has to hold."""

    what: str
    holds: bool
    detail: str = ""


@dataclass(slots=True)
class Proof:
    """All stages and checks of a run."""

    stages: list[Stage] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether all of it holds; there is no proof without stages."""
        parts: list[Stage | Check] = [*self.stages, *self.checks]
        return bool(self.stages) and all(part.holds for part in parts)

    @property
    def lost(self) -> int:
        """How much was lost, of all stages."""
        return sum(stage.lost for stage in self.stages)

    @property
    def twice(self) -> int:
        """How much is there twice where each is promised once."""
        return sum(stage.twice for stage in self.stages if not stage.may_repeat)


@dataclass(slots=True, kw_only=True)
class Evidence:
    """What the run left behind."""

    plans: Sequence[Sequence[Flight]]
    #: Messages in the topic, by its queues' ends.
    in_topic: int
    followers: Followers
    departures: Departures
    calls: BoardingCalls
    small: SmallCarriers
    #: What Spark answered while the broker was down, and how many of each queue's flights were
    #: acknowledged by then.
    log: Mapping[str, Any]
    acknowledged: Sequence[int]
    #: The pipeline's tables: of dead letters, of flights, and of hourly delays.
    letters: pa.Table
    raw: pa.Table
    windows: pa.Table
    broker_kills: int
    spark_kills: int
    #: How many a queue no longer had that it had acknowledged.
    taken_back: int = 0
    #: What became of the cluster whose leader was killed, if there was one.
    takeover: Takeover | None = None

    @property
    def killed(self) -> list[str]:
        """Who was killed, in order."""
        leader = self.takeover is not None and self.takeover.happened
        return ["broker"] * self.broker_kills + ["Spark"] * self.spark_kills + ["leader"] * leader


def prove(facts: Facts, evidence: Evidence) -> Proof:
    """Hold what was found against what the file says."""
    departed = facts.flights - facts.cancelled.total()
    departures, calls = evidence.departures, evidence.calls
    small = evidence.small.tally
    of_small = sum(facts.by_carrier[carrier] for carrier in CARRIERS)
    raw = tally_of(evidence.raw.column("id").to_pylist(), facts.flights)
    letters = tally_of(evidence.letters.column("id").to_pylist(), facts.flights)
    stages = [
        Stage(
            "stored in the topic",
            facts.flights,
            min(evidence.in_topic, facts.flights),
            max(0, facts.flights - evidence.in_topic),
            max(0, evidence.in_topic - facts.flights),
        ),
        _consumed("followed, in order per aircraft", facts.flights, evidence.followers.tally),
        _consumed("taken as departed", departed, departures.accepted),
        *(
            _consumed(f"rejected, attempt {number}", facts.cancelled.total(), tally)
            for number, tally in enumerate(departures.rejected, start=1)
        ),
        _consumed("table of dead letters", facts.cancelled.total(), letters),
        _consumed("boarding calls, delayed", calls.count, calls.tally),
        _consumed("small carriers, with a guest", of_small, small),
        log_stage(evidence, raw),
        _exact("table of flights", facts.flights, raw),
        _windows_stage(facts, evidence.windows),
    ]
    checks = _checks(facts, evidence)
    if evidence.takeover is not None and not evidence.takeover.trouble:
        stages.append(_takeover_stage(evidence.takeover))
        checks.append(_takeover_check(evidence.takeover))
    return Proof(stages, checks)


def _checks(facts: Facts, evidence: Evidence) -> list[Check]:
    followers, calls = evidence.followers, evidence.calls
    by_carrier, miles = _by_carrier(evidence.raw)
    wrong = differing_windows(facts, evidence.windows)
    return [
        Check(
            "order per aircraft held",
            followers.breaches == 0 and followers.aircraft == facts.aircraft,
            f"{followers.aircraft:,} aircraft followed, {followers.breaches} breaches",
        ),
        Check("no boarding call came early", calls.early == 0, f"{calls.early} did"),
        Check(
            "flights and miles by carrier are those of the file",
            by_carrier == facts.by_carrier and miles == facts.miles,
            f"{len(by_carrier)} carriers, {miles.total():,} miles",
        ),
        Check(
            "delays by carrier and hour are those of the file",
            not wrong,
            f"{len(facts.windows):,} windows, {len(wrong)} differ",
        ),
        Check(
            "dead letters by carrier are the cancelled flights of the file",
            letters_by(evidence, "carrier") == facts.cancelled,
            f"{len(facts.cancelled)} carriers, each tried {RETRIES + 1} times",
        ),
        Check(
            "the log, read while the broker was down, has each queue's flights in order",
            not log_faults(evidence.log, evidence.plans),
            "; ".join(log_faults(evidence.log, evidence.plans)),
        ),
        Check("broker killed and restarted", evidence.broker_kills > 0, "by SIGKILL"),
        Check("pipeline and Spark killed and restarted", evidence.spark_kills > 0, "by SIGKILL"),
    ]


def _takeover_stage(takeover: Takeover) -> Stage:
    acknowledged = len(takeover.acknowledged)
    return Stage(
        "acknowledged, over a lost leader",
        acknowledged,
        acknowledged - takeover.lost,
        takeover.lost,
        takeover.twice,
        may_repeat=True,
        note=f"{plural(takeover.twice, 'send')} had no answer when the leader died, and went again"
        if takeover.twice
        else "",
    )


def _takeover_check(takeover: Takeover) -> Check:
    return Check(
        "the leader of three copies was killed, and another took over",
        takeover.happened,
        f"nothing was acknowledged for {takeover.pause_s:.1f} s, {takeover.failed} sends failed",
    )


def letters_by(evidence: Evidence, column: str) -> Counter[str]:
    """How many flights are dead letters, each counted once, by a column of their table."""
    found = evidence.letters.group_by(column).aggregate([("id", "count_distinct")])
    names = found.column(column).to_pylist()
    return Counter(dict(zip(names, found.column("id_count_distinct").to_pylist(), strict=True)))


def plural(count: int, what: str) -> str:
    """So many of something."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def tally_of(ids: Sequence[int], total: int) -> Tally:
    """Count ids that were read from a table."""
    tally = Tally(total)
    for number in ids:
        tally.add(number)
    return tally


def _consumed(name: str, expected: int, tally: Tally) -> Stage:
    return Stage(
        name,
        expected,
        tally.found,
        max(0, expected - tally.found),
        tally.twice(),
        may_repeat=True,
        note=_again(tally),
    )


def _again(tally: Tally) -> str:
    if not tally.again:
        return ""
    more = f", {tally.again:,} times in all" if tally.again > tally.twice() else ""
    return f"{plural(tally.twice(), 'flight')} came again{more}, after a kill or a handover"


def _exact(name: str, expected: int, tally: Tally) -> Stage:
    return Stage(name, expected, tally.found, max(0, expected - tally.found), tally.twice())


def _windows_stage(facts: Facts, windows: pa.Table) -> Stage:
    keys = _windows(windows)
    lost = len(facts.windows.keys() - keys.keys())
    return Stage(
        "table of hourly delays",
        len(facts.windows),
        len(keys),
        lost,
        len(windows) - len(keys),
    )


def log_stage(evidence: Evidence, later: Tally) -> Stage:
    """What the log gave of what was acknowledged when the broker died; ``later`` is the end."""
    queues = evidence.log["queues"]
    shown = {queue["queue_id"]: queue["flights"] for queue in queues}
    found = not_yet = lost = 0
    for number, acknowledged in enumerate(evidence.acknowledged):
        seen = min(shown.get(number, 0), acknowledged)
        unseen = [flight.id for flight in evidence.plans[number][seen:acknowledged]]
        never = later.missing(unseen)
        found += seen
        not_yet += len(unseen) - never
        lost += never
    gaps = sum(queue["last"] + 1 - queue["flights"] for queue in queues)
    return Stage(
        "read from the log, broker down",
        sum(evidence.acknowledged),
        found,
        lost + gaps + evidence.taken_back,
        sum(queue["rows"] - queue["flights"] for queue in queues),
        not_yet=not_yet,
        note=f"the log's last checkpoint did not cover {not_yet:,}: they showed after the restart"
        if not_yet
        else "",
    )


def log_faults(log: Mapping[str, Any], plans: Sequence[Sequence[Flight]]) -> list[str]:
    """Where what the log gave is not the beginning of what each queue was sent."""
    faults = []
    for queue in log["queues"]:
        plan = plans[queue["queue_id"]]
        begun = plan[: queue["rows"]]
        if queue["first"] != 0 or queue["last"] + 1 != queue["rows"]:
            faults.append(f"queue {queue['queue_id']} has gaps")
        elif queue["ids"] != sum(flight.id for flight in begun):
            faults.append(f"queue {queue['queue_id']} has other flights")
    return faults if log["queues"] else ["it gave no rows"]


def differing_windows(facts: Facts, windows: pa.Table) -> list[tuple[str, str]]:
    """The windows that are not as the file says, or that only one of the two has."""
    found = _windows(windows)
    keys = facts.windows.keys() | found.keys()
    return sorted(key for key in keys if facts.windows.get(key) != found.get(key))


def _windows(windows: pa.Table) -> dict[tuple[str, str], Window]:
    return {
        (row["carrier"], f"{row['hour']:%Y-%m-%dT%H:%M:%SZ}"): Window(
            row["flights"], row["departed"], row["delay_minutes"]
        )
        for row in windows.to_pylist()
    }


def _by_carrier(raw: pa.Table) -> tuple[Counter[str], Counter[str]]:
    flights: Counter[str] = Counter()
    miles: Counter[str] = Counter()
    sums = raw.group_by("carrier").aggregate([("id", "count"), ("distance", "sum")])
    for row in sums.to_pylist():
        flights[row["carrier"]] = row["id_count"]
        miles[row["carrier"]] = row["distance_sum"]
    return flights, miles
