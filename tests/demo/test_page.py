"""The report as a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from demo.page import delays_by_hour, lags, rates, rejections, throughput, write_page
from demo.proof import prove
from tests.demo.support.staged import staged

from demo import page
from rocketpipe.jobs.plots import Mark

GOOD = [("good", "0", "lost"), ("good", "0", "twice")]


def test_the_page_has_it_all_and_needs_nothing_else(tmp_path: Path) -> None:
    facts, run = staged(tmp_path)
    write_page(tmp_path / "report.html", run, prove(facts, run.evidence), 2.0)
    text = (tmp_path / "report.html").read_text()
    assert "<h1>Two kills, and not one flight lost</h1>" in text
    tiles = re.findall(r'class="tile (\w*)"><b>([\d,]+)</b><span>(\w+)', text)
    assert tiles == [("", "40", "sent"), ("kill", "2", "kills"), *GOOD]
    assert "broker killed" in text
    assert "a pass of the pipeline failed: a Python worker was ended" in text
    assert "ali-ons received 10 flights" in text
    assert text.count("<svg") == 5
    assert not re.search(r"https?://|<script|<link|src=", text)
    assert "prefers-color-scheme: dark" in text


def test_a_run_that_failed_says_so(tmp_path: Path) -> None:
    facts, run = staged(tmp_path)
    run.evidence.in_topic -= 1
    text = page.page(run, prove(facts, run.evidence), 2.0)
    assert "<h1 class=bad>Not all of it holds</h1>" in text
    assert 'class="tile bad"><b>1</b><span>lost' in text


def test_a_run_that_saw_nothing_still_has_a_page(tmp_path: Path) -> None:
    facts, run = staged(tmp_path)
    run.watch.samples.clear()
    assert "<svg" in page.page(run, prove(facts, run.evidence), 2.0)


def test_rates_are_taken_where_nothing_is_missing() -> None:
    counts = [(0.0, 0.0), (1.0, 100.0), (2.0, 300.0), (20.0, 1000.0), (21.0, 1000.0)]
    outage = Mark(3.0, "broker killed", 19.0, is_blind=True)
    before, after = [(0.0, 100.0), (1.0, 100.0), (2.0, 150.0)], [(20.0, 0.0), (21.0, 0.0)]
    assert rates(counts, [outage]) == before + after
    slow = rates(counts, [Mark(3.0, "Spark killed", 19.0)])
    assert [at for at, _ in slow] == [0.0, 1.0, 2.0, 20.0, 21.0]


def test_a_group_has_one_colour_in_all_plots(tmp_path: Path) -> None:
    _, run = staged(tmp_path)
    behind = {series.name: series.colour for series in lags(run.watch)}
    read = {series.name: series.colour for series in throughput(run.watch)}
    assert read == {"stored": 0} | {f"read by {name}": colour for name, colour in behind.items()}


def test_a_group_that_filters_is_not_credited_with_what_it_passed_over(tmp_path: Path) -> None:
    _, run = staged(tmp_path)
    read = {series.name: series.points for series in throughput(run.watch)}
    assert read["stored"][1] == (2.0, 10.0)
    assert read["read by followers"][1] == (2.0, 9.0)


def test_rejections_are_counted_up_to_each_look(tmp_path: Path) -> None:
    _, run = staged(tmp_path)
    start = run.watch._began
    run.evidence.departures.moments = [(start + 1.5, 0), (start + 2.5, 1), (start + 9.5, 0)]
    first, second, third, dead = rejections(run)
    assert first.points == [(1, 0), (2, 1), (3, 1), (9, 1), (10, 2)]
    assert second.points[-1] == (10, 1)
    assert third.points[-1] == (10, 0)
    assert dead.points[-1] == (10, 10)


def test_delays_are_means_by_the_hour_where_the_flights_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "FEWEST_FLIGHTS", 1)
    facts, run = staged(tmp_path)
    means, zone = delays_by_hour(run.evidence.windows)
    window = facts.windows["UA", "2013-01-01T12:00:00Z"]
    hour = 7 if zone in ("New York", "UTC−5") else 12
    assert means["UA", hour] == window.delay_minutes / window.departed
