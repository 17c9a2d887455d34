"""What jobs are told."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.jobs.options import OPTIONS, JobOptions, options_of


def test_every_option_is_told_in_words() -> None:
    assert set(OPTIONS) == {each.name for each in fields(JobOptions)}


def test_a_job_is_told_what_it_takes_and_once() -> None:
    given = {"topics": ["b", "a", "b"], "groups": None, "rebuild": None}
    assert options_of("audit", ("topics",), given).topics == ("b", "a")
    assert options_of("audit", ("topics",), {"topics": "orders"}).topics == ("orders",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ledger": "x"}, "--ledger: is not for job archive, which takes --topic, --format"),
        ({"speed": 3}, "speed: is no option of any job"),
        ({"topics": ["a b"]}, "a b"),
        ({"format": "csv"}, "choose one of delta, parquet"),
    ],
)
def test_what_it_does_not_take_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        options_of("archive", ("topics", "format"), given)
