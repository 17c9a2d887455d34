"""The checkpoint's JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.support.fake_offsets import queue

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.pipeline.planning.offsets import StreamOffset, UnreadableOffset

NUMBERS = st.dictionaries(
    st.builds("{}/{}/{}".format, st.sampled_from(["a", "b%c"]), st.just("x"), st.integers(0, 9)),
    st.integers(0, 1 << 62),
    max_size=6,
).map(lambda found: {queue(name): QueueOffset(number) for name, number in found.items()})


@given(NUMBERS, NUMBERS, NUMBERS)
def test_what_is_written_is_read(ends: Any, begins: Any, sizes: Any) -> None:
    offset = StreamOffset(ends, begins, sizes)
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_the_form_is_the_documented_one() -> None:
    offset = StreamOffset({queue("orders/broker-a/0"): QueueOffset(42)})
    assert offset.to_json() == {"v": 1, "topics": {"orders": {"broker-a": {"0": 42}}}}


def test_a_batch_is_what_lies_between_and_new_queues_from_where_they_began() -> None:
    start = StreamOffset({queue("a/x/0"): QueueOffset(5), queue("a/x/1"): QueueOffset(5)})
    end = StreamOffset(
        {
            queue("a/x/0"): QueueOffset(9),
            queue("a/x/1"): QueueOffset(5),
            queue("a/x/2"): QueueOffset(4),
        },
        {queue("a/x/2"): QueueOffset(2)},
    )
    found = [(each.queue.queue_id, each.start, each.end) for each in end.since(start)]
    assert found == [(0, 5, 9), (2, 2, 4)]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"v": 2, "topics": {}},
        {"v": 1, "topics": []},
        {"v": 1, "topics": {"a": 3}},
        {"v": 1, "topics": {"a": {"b": {"x": 1}}}},
        {"v": 1, "topics": {"a": {"b": {"0": None}}}},
    ],
)
def test_another_sources_checkpoint_is_refused(value: object) -> None:
    with pytest.raises(UnreadableOffset, match="checkpointLocation"):
        StreamOffset.from_json(value)
