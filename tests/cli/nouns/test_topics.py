"""``rocketpipe topic`` against real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]


def test_a_topic_from_its_creation_to_its_end(command: Command, answer: Answer) -> None:
    made = answer("topic", "create", "orders", "--queues", "2", "--type", "NORMAL")
    assert [queue["queue"] for queue in made["queues"]] == [0, 1]
    assert made["settings"][0]["attributes"] == {"message.type": "NORMAL"}
    assert "exists" in command("topic", "create", "orders", code=1)
    command("topic", "create", "orders", "--if-missing")
    assert {"topic": "orders"} in answer("topic", "list")
    changed = answer("topic", "update", "orders", "--read-queues", "4", "--write-queues", "3")
    assert (changed["settings"][0]["read_queues"], changed["settings"][0]["write_queues"]) == (4, 3)
    shown = {row["topic"]: row for row in answer("topic", "list", "--stats")}
    assert shown["orders"]["messages"] == 0
    assert answer("topic", "delete", "orders", "--dry-run")["would_delete"] == "orders"
    assert "--yes" in command("topic", "delete", "orders", code=1)
    assert answer("topic", "delete", "orders", "--yes")["deleted"] == "orders"
    assert {"topic": "orders"} not in answer("topic", "list")
    assert "orders" in command("topic", "show", "orders", code=1)


def test_a_table_is_for_reading(command: Command) -> None:
    command("topic", "create", "plain", "--queues", "1")
    assert command("topic", "show", "plain") == (
        "BROKER    READ QUEUES  WRITE QUEUES  PERM  ORDERED  ATTRIBUTES\n"
        "broker-a            1             1  rw    no       -\n"
        "\n"
        "BROKER    QUEUE  FIRST  END  MESSAGES  LAST STORED\n"
        "broker-a      0      0    0         0  -\n"
    )


def test_what_is_said_wrongly_is_told_with_the_way_to_say_it(command: Command) -> None:
    error = command("topic", "create", "x", "--attribute", "no-value", code=2)
    assert error == (
        "rocketpipe topic create: --attribute: 'no-value' has no value: write NAME=VALUE\n"
    )


def test_what_is_no_number_of_queues_and_no_cluster_is_refused(
    command: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command("topic", "create", "none", "--queues", "0")
    assert ended.value.code == 2
    assert "1 or more is expected" in capsys.readouterr().err
    assert "no cluster 'nothing'" in command("topic", "list", "--cluster", "nothing", code=1)


def test_queues_may_be_counted_in_all(command: Command, answer: Answer) -> None:
    made = answer("topic", "create", "counted", "--queues-in-all", "3")
    assert len(made["queues"]) == 3
