"""Where reads begin and end."""

from __future__ import annotations

import json

import pytest
from tests.pipeline.support.fake_offsets import FakePlaces, queue

from rocketpipe.pipeline.options.offset_limits import OffsetLimit
from rocketpipe.pipeline.options.text import EARLIEST, LATEST, OptionError
from rocketpipe.pipeline.planning.offsets import StreamOffset

PLACES = FakePlaces({"orders/a/0": (3, 9), "orders/a/1": (0, 4), "orders/b/0": (0, 0)})
QUEUES = sorted(PLACES.held)


def resolved(edge: OffsetLimit) -> list[int]:
    found = edge.resolve(PLACES, QUEUES, PLACES.ends(QUEUES))
    return [found[each] for each in QUEUES]


def test_words_stand_for_the_ends() -> None:
    assert resolved(OffsetLimit.parse("opt", "Earliest", default=EARLIEST)) == [3, 0, 0]
    assert resolved(OffsetLimit.parse("opt", "latest", default=EARLIEST)) == [9, 4, 0]


def test_offsets_are_taken_as_they_are_and_the_rest_by_default() -> None:
    text = '{"orders": {"a": {"0": 7, "1": -1}}}'
    assert resolved(OffsetLimit.parse("opt", text, default=EARLIEST)) == [7, 4, 0]
    assert resolved(OffsetLimit.parse("opt", '{"orders": {"a": {"1": -2}}}', default=LATEST)) == [
        9,
        0,
        0,
    ]


def test_what_a_query_kept_as_its_offset_is_taken() -> None:
    kept = json.dumps(StreamOffset({queue("orders/a/0"): 5}).to_json())  # type: ignore[dict-item]
    assert resolved(OffsetLimit.parse("opt", kept, default=EARLIEST)) == [5, 0, 0]


def test_a_time_is_looked_up_in_each_queue() -> None:
    assert resolved(OffsetLimit(EARLIEST, timestamp_ms=3500)) == [4, 4, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("newest", "give earliest, latest or JSON"),
        ("{", "is no JSON"),
        ('{"orders": 3}', "has 3 for 'orders'"),
        ('{"orders": {"a": [1]}}', "has \\[1\\] for 'a'"),
        ('{"orders": {"a": {"x": 1}}}', "queues have numbers"),
        ('{"orders": {"a": {"0": -3}}}', "-2 for the earliest"),
        ('{"orders": {"a": {"0": "7"}}}', "give an offset"),
        ('{"orders": {"a": {"0": true}}}', "give an offset"),
    ],
)
def test_wrong_text_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        OffsetLimit.parse("startingOffsets", text, default=EARLIEST)


def test_offsets_of_queues_that_are_not_read_are_refused() -> None:
    edge = OffsetLimit.parse("startingOffsets", '{"orders": {"c": {"0": 1}}}', default=EARLIEST)
    with pytest.raises(OptionError, match="queue 0 of 'orders' on broker 'c'"):
        edge.check_known("startingOffsets", QUEUES)
