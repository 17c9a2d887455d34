"""``rocketpipe bench`` against real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]


def test_what_is_sent_can_be_read_and_both_are_measured(command: Command, answer: Answer) -> None:
    send = ("bench", "produce", "load", "--messages", "40", "--size", "10", "--window", "4")
    assert "--yes" in command(*send, code=1)
    assert {"topic": "load"} not in answer("topic", "list")
    sent = answer(*send, "--queues", "2", "--yes")
    assert (sent["messages"], sent["bytes"], sent["errors"]) == (40, 400, 0)
    assert sent["send_p50_ms"] <= sent["send_p99_ms"] <= sent["send_longest_ms"]
    assert answer(*send, "--batch")["messages"] == 40
    assert len(answer("topic", "show", "load")["queues"]) == 2
    read = answer("bench", "consume", "load")
    assert (read["messages"], read["bytes"]) == (80, 800)
    assert answer("bench", "consume", "load", "--messages", "3")["messages"] == 3
    assert "MESSAGES PER SECOND" in command("bench", "consume", "load")


def test_what_makes_no_sense_is_refused(command: Command) -> None:
    for words in (("produce", "load", "--window", "0"), ("consume", "load", "--messages", "0")):
        with pytest.raises(SystemExit) as ended:
            command("bench", *words)
        assert ended.value.code == 2
    assert "'none'" in command("bench", "consume", "none", code=1)
