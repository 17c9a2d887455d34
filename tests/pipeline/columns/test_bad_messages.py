"""What becomes of a message that cannot be read, whoever found it."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path

import numpy as np
import pytest

from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.columns.bad_messages import Unreadable, damaged_rows, settle
from rocketpipe.pipeline.columns.rows import UnreadableMessage

QUEUE = MessageQueue(topic="a/b", broker_name="../x", queue_id=3)
BAD = Unreadable(QUEUE, 7, "it is odd", b"bytes")


def test_to_fail_names_the_message_and_the_way_on() -> None:
    with pytest.raises(
        UnreadableMessage, match=r"message 7 in queue 3 .* it is odd; go on"
    ) as told:
        settle(BAD, "fail", None)
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)


@pytest.mark.parametrize("policy", ["null", "skip"])
def test_what_is_passed_over_is_logged(
    policy: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with caplog.at_level(logging.WARNING, "rocketpipe.pipeline"):
        settle(BAD, policy, None)  # type: ignore[arg-type]
    assert f"policy={policy} topic=a/b broker=../x queue=3 offset=7 reason=it is odd" in caplog.text


def test_what_is_kept_aside_stays_inside_its_directory(tmp_path: Path) -> None:
    settle(BAD, "quarantine", tmp_path)
    settle(BAD, "quarantine", tmp_path)
    [directory] = tmp_path.iterdir()
    told, record = sorted(directory.iterdir())
    assert record.read_bytes() == b"bytes"
    assert json.loads(told.read_text()) == {
        "topic": "a/b",
        "broker": "../x",
        "queue_id": 3,
        "queue_offset": 7,
        "reason": "it is odd",
    }


def test_bytes_that_are_no_records_are_told_by_row() -> None:
    found = damaged_rows(bytes(300), np.array([0, 100, 200]), np.array([100, 100, 100]))
    assert sorted(found) == [0, 1, 2]
