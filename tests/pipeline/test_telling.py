"""What a user hears from a process of Spark's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark import SparkFiles

from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.telling import HIDE_TRACEBACK, is_news, plainly


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have this process look like one that Spark started; gives the application's files."""
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path))
    monkeypatch.setenv(HIDE_TRACEBACK, "")  # put back at the end
    monkeypatch.delenv(HIDE_TRACEBACK)
    return tmp_path


def mistaken() -> None:
    with plainly():
        raise OptionError("topik", "is unknown")


def test_of_a_mistake_spark_is_to_print_the_sentence(worker: Path) -> None:
    with pytest.raises(OptionError):
        mistaken()
    assert os.environ[HIDE_TRACEBACK] == "1"


def test_a_bug_keeps_its_frames(worker: Path) -> None:
    with pytest.raises(KeyError), plainly():
        raise KeyError("lost")
    assert HIDE_TRACEBACK not in os.environ


def test_nothing_changes_in_a_process_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HIDE_TRACEBACK, raising=False)
    with pytest.raises(OptionError):
        mistaken()
    assert HIDE_TRACEBACK not in os.environ


def test_an_application_is_told_once(
    worker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [is_news("direct"), is_news("direct"), is_news("other")] == [True, False, True]
    (tmp_path / "another").mkdir()
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path / "another"))
    assert is_news("direct")


def test_who_cannot_remember_tells_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [is_news("direct"), is_news("direct")] == [True, True]
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", "/nowhere/at/all")
    assert [is_news("direct"), is_news("direct")] == [True, True]
