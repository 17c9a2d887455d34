"""Messages that are no more."""

from __future__ import annotations

import logging
import pickle

import pytest
from tests.pipeline.support.fake_offsets import queue

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.pipeline.planning.gaps import Gap, MessagesGone, missing

GAP = Gap(queue("orders/broker-a/3"), QueueOffset(5), QueueOffset(9))


def test_a_gap_that_may_not_be_skipped_is_an_error_with_its_facts() -> None:
    with pytest.raises(MessagesGone, match=r"queue 3 of broker 'broker-a'.* 5 to 8 .*4 of") as gone:
        missing(GAP, "fail")
    assert "onGap" in str(gone.value)
    assert pickle.loads(pickle.dumps(gone.value)).gap == GAP


def test_a_gap_that_may_be_skipped_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rocketpipe.pipeline"):
        missing(GAP, "skip")
    assert "topic=orders broker=broker-a queue=3 from=5 to=8 count=4" in caplog.text
