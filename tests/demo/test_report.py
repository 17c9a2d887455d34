"""The verdict that decides the demo's exit code."""

from __future__ import annotations

from collections import Counter

import pytest
from demo.report import report

SENT = Counter({"Lima": 7, "Oslo": 3})


def test_equal_counts_are_shown_beside_each_other_and_pass(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report(10, SENT, SENT.copy(), SENT.copy()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line] == [
        ["key", "sent", "consumed", "Spark"],
        ["Lima", "7", "7", "7"],
        ["Oslo", "3", "3", "3"],
        ["total", "10", "10", "10"],
        ["Every", "count", "agrees", "with", "what", "was", "sent."],
    ]


@pytest.mark.parametrize(
    ("consumed", "counted", "marked"),
    [
        (Counter({"Lima": 7, "Oslo": 2}), SENT, "Oslo"),
        (SENT, Counter({"Lima": 8, "Oslo": 3}), "Lima"),
        (SENT, Counter({"Lima": 7}), "Oslo"),
        (SENT, SENT + Counter({"Rome": 1}), "Rome"),
        # The totals agree and the keys do not.
        (SENT, Counter({"Lima": 6, "Oslo": 4}), "Lima"),
    ],
)
def test_counts_that_differ_are_marked_and_fail(
    capsys: pytest.CaptureFixture[str],
    consumed: Counter[str],
    counted: Counter[str],
    marked: str,
) -> None:
    assert report(10, SENT, consumed, counted) == 1
    said = capsys.readouterr().out
    assert any(line.split()[0] == marked for line in said.splitlines() if "← differs" in line)
    assert "The counts differ" in said


def test_messages_that_were_never_sent_fail_though_all_counts_agree(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report(11, SENT, SENT.copy(), SENT.copy()) == 1
    assert "11 messages were to be sent, and 10 were" in capsys.readouterr().out
