"""What a stream does about a broker that is no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.planning.drained import DrainedBrokers
from rocketpipe.pipeline.planning.gaps import MessagesGone
from rocketpipe.pipeline.planning.offset_reader import OffsetReader


def queue(broker: str, number: int = 0) -> MessageQueue:
    return MessageQueue(topic="orders", broker_name=broker, queue_id=number)


HERE, GONE, OTHER = queue("here"), queue("gone"), queue("gone", 1)
READ = {HERE: QueueOffset(5), GONE: QueueOffset(7), OTHER: QueueOffset(2)}


class Ends:
    """Says where the queues of brokers ended that were drained."""

    def __init__(self, **ends: int) -> None:
        self._ends = ends
        self.asked = 0

    def drained(self, queues: Sequence[MessageQueue]) -> Mapping[MessageQueue, QueueOffset]:
        self.asked += 1
        return {
            each: QueueOffset(self._ends[each.broker_name])
            for each in queues
            if each.broker_name in self._ends
        }


def places(ends: Ends) -> OffsetReader:
    return cast("OffsetReader", ends)


def test_one_that_was_read_to_the_end_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    brokers, ends = DrainedBrokers("fail"), Ends(gone=2)
    for _ in range(3):
        assert brokers.skipped(places(ends), READ, [HERE]) == {}
    assert caplog.messages == ["broker was drained: all of it had been read broker=gone unread=0"]
    assert ends.asked == 1


def test_what_was_not_read_is_a_gap() -> None:
    with pytest.raises(MessagesGone, match=r"'gone' was drained before messages 7 to 8 of its q"):
        DrainedBrokers("fail").skipped(places(Ends(gone=9)), READ, [HERE])


def test_what_may_be_skipped_is_skipped_and_said(caplog: pytest.LogCaptureFixture) -> None:
    found = DrainedBrokers("skip").skipped(places(Ends(gone=9)), READ, [HERE])
    assert found == {GONE: 9, OTHER: 9}
    assert caplog.messages[-1] == (
        "broker was drained: messages of it were not read broker=gone unread=9"
    )


def test_one_that_is_away_may_come_back(caplog: pytest.LogCaptureFixture) -> None:
    brokers, ends = DrainedBrokers("fail"), Ends()
    assert brokers.skipped(places(ends), READ, [HERE, GONE]) == {}
    assert ends.asked == 0
    assert brokers.skipped(places(ends), READ, [HERE]) == {}
    assert "its queues wait for it broker=gone" in caplog.text
