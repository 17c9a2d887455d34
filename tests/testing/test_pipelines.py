"""A copy of a pipeline for a test; its runs are in tests/projects/test_running.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.projects import starting
from rocketpipe.testing import Kit, PipelineCopy


def test_a_copy_has_the_definitions_and_none_of_the_state(tmp_path: Path) -> None:
    root = starting.make("shop", tmp_path / "mine")
    (root / "storage" / "tables").mkdir(parents=True)
    copy = PipelineCopy(root / "tests", tmp_path / "scratch", "127.0.0.1:1")
    assert copy.root == tmp_path / "scratch" / "shop"
    assert sorted(place.name for place in copy.root.iterdir()) == [
        ".gitignore",
        "spark-pipeline.yml",
        "transformations",
    ]


@pytest.mark.scenario
def test_all_messages_of_a_topic_are_given(rocketpipe: Kit, tmp_path: Path) -> None:
    root = starting.make("shop", tmp_path / "mine")
    with rocketpipe.blocking.producer() as producer:
        for number in range(9):
            producer.send("dear", b"%d" % number)
    copy = PipelineCopy(root, tmp_path / "scratch", rocketpipe.name_server)
    assert sorted(copy.messages("dear")) == [b"%d" % number for number in range(9)]
    assert len(copy.messages("dear")) == 9
