"""What waits for a decision is what the log says, whoever wrote it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.support.sending_parts import SendingParts, put

from rocketpipe.broker.features.transactions.open_transactions import OpenTransactions, Outcome
from rocketpipe.model.names import HALF_OP_TOPIC, HALF_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.testing.clock import ManualClock

GROUP = "CID_RMQ_SYS_TRANS"


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[SendingParts]:
    parts = SendingParts(tmp_path, ManualClock())
    yield parts
    parts.abandon()


async def halves(parts: SendingParts, *texts: str) -> None:
    await parts.intake.put([put(HALF_TOPIC, properties=text.encode()) for text in texts])


async def ops(parts: SendingParts, *bodies: bytes) -> None:
    await parts.intake.put([put(HALF_OP_TOPIC, body, properties=b"TAGS\x01d") for body in bodies])


def keys(waiting: OpenTransactions) -> list[str]:
    return [half.key for half in waiting]


async def test_what_an_op_message_names_waits_no_longer(parts: SendingParts) -> None:
    await halves(parts, *(f"UNIQ_KEY\x01{key}\x02" for key in "abcde"))
    await ops(parts, b"1,3,", b"0")
    waiting = OpenTransactions(parts.store, parts.tables.offsets)
    assert keys(waiting) == ["c", "e"]
    await ops(parts, b"2,")
    waiting.catch_up()
    assert keys(waiting) == ["e"]


async def test_a_copy_that_an_apache_broker_put_again_takes_the_place_of_the_one_before(
    parts: SendingParts,
) -> None:
    # It writes no op message for it: it moves its place instead, and that may be lost.
    again = "UNIQ_KEY\x01a\x02TRANSACTION_CHECK_TIMES\x01{}\x02"
    await halves(parts, "UNIQ_KEY\x01a\x02", again.format(1), again.format(2))
    waiting = OpenTransactions(parts.store, parts.tables.offsets)
    assert [(half.offset, half.origin, half.checks) for half in waiting] == [(2, 0, 2)]
    await ops(parts, b"2,")
    waiting.catch_up()
    assert keys(waiting) == []


async def test_what_lies_before_the_place_of_the_last_run_is_done(parts: SendingParts) -> None:
    await halves(parts, *(f"UNIQ_KEY\x01{key}\x02" for key in "abc"))
    parts.tables.offsets.commit(GROUP, HALF_TOPIC, 0, QueueOffset(2))
    waiting = OpenTransactions(parts.store, parts.tables.offsets)
    assert keys(waiting) == ["c"]


async def test_a_place_beyond_the_queue_is_moved_into_it(
    parts: SendingParts, caplog: pytest.LogCaptureFixture
) -> None:
    await halves(parts, "UNIQ_KEY\x01a\x02")
    parts.tables.offsets.commit(GROUP, HALF_TOPIC, 0, QueueOffset(9))
    with caplog.at_level(logging.WARNING):
        waiting = OpenTransactions(parts.store, parts.tables.offsets)
    assert "place is moved into its queue" in caplog.text
    await halves(parts, "UNIQ_KEY\x01b\x02")
    waiting.catch_up()
    assert keys(waiting) == ["b"]


async def test_what_ends_is_not_found_again_in_the_log(parts: SendingParts) -> None:
    await halves(parts, "UNIQ_KEY\x01a\x02")
    waiting = OpenTransactions(parts.store, parts.tables.offsets)
    (half,) = waiting
    waiting.end(half, Outcome.COMMITTED)
    await halves(parts, "UNIQ_KEY\x01a\x02TRAN_PREPARED_QUEUE_OFFSET\x010\x02")
    waiting.catch_up()
    assert keys(waiting) == []
    waiting.reopen(half)
    assert keys(waiting) == ["a"]


async def test_what_went_with_the_log_is_told(
    parts: SendingParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await halves(parts, "UNIQ_KEY\x01a\x02", "UNIQ_KEY\x01b\x02")
    waiting = OpenTransactions(parts.store, parts.tables.offsets)
    first, second = waiting
    monkeypatch.setattr(
        type(parts.store), "first_offset", property(lambda _: LogOffset(second.log_offset))
    )
    assert waiting.lost() == [first]
    assert keys(waiting) == ["b"]
