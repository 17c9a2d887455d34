"""Failures that pass."""

from __future__ import annotations

import pytest

from rocketpipe.errors import ConnectionLost
from rocketpipe.pipeline.excuses import EXCUSES, excuse


@pytest.mark.parametrize("said", EXCUSES)
def test_what_passes_is_known_by_what_spark_says(said: str) -> None:
    failure = f"[STREAM_FAILED] Query [id = 1] terminated: Traceback …\n{said}: more"
    assert excuse(failure) == EXCUSES[said]


def test_errors_of_ours_are_named_as_they_are_called() -> None:
    assert ConnectionLost.__name__ in EXCUSES


def test_anything_else_is_no_excuse() -> None:
    assert excuse("ValueError: batch 3 has other columns") is None
    assert excuse("None") is None
    assert excuse("java.lang.OutOfMemoryError: Java heap space") is None
