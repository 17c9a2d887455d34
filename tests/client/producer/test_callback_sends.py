"""Results that a callback hears."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from rocketpipe.client.producer.callback_sends import CallbackSends
from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.selectors import Pick
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.errors import ConnectionLost
from rocketpipe.model.message import Message
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

OUT = Outgoing(Message("t", b"x"), "0A" * 16, 0, 100)
RESULT = SendResult(
    "id", MessageQueue(topic="t", broker_name="a", queue_id=0), QueueOffset(1), True
)


class Sends:
    """A sender, to which one thing happens."""

    def __init__(self, fate: SendResult | Exception) -> None:
        self.fate = fate
        self.unanswered_only: list[bool] = []

    async def send(
        self, out: Outgoing, left_ms: int, pick: Pick | None, *, unanswered_only: bool
    ) -> SendResult:
        self.unanswered_only.append(unanswered_only)
        if isinstance(self.fate, Exception):
            raise self.fate
        return self.fate


@pytest.mark.parametrize("fate", [RESULT, ConnectionLost("a:1", "gone"), ZeroDivisionError()])
async def test_the_callback_hears_the_result_or_whatever_went_wrong(
    fate: SendResult | Exception,
) -> None:
    told: list[SendResult | Exception] = []
    sends = Sends(fate)
    called_back = CallbackSends(cast("Any", sends))
    called_back.begin(OUT, 1000, None, told.append)
    assert not told
    await called_back.drain()
    assert told == [fate]
    assert sends.unanswered_only == [True]


async def test_a_callback_that_fails_is_told_of_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(told: object) -> None:
        raise ZeroDivisionError

    called_back = CallbackSends(cast("Any", Sends(RESULT)))
    with caplog.at_level(logging.ERROR):
        called_back.begin(OUT, 1000, None, fail)
        await called_back.drain()
    assert "a callback failed topic=t" in caplog.text
    await called_back.drain()
