"""Any name of a queue is a topic's, of no other queue, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.integrations.kombu.names import Names
from rocketpipe.model.names import check_consumer_group, check_topic

NAMES = Names("kombu", "/")
STAGING = Names("kombu", "staging")


@pytest.mark.parametrize(
    ("queue", "step", "topic"),
    [
        ("celery", 0, "kombu-celery"),
        ("celery", 6, "kombu-celery_p6"),
        ("my_queue.eu", 0, "kombu-my__queue_2eeu"),
        ("w1@host.celery.pidbox", 0, "kombu-w1_40host_2ecelery_2epidbox"),
        ("任务", 0, "kombu-_e4_bb_bb_e5_8a_a1"),
    ],
)
def test_names_are_as_documented(queue: str, step: int, topic: str) -> None:
    assert NAMES.topic(queue, step) == topic
    assert NAMES.queue(topic) == (queue, step)


@given(st.text(min_size=1, max_size=30), st.sampled_from([0, 3, 6, 9]))
def test_every_name_comes_back(queue: str, step: int) -> None:
    for names in (NAMES, STAGING):
        topic = names.topic(queue, step)
        check_topic(topic)
        found = names.queue(topic)
        assert found in ((queue, step), None)
        assert found is not None or "_x" in topic


@given(st.text(max_size=300), st.text(max_size=300))
def test_two_queues_never_share_a_topic(one: str, other: str) -> None:
    for step in (0, 9):
        check_topic(NAMES.topic(one, step))
        assert (NAMES.topic(one, step) == NAMES.topic(other, step)) == (one == other)
    assert NAMES.topic(one) != NAMES.topic(other, 9)
    assert NAMES.topic(one) != NAMES.transient_topic
    assert STAGING.topic(one) != NAMES.topic(other)


def test_virtual_hosts_have_groups_of_their_own() -> None:
    for names in (NAMES, STAGING):
        check_consumer_group(names.group)
        check_consumer_group(names.transient_group)
    assert NAMES.group != STAGING.group
    assert STAGING.queue("kombu-staging_vcelery") == ("celery", 0)
    assert NAMES.queue("kombu-staging_vcelery") is None
    assert NAMES.queue("orders") is None
    with pytest.raises(ValueError, match="too long"):
        Names("kombu", "x" * 100)
