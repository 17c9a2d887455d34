"""``rocketpipe offsets`` against real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]


def committed(answer: Answer, group: str) -> list[int | None]:
    return [row["committed"] for row in answer("offsets", "show", group, "orders")]


def test_a_group_is_moved_where_it_is_told_and_a_dry_run_moves_nothing(
    command: Command, answer: Answer
) -> None:
    command("topic", "create", "orders", "-q", "2")
    command("group", "create", "shop")
    command("group", "create", "copy")
    for number in range(10):
        # Two keys that go to different queues: each has something to move over.
        command("message", "send", "orders", f"order {number}", "--order-by", "ab"[number % 2])
    ends = [row["end"] for row in answer("offsets", "show", "shop", "orders")]
    assert ends == [5, 5]
    reset = ("offsets", "reset", "shop", "orders", "--to")

    planned = answer(*reset, "latest", "--dry-run")
    assert [row["to"] for row in planned] == ends
    assert committed(answer, "shop") == [None, None]
    assert "nothing was changed" in command(*reset, "latest", "--dry-run")

    answer(*reset, "latest", "--yes")
    assert committed(answer, "shop") == ends
    moved = answer(*reset, "-2", "--queue", "0", "--yes")
    assert [(row["queue"], row["change"]) for row in moved] == [(0, -2)]
    assert committed(answer, "shop") == [ends[0] - 2, ends[1]]
    answer(*reset, "+99", "--yes")
    assert committed(answer, "shop") == ends
    answer(*reset, "2000-01-01T00:00:00Z", "--yes")
    assert committed(answer, "shop") == [0, 0]
    answer(*reset, "3", "--yes")

    answer("offsets", "clone", "shop", "copy", "orders", "--yes")
    assert committed(answer, "copy") == committed(answer, "shop") == [3, 3]
    command("group", "create", "new")
    assert "committed nothing" in command("offsets", "clone", "new", "copy", "orders", code=2)
    assert "is no time" in command(*reset, "soon", "--yes", code=2)
    assert "not confirmed" in command(*reset, "earliest", code=1)


def test_a_group_that_nobody_has_is_a_mistake(command: Callable[..., str]) -> None:
    command("topic", "create", "alone")
    reset = ["offsets", "reset", "nobody", "alone", "--to", "earliest", "--dry-run"]
    assert "no group 'nobody'" in command(*reset, code=1)
