"""The benchmark's tables: medians, and no figure where a run went wrong."""

from __future__ import annotations

from operator import attrgetter

import pytest
from benchmarks.broker.generator import Sample
from benchmarks.broker.report import Cell, Footprint, Report, short
from benchmarks.broker.scenarios import SCENARIOS
from benchmarks.broker.usage import Memory

SEND, *_ = SCENARIOS


def sample(messages_s: float, cpu_us: float = 10) -> Sample:
    return Sample(messages_s=messages_s, p50_ms=1, p99_ms=2, cpu_us=cpu_us, foreign_cores=0.5)


def report(**cells: Cell) -> Report:
    return Report(
        machine="a machine",
        method="a method.",
        scenarios=[SEND],
        titles={name: name.capitalize() for name in cells},
        cells={(SEND, name): cell for name, cell in cells.items()},
    )


def row(text: str, title: str) -> list[str]:
    """The cells of the first table line that begins with the title."""
    (line, *_) = (line for line in text.splitlines() if line.startswith(f"| {title}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_figure_is_the_median_of_its_runs() -> None:
    cell = Cell([sample(100, 3), sample(900, 1), sample(300, 2)])
    assert cell.median(attrgetter("messages_s")) == 300
    assert cell.median(attrgetter("cpu_us")) == 2
    assert row(report(rocketpipe=cell).markdown(), SEND.title) == [SEND.title, "300 (2.0)"]


def test_one_failed_run_takes_the_figure_away_and_its_reason_is_told() -> None:
    cell = Cell([sample(100), sample(100)], ["refused: no such topic"])
    assert cell.median(attrgetter("messages_s")) is None
    assert cell.spread is None
    text = report(rocketpipe=cell).markdown()
    assert row(text, SEND.title)[1:] == ["failed"]
    assert f"- {SEND.name} against rocketpipe failed: refused: no such topic" in text


def test_what_a_peer_does_not_serve_is_neither_a_figure_nor_a_failure() -> None:
    text = report(redis=Cell()).markdown()
    assert row(text, SEND.title)[1:] == ["–"]
    assert "failed" not in text


def test_ours_is_set_against_apaches_in_rate_and_in_cpu() -> None:
    text = report(rocketpipe=Cell([sample(3000, 5)]), apache=Cell([sample(1500, 20)])).markdown()
    assert row(text, SEND.title)[-1] == "2.00 (0.25)"


def test_ours_is_not_set_against_a_run_that_failed() -> None:
    text = report(rocketpipe=Cell([sample(3000)]), apache=Cell([], ["busy"])).markdown()
    assert row(text, SEND.title)[-1] == "–"


def test_the_spread_is_half_the_range_by_the_median() -> None:
    assert Cell([sample(90), sample(100), sample(130)]).spread == pytest.approx(0.2)
    assert Cell([sample(90)]).spread is None


def test_a_peer_that_was_not_to_be_had_is_named_with_the_reason() -> None:
    found = report(rocketpipe=Cell([sample(1)]))
    found.skipped["nats"] = "no apt-get"
    assert "- nats was left out: no apt-get" in found.markdown()
    assert found.json()["skipped"] == {"nats": "no apt-get"}


def test_every_sample_and_failure_is_in_the_json() -> None:
    found = report(rocketpipe=Cell([sample(1), sample(2)], ["late"])).json()
    (run,) = found["runs"]
    assert run["scenario"] == SEND.name
    assert [each["messages_s"] for each in run["samples"]] == [1, 2]
    assert run["failures"] == ["late"]


def test_memory_is_told_in_megabytes() -> None:
    found = report(rocketpipe=Cell([sample(1)]))
    idle = Memory(resident=50_000_000, peak=60_000_000, anonymous=1)
    end = Memory(resident=70_000_000, peak=80_000_000, anonymous=40_000_000)
    found.footprints["rocketpipe"] = [Footprint(False, 1.5, idle, end)]
    assert row(found.markdown(), "Rocketpipe")[1:] == ["memory", "1.50", "50", "80", "40"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.4, "0"),
        (999, "999"),
        (999.6, "1.00k"),
        (1234, "1.23k"),
        (45_678, "45.7k"),
        (999_400, "999k"),
        (999_900, "1.00M"),
        (1_234_567, "1.23M"),
    ],
)
def test_figures_have_three_digits(number: float, text: str) -> None:
    assert short(number) == text
