"""A cluster whose leader is killed while it is sent to, and what is told of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from demo.data import flights
from demo.page import acknowledgements, page
from demo.proof import prove
from demo.report import figures, takeover_line
from demo.takeover import Takeover, take_over
from tests.demo.support.staged import some_rows, staged


def survived() -> Takeover:
    """A run of ten sends, with four seconds of nothing behind the kill."""
    moments = [0.1, 0.2, 0.3, 0.4, 0.5, 4.5, 4.6, 4.7, 4.8, 4.9]
    return Takeover(
        acknowledged=[(at, number) for number, at in enumerate(moments)],
        read=Counter(range(11)),
        killed="broker-a-1",
        killed_at_s=0.45,
        leads="broker-a-3",
    )


def test_how_long_sends_waited_counts_from_the_kill_on() -> None:
    takeover = survived()
    assert takeover.happened
    assert takeover.pause_s == pytest.approx(4.0)
    takeover.acknowledged.insert(0, (-9.0, 99))
    assert takeover.pause_s == pytest.approx(4.0)


def test_what_was_acknowledged_and_is_not_there_is_lost() -> None:
    takeover = survived()
    assert (takeover.lost, takeover.twice) == (0, 0)
    del takeover.read[3]
    takeover.read[4] = 2
    takeover.read[10] = 2  # which nobody was promised
    assert (takeover.lost, takeover.twice) == (1, 1)


def test_it_is_a_row_and_a_check_of_the_proof_and_a_section_of_the_report(tmp_path: Path) -> None:
    facts, run = staged(tmp_path)
    run.evidence.takeover = takeover = survived()
    proof = prove(facts, run.evidence)
    assert proof.holds
    assert proof.stages[-1].expected == proof.stages[-1].found == 10
    text = page(run, proof, 2.0)
    assert "acknowledged 10, lost 0" in text
    assert "broker-a-1 killed" in text
    assert takeover_line(takeover) in figures(run, 2.0)
    del takeover.read[3]
    assert not prove(facts, run.evidence).holds


def test_a_leader_that_nobody_replaced_fails_the_proof(tmp_path: Path) -> None:
    facts, run = staged(tmp_path)
    run.evidence.takeover = takeover = survived()
    takeover.leads = ""
    assert not prove(facts, run.evidence).holds


def test_where_there_can_be_none_the_reason_is_told_and_the_rest_counts(tmp_path: Path) -> None:
    facts, run = staged(tmp_path)
    run.evidence.takeover = Takeover(trouble="an elected leader needs kazoo")
    proof = prove(facts, run.evidence)
    assert proof.holds
    assert "no leader of several copies was killed: an elected leader needs kazoo" in page(
        run, proof, 2.0
    )


def test_the_pause_is_seen_in_the_plot() -> None:
    points = dict(acknowledgements(survived()).points)
    assert sum(points.values()) * 0.25 == pytest.approx(10)
    assert points[2.125] == 0


async def test_a_cluster_that_cannot_start_is_told_by_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOOKEEPER_JARS", str(tmp_path))
    said: list[str] = []
    found = await take_over(list(flights(some_rows())), tmp_path, said.append)
    assert "ZOOKEEPER_JARS names" in found.trouble
    assert said == [f"no leader is killed: {found.trouble}"]
