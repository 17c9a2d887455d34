"""Which loads there are, and which of them a command line names."""

from __future__ import annotations

import pytest
from benchmarks.broker.scenarios import SCENARIOS, NoSuchScenario, choose


def names(*patterns: str, quick: bool = False) -> list[str]:
    return [scenario.name for scenario in choose(patterns, quick=quick)]


def test_every_scenario_has_a_name_of_its_own() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
    assert len({scenario.title for scenario in SCENARIOS}) == len(SCENARIOS)


def test_without_a_pattern_all_are_meant() -> None:
    assert names() == [scenario.name for scenario in SCENARIOS]


def test_a_quick_run_has_a_few_of_every_kind() -> None:
    chosen = choose([], quick=True)
    assert len(chosen) < len(SCENARIOS) / 2
    assert {scenario.kind for scenario in chosen} == {"send", "batch", "pull"}
    assert {scenario.sync for scenario in chosen} == {True, False}


def test_a_pattern_names_scenarios_in_a_quick_run_too() -> None:
    assert names("send-64x1-*") == ["send-64x1-100", "send-64x1-1024"]
    assert names("send-1x256-100", quick=True) == ["send-1x256-100"]


def test_a_pattern_that_fits_nothing_is_told_what_there_is() -> None:
    with pytest.raises(NoSuchScenario, match=r"'sned-\*'; there are send-1x1-100, "):
        names("send-*", "sned-*")
