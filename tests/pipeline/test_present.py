"""What the topics hold now: which offsets a read takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.pipeline.planning.gaps import MessagesGone
from rocketpipe.pipeline.planning.offset_reader import Ends, OffsetReader, QueuesUnreachable
from rocketpipe.pipeline.planning.ranges import QueueRange
from rocketpipe.pipeline.present import present_ranges


class Places(OffsetReader):
    """Two queues, of which the first has lost its oldest ten messages; one is stored each ms."""

    def __init__(self, *, is_away: bool = False) -> None:
        self._is_away = is_away

    def topics(self) -> frozenset[str]:
        return frozenset({"orders"})

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        return [MessageQueue(topic=topic, broker_name="a", queue_id=number) for number in range(2)]

    def ends(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, Ends]:
        there = {0: (QueueOffset(10), QueueOffset(100)), 1: (QueueOffset(0), QueueOffset(5))}
        return {each: there[each.queue_id] for each in queues if not self._is_away}

    def at_time(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        least, after = self.ends([queue])[queue]
        return QueueOffset(min(max(timestamp_ms, least), after))


def taken(wanted: RowFilter | None = None, **options: str) -> dict[int, tuple[int, int]]:
    given = ReadOptions.parse({"path": "/store", "subscribe": "orders", **options})
    found: list[QueueRange] = present_ranges(Places(), given, wanted or RowFilter())
    return {each.queue.queue_id: (each.start, each.end) for each in found}


def test_all_of_it_is_taken_that_is_there() -> None:
    assert taken() == {0: (10, 100), 1: (0, 5)}
    assert taken(RowFilter(queue_ids=frozenset({1}))) == {1: (0, 5)}
    assert taken(RowFilter(offsets=(3, 20))) == {0: (10, 20), 1: (3, 5)}
    assert taken(RowFilter(stored_ms=(4, 50))) == {0: (10, 50), 1: (4, 5)}


def test_limits_are_kept_and_what_has_aged_out_is_told() -> None:
    asked = '{"orders": {"a": {"0": 4, "1": 1}}}'
    with pytest.raises(MessagesGone, match=r"no messages 4 to 9 any more \(6 of them\)"):
        taken(startingOffsets=asked)
    assert taken(startingOffsets=asked, onGap="skip") == {0: (10, 100), 1: (1, 5)}
    assert taken(startingTimestamp="30", endingTimestamp="40") == {0: (30, 40)}
    with pytest.raises(OptionError, match="'endingOffsets' has 0 for queue 1"):
        taken(startingOffsets=asked, endingOffsets=asked.replace("1}", "0}"), onGap="skip")


def test_a_queue_that_cannot_be_asked_is_an_error() -> None:
    given = ReadOptions.parse({"path": "/store", "subscribe": "orders"})
    with pytest.raises(QueuesUnreachable, match="2 queues of 'orders'"):
        present_ranges(Places(is_away=True), given, RowFilter())
