"""``rocketpipe group`` against real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]


def test_a_group_and_how_far_behind_it_is(command: Command, answer: Answer) -> None:
    made = answer("group", "create", "shop", "--max-attempts", "3")
    assert made["settings"][0]["max_attempts"] == 3
    assert made["members"] == []
    assert answer("group", "create", "shop", "--if-missing") == made
    new = {"group": "shop", "members": 0, "topics": 0, "lag": None}
    assert new in answer("group", "list")
    command("topic", "create", "orders", "-q", "1")
    for number in range(3):
        command("message", "send", "orders", f"order {number}")
    assert answer("group", "lag", "shop") == []
    assert "nothing anywhere" in command("group", "lag", "shop")
    command("offsets", "reset", "shop", "orders", "--to", "1", "--yes")
    (row,) = answer("group", "lag", "shop")
    assert (row["topic"], row["committed"], row["end"], row["lag"]) == ("orders", 1, 3, 2)
    assert row["lag_since"]
    assert answer("group", "lag", "shop", "--summary") == [
        {"topic": "orders", "queues": 1, "lag": 2}
    ]
    command("topic", "create", "%RETRY%shop", "-q", "1")
    assert len(answer("group", "lag", "shop")) == 1, "there are no retries yet"
    command("message", "send", "%RETRY%shop", "failed once")
    retries, _ = answer("group", "lag", "shop")
    assert (retries["topic"], retries["committed"], retries["lag"]) == ("%RETRY%shop", None, 1)
    assert {"group": "shop", "members": 0, "topics": 1, "lag": 3} in answer("group", "list")
    assert "--yes" in command("group", "delete", "shop", code=1)
    command("group", "delete", "shop", "--offsets", "--yes")
    assert "shop" in command("group", "show", "shop", code=1)
