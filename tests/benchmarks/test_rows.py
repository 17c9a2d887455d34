"""Which rows a report has, and the rate of its streams."""

from __future__ import annotations

import pytest
from benchmarks.report.measuring import DEFAULT_RATE, stream_rate
from benchmarks.report.rows import ROWS, NoSuchRow, choose, log_rows
from benchmarks.report.samples import Samples
from benchmarks.report.targets import TARGETS


def test_names_are_unique_and_loads_are_for_their_part() -> None:
    rows = [*ROWS, *log_rows([1, 10])]
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.load is None or row.load.sync is (row.part == "sync")


def test_patterns_choose_rows_in_the_order_of_the_page() -> None:
    chosen = choose(["pull-*", "send-64x1-*", "log-10"], [*ROWS, *log_rows([1, 10])])
    assert [row.name for row in chosen] == [
        "send-64x1-100",
        "send-64x1-1024",
        "pull-8x1-100",
        "pull-8x1-1024",
        "pull-8x1-8192",
        "log-10",
    ]
    assert choose([], ROWS) == list(ROWS)


def test_a_pattern_that_fits_nothing_is_told_with_those_there_are() -> None:
    with pytest.raises(NoSuchRow, match=r"no row is called 'push-\*'; there are ready"):
        choose(["push-*"], ROWS)


def test_streams_run_at_half_of_apaches_best_single_sends() -> None:
    runs = {
        ("send-64x1-100", "apache"): [{"messages_s": 20_000.0}, {"messages_s": 26_100.0}],
        ("send-16x16-100", "apache"): [{"messages_s": 90_000.0}],
        ("send-64x1-100", "redis"): [{"messages_s": 99_000.0}],
    }
    assert stream_rate(runs) == 13_000
    assert stream_rate({}) == DEFAULT_RATE


def test_targets_ask_for_rows_that_there_are() -> None:
    asked = set()

    class Asked(Samples):
        def ratio(self, row: str, mine: str, other: str, figure: str) -> float | None:
            asked.add(row)
            return None

        def median(self, row: str, peer: str, figure: str) -> float | None:
            asked.add(row)
            return None

    samples = Asked(machine="", begun="", options={})
    assert {target.verdict(samples) for target in TARGETS} == {"not measured"}
    assert asked <= {row.name for row in ROWS}
    assert len(asked) == 9
