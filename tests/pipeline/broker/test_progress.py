"""What is told of a group."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
from tests.pipeline.support.fake_offsets import queue

from rocketpipe.errors import ConnectionLost
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.broker.progress import GroupProgress

ONE, TWO = queue("orders/a/0"), queue("orders/a/1")


class Brokers:
    """Takes notes; ``answer`` is what comes of it."""

    def __init__(self) -> None:
        self.told: list[Mapping[MessageQueue, int]] = []
        self.answer: bool | Exception = True

    def commit(self, offsets: Mapping[MessageQueue, QueueOffset]) -> bool:
        self.told.append(offsets)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def progress(brokers: Brokers) -> GroupProgress:
    made = GroupProgress("127.0.0.1:1", "job")
    made.close()
    made._places = brokers  # type: ignore[assignment]
    return made


def test_only_what_has_changed_is_told(progress: GroupProgress, brokers: Brokers) -> None:
    progress.tell({ONE: QueueOffset(1), TWO: QueueOffset(1)})
    progress.tell({ONE: QueueOffset(1), TWO: QueueOffset(2)})
    progress.tell({ONE: QueueOffset(1), TWO: QueueOffset(2)})
    assert brokers.told == [{ONE: 1, TWO: 1}, {TWO: 2}]


@pytest.mark.parametrize("failure", [False, ConnectionLost("a:1", "away")])
def test_what_was_not_taken_is_told_again(
    progress: GroupProgress,
    brokers: Brokers,
    failure: bool | Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    brokers.answer = failure
    with caplog.at_level(logging.WARNING, "rocketpipe.pipeline"):
        progress.tell({ONE: QueueOffset(1)})
    brokers.answer = True
    progress.tell({ONE: QueueOffset(1)})
    assert brokers.told == [{ONE: 1}, {ONE: 1}]
    assert ("away" in caplog.text) == isinstance(failure, Exception)
