"""The page of benchmarks from samples that are checked in: figures, ratios, verdicts, plots."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from benchmarks.report.page import plots, write_page
from benchmarks.report.samples import Samples

SAMPLES = Path(__file__).parent / "samples" / "report.json"


@pytest.fixture
def samples() -> Samples:
    return Samples.load(SAMPLES)


def page_of(samples: Samples, directory: Path) -> str:
    write_page(samples, directory / "benchmarks.md")
    return (directory / "benchmarks.md").read_text()


def line(text: str, title: str) -> list[str]:
    """The cells of the first line of a table that begins with the title."""
    (found, *_) = (each for each in text.splitlines() if each.startswith(f"| {title}"))
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_a_row_has_medians_cpu_and_ratios_by_rounds(samples: Samples, tmp_path: Path) -> None:
    cells = line(page_of(samples, tmp_path), "sends, 64 connections, one at a time, 100 B")
    assert cells[1:4] == ["55.0k (14.0)", "80.0k (15.0)", "25.0k (60.0)"]
    # 60/30, 50/25, 55/25 and 90/30, 75/25, 80/25: not the ratios of the medians.
    assert cells[-2:] == ["2.00 (0.23)", "3.00 (0.25)"]


def test_a_row_that_we_lose_stays_in_and_stands_out(samples: Samples, tmp_path: Path) -> None:
    cells = line(page_of(samples, tmp_path), "batches of 32, 16 connections, 100 B")
    assert cells[-2:] == ["**0.50** (1.00)", "1.25 (0.80)"]


def test_every_target_is_met_missed_by_so_much_or_not_measured(
    samples: Samples, tmp_path: Path
) -> None:
    text = page_of(samples, tmp_path)
    assert line(text, "single sends, 64 connections, 100 B, two brokers")[1:] == [
        "at least 3",
        "3.00",
        "met",
    ]
    assert line(text, "pipelined sends, 100 B, two brokers, by Apache's")[2:] == [
        "3.00",
        "**missed by 25%**",
    ]
    assert line(text, "p99 from sending to receiving, two brokers")[2:] == [
        "1.20",
        "**missed by 20%**",
    ]
    assert line(text, "CPU a single send, 64 connections, 100 B")[2:] == [
        "1.75",
        "**missed by 2.9%**",
    ]
    assert line(text, "pulls of 32, 1 KB, two brokers")[2:] == ["–", "not measured"]


def test_no_figure_where_a_run_failed_and_the_reason_is_told(
    samples: Samples, tmp_path: Path
) -> None:
    text = page_of(samples, tmp_path)
    cells = line(text, "sends, 64 connections, 100 B, 10,000 topics")
    assert cells[1:4] == ["40.0k (25.0)", "no figure", "–"]
    assert 'RocketPipe, two brokers: refused: {"code":1}' in text
    samples.failures["send-64x1-100", "apache"] = "late"
    cells = line(page_of(samples, tmp_path), "sends, 64 connections, one at a time, 100 B")
    assert cells[-2:] == ["–", "–"]


def test_who_was_not_reached_is_said_aloud(samples: Samples, tmp_path: Path) -> None:
    text = page_of(samples, tmp_path)
    assert "**Apache Kafka was not reached**: Maven cannot fetch" in text
    assert "- bare C loop was not asked for." in text


def test_durability_noise_and_spread_are_on_the_page(samples: Samples, tmp_path: Path) -> None:
    text = page_of(samples, tmp_path)
    assert line(text, "NATS JetStream 2.9.10")[1:] == [
        "once the system has it; synced every two minutes",
        "it cannot wait",
    ]
    assert "other programs kept 0.10 cores busy" in text
    assert "21.0 to 22.5 ms of CPU time" in text
    assert "half the range by the median" in text
    assert "quick run" not in text
    assert "The machine was busy" not in text


def test_a_busy_machine_is_told_before_the_verdicts(samples: Samples, tmp_path: Path) -> None:
    for key, runs in samples.runs.items():
        samples.runs[key] = [{**each, "foreign_cores": 1.2} for each in runs]
    before, _, _ = page_of(samples, tmp_path).partition("| single sends")
    assert "**The machine was busy**: other programs had 1.20 cores" in before


def test_recovery_is_told_for_each_gigabyte(samples: Samples, tmp_path: Path) -> None:
    cells = line(page_of(samples, tmp_path), "… more than an empty start")
    assert cells[1:4] == ["0.50", "–", "4.00"]


def test_the_plots_are_pictures_and_the_page_shows_each(samples: Samples, tmp_path: Path) -> None:
    text = page_of(samples, tmp_path)
    drawn = plots(samples)
    assert sorted(drawn) == ["connections", "cpu", "latency", "rates"]
    for name, drawing in drawn.items():
        assert f"(pictures/benchmarks-{name}.svg)" in text
        root = ElementTree.fromstring(drawing)
        assert root.tag.endswith("svg")
        assert (tmp_path / "pictures" / f"benchmarks-{name}.svg").read_text() == drawing


def test_a_page_of_nothing_is_still_a_page(tmp_path: Path) -> None:
    options = {"seconds": 1, "rounds": 1, "quick": True, "pinned": False}
    text = page_of(Samples(machine="a machine", begun="today", options=options), tmp_path)
    assert "A quick run" in text
    assert "not measured" in text


def test_samples_come_back_as_they_were_saved(samples: Samples, tmp_path: Path) -> None:
    samples.save(tmp_path / "again.json")
    assert Samples.load(tmp_path / "again.json") == samples
    assert (tmp_path / "again.json").read_text() == SAMPLES.read_text()


def test_other_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="no samples of this report"):
        Samples.load(tmp_path / "other.json")
