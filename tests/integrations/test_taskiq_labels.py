"""What labels of a task mean, and how they are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from taskiq.labels import prepare_label

from rocketpipe.integrations.taskiq_labels import TaskOptions

MOMENT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
MOMENT_MS = int(MOMENT.timestamp() * 1000)


def sent(**labels: object) -> dict[str, str]:
    """Labels as taskiq hands them on."""
    return {name: prepare_label(value)[0] for name, value in labels.items()}


def test_labels_say_how_a_task_is_delivered() -> None:
    assert TaskOptions.of(sent(other="x")) == TaskOptions()
    labels = sent(queue="mail", priority=2, delay=1.5, timeout=3)
    assert TaskOptions.of(labels) == TaskOptions(queue="mail", priority=2, delay_ms=1500)
    assert TaskOptions.of(sent(order_key=17)).order_key == "17"
    for moment in (MOMENT, MOMENT_MS, MOMENT.isoformat()):
        assert TaskOptions.of(sent(deliver_at=moment)).deliver_at_ms == MOMENT_MS
        assert TaskOptions.of({"deliver_at": moment}).deliver_at_ms == MOMENT_MS


def test_none_takes_a_label_away() -> None:
    labels = dict.fromkeys(("queue", "priority", "order_key", "delay", "deliver_at"))
    assert TaskOptions.of(sent(**labels)) == TaskOptions()
    assert TaskOptions.of(labels) == TaskOptions()


def test_the_later_of_two_moments_counts() -> None:
    assert TaskOptions().due_ms(1000) is None
    assert TaskOptions(delay_ms=0).due_ms(1000) is None
    assert TaskOptions(deliver_at_ms=900).due_ms(1000) is None
    assert TaskOptions(deliver_at_ms=1100).due_ms(1000) == 1100
    assert TaskOptions(deliver_at_ms=1100, delay_ms=500).due_ms(1000) == 1500
    assert TaskOptions(deliver_at_ms=900, delay_ms=500).due_ms(1000) == 1500


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"delay": timedelta(seconds=5)}, r"label 'delay'.*total_seconds\(\)"),
        ({"delay": -1}, "label 'delay'.*0 or more"),
        ({"delay": float("nan")}, "label 'delay'"),
        ({"delay": float("inf")}, "label 'delay'"),
        ({"delay": True}, "label 'delay'"),
        ({"deliver_at": MOMENT.replace(tzinfo=None)}, "label 'deliver_at'.*no zone"),
        ({"deliver_at": "tomorrow"}, "label 'deliver_at'.*no moment"),
        ({"deliver_at": -5}, "label 'deliver_at': -5"),
        ({"deliver_at": 10**20}, "label 'deliver_at'"),
        ({"priority": "high"}, "label 'priority'.*no whole number"),
        ({"priority": -1}, "label 'priority'.*negative"),
        ({"order_key": " "}, "label 'order_key'.*blank"),
        ({"queue": ""}, "label 'queue'.*blank"),
        ({"order_key": "a", "priority": 1}, "give one of the two"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(
    labels: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        TaskOptions.of(sent(**labels))
