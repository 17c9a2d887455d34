"""The proof: it holds for a run that went well, and for no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from demo.proof import Evidence, Proof, Stage, prove
from tests.demo.support.staged import log_queue, staged


def failing(proof: Proof) -> set[str]:
    stages = {stage.name for stage in proof.stages if not stage.holds}
    return stages | {check.what for check in proof.checks if not check.holds}


def test_a_run_that_went_well_is_proved(tmp_path: Path) -> None:
    facts, run = staged(tmp_path)
    proof = prove(facts, run.evidence)
    assert failing(proof) == set()
    assert proof.holds
    assert {stage.lost for stage in proof.stages} == {0}
    assert {stage.twice for stage in proof.stages} == {0}


def test_nothing_is_proved_without_stages() -> None:
    assert not Proof().holds


def lose_a_row(evidence: Evidence) -> None:
    evidence.raw = evidence.raw.slice(1)


def write_a_row_twice(evidence: Evidence) -> None:
    evidence.raw = pa.concat_tables([evidence.raw, evidence.raw.slice(0, 1)])


def store_one_twice(evidence: Evidence) -> None:
    evidence.in_topic += 1


def skew_a_window(evidence: Evidence) -> None:
    columns = evidence.windows.to_pydict()
    columns["delay_minutes"][0] += 1
    evidence.windows = pa.table(columns, schema=evidence.windows.schema)


def lose_a_window(evidence: Evidence) -> None:
    evidence.windows = evidence.windows.slice(1)


def lose_a_letter(evidence: Evidence) -> None:
    evidence.letters = evidence.letters.slice(1)


def break_order(evidence: Evidence) -> None:
    evidence.followers.breaches += 1


def call_early(evidence: Evidence) -> None:
    evidence.calls.note(0, due_ms=10_000, now_ms=1)


def never_kill(evidence: Evidence) -> None:
    evidence.broker_kills = 0


def log_change(**changes: int) -> Callable[[Evidence], None]:
    def change(evidence: Evidence) -> None:
        evidence.log["queues"][0].update(changes)

    change.__name__ = "_".join(changes)
    return change


def take_back(evidence: Evidence) -> None:
    evidence.taken_back += 1


def no_log(evidence: Evidence) -> None:
    evidence.log = {"queues": [], "worst": []}


RAW = "table of flights"
BY_CARRIER = "flights and miles by carrier are those of the file"
WINDOWS = "delays by carrier and hour are those of the file"
LETTERS = "dead letters by carrier are the cancelled flights of the file"
FROM_LOG = "read from the log, broker down"
LOG = "the log, read while the broker was down, has each queue's flights in order"


@pytest.mark.parametrize(
    ("fault", "shows"),
    [
        (lose_a_row, {RAW, BY_CARRIER}),
        (write_a_row_twice, {RAW, BY_CARRIER}),
        (store_one_twice, {"stored in the topic"}),
        (skew_a_window, {WINDOWS}),
        (lose_a_window, {WINDOWS, "table of hourly delays"}),
        (lose_a_letter, {"table of dead letters", LETTERS}),
        (break_order, {"order per aircraft held"}),
        (call_early, {"no boarding call came early"}),
        (never_kill, {"broker killed and restarted"}),
        (log_change(ids=-1), {LOG}),
        (log_change(first=1), {LOG}),
        (log_change(last=99), {LOG, FROM_LOG}),
        (take_back, {FROM_LOG}),
        (no_log, {LOG}),
    ],
)
def test_a_fault_shows_where_it_belongs(fault: Any, shows: set[str], tmp_path: Path) -> None:
    facts, run = staged(tmp_path)
    fault(run.evidence)
    proof = prove(facts, run.evidence)
    assert failing(proof) == shows
    assert not proof.holds


def test_what_came_again_to_a_consumer_is_counted_and_no_fault(tmp_path: Path) -> None:
    facts, run = staged(tmp_path)
    run.evidence.followers.note("N1", 0)
    run.evidence.followers.note("N1", 0)
    proof = prove(facts, run.evidence)
    assert proof.holds
    stage = next(stage for stage in proof.stages if stage.name.startswith("followed"))
    assert (stage.found, stage.twice) == (40, 1)
    assert stage.note.startswith("1 flight came again, 2 times in all, after")


def hide_the_end(evidence: Evidence) -> list[int]:
    """The log shows all but the last two flights of its first queue, which are given."""
    queue = evidence.log["queues"][0]
    plan = evidence.plans[queue["queue_id"]]
    queue.update(log_queue(queue["queue_id"], plan[:-2]))
    return [flight.id for flight in plan[-2:]]


def from_log(proof: Proof) -> Stage:
    return next(stage for stage in proof.stages if stage.name == FROM_LOG)


def test_what_was_acknowledged_and_showed_later_is_told_apart_from_what_was_lost(
    tmp_path: Path,
) -> None:
    facts, run = staged(tmp_path)
    hidden = hide_the_end(run.evidence)
    proof = prove(facts, run.evidence)
    stage = from_log(proof)
    assert (stage.expected, stage.found, stage.not_yet, stage.lost) == (40, 38, 2, 0)
    assert "did not cover 2" in stage.note
    assert proof.holds
    kept = [row for row in run.evidence.raw.to_pylist() if row["id"] != hidden[0]]
    run.evidence.raw = pa.Table.from_pylist(kept, schema=run.evidence.raw.schema)
    stage = from_log(prove(facts, run.evidence))
    assert (stage.expected, stage.found, stage.not_yet, stage.lost) == (40, 38, 1, 1)
    assert not stage.holds


def test_too_many_are_as_wrong_as_too_few() -> None:
    assert not Stage("s", expected=2, found=3, lost=0, twice=0, may_repeat=True).holds
    assert not Stage("s", expected=2, found=1, lost=1, twice=0, may_repeat=True).holds
    assert Stage("s", expected=2, found=2, lost=0, twice=1, may_repeat=True).holds
    assert not Stage("s", expected=2, found=2, lost=0, twice=1).holds
