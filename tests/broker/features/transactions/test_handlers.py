"""A decision is checked against the half message that it names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.sending_parts import sent
from tests.broker.support.transacting import TransactingParts

from rocketpipe.errors import RequestRejected
from rocketpipe.model.flags import Transaction
from rocketpipe.model.names import HALF_TOPIC
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.testing.clock import ManualClock

COMMIT = Transaction.COMMITTED


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[TransactingParts]:
    parts = TransactingParts(tmp_path, ManualClock())
    yield parts
    parts.abandon()


@pytest.mark.parametrize(
    ("changes", "code", "remark"),
    [
        ({"producer_group": "q"}, 1, "The producer group wrong"),
        ({"tran_state_table_offset": 1}, 1, "The transaction state table offset wrong"),
        ({"commit_log_offset": 1 << 40}, 1, "Find prepared transaction message failed"),
        ({"commit_log_offset": 3}, 1, "Find prepared transaction message failed"),
        ({"commit_or_rollback": 4}, 29, "8 commits, 12 rolls back, 0 leaves it open"),
    ],
)
async def test_a_decision_that_does_not_fit_changes_nothing(
    parts: TransactingParts, changes: dict[str, Any], code: int, remark: str
) -> None:
    half = await parts.half(b"a")
    with pytest.raises(RequestRejected, match=remark) as refused:
        await parts.decide(half, COMMIT, **changes)
    assert refused.value.code == code
    assert parts.bodies() == []
    assert len(parts.waiting) in (0, 1)  # whoever looks first finds it
    await parts.decide(half, COMMIT)
    assert parts.bodies() == [b"a"]


async def test_what_is_no_half_message_cannot_be_committed(parts: TransactingParts) -> None:
    await parts.ask(sent(properties="UNIQ_KEY\x01K\x02PGROUP\x01p\x02REAL_TOPIC\x01x\x02"))
    (message,) = parts.stored("t")
    half = await parts.half(b"a")
    with pytest.raises(RequestRejected, match="no half message"):
        await parts.decide(half, COMMIT, commit_log_offset=message.log_offset)


async def test_who_does_not_know_yet_leaves_it_open(parts: TransactingParts) -> None:
    half = await parts.half(b"a")
    await parts.decide(half, Transaction.NONE)
    parts.waiting.catch_up()
    assert len(parts.waiting) == 1


# Taken up again


async def test_a_transaction_that_was_given_up_is_asked_about_again_and_decided_once(
    parts: TransactingParts,
) -> None:
    await parts.half(b"a")
    lost = await parts.given_up()
    assert len(parts.waiting) == 0
    await parts.resume(lost)
    await parts.resume(lost)
    parts.waiting.catch_up()
    assert [(half.key, half.checks) for half in parts.waiting] == [("K-a", 0)]
    parts.asked.questions.clear()
    await parts.clock.advance(parts.config.transaction_check_every_ms)
    await parts.checks.ask_all()
    (asked,) = parts.asked.places()
    await parts.decide(asked, COMMIT, from_transaction_check=True)
    assert parts.bodies() == [b"a"]
    with pytest.raises(RequestRejected, match="was committed before") as refused:
        await parts.resume(lost)
    assert refused.value.code == ResponseCode.TRANSACTION_SHOULD_COMMIT
    assert parts.bodies() == [b"a"]


async def test_one_that_is_open_begins_its_checks_anew(parts: TransactingParts) -> None:
    half = await parts.half(b"a")
    for _ in range(3):
        await parts.clock.advance(parts.config.transaction_check_every_ms)
        await parts.checks.ask_all()
    (first, *_) = parts.stored(HALF_TOPIC)
    await parts.resume(first.offset_id)
    parts.waiting.catch_up()
    assert [(each.key, each.checks) for each in parts.waiting] == [("K-a", 0)]
    newest = parts.stored(HALF_TOPIC)[-1]
    assert newest.properties["TRANSACTION_CHECK_TIMES"] == "0"
    await parts.decide(half, COMMIT)
    assert parts.bodies() == [b"a"]
    with pytest.raises(RequestRejected, match="was committed before"):
        await parts.resume(first.offset_id)


@pytest.mark.parametrize(
    ("offset_id", "code", "remark"),
    [
        (None, 29, "offset id"),
        ("K-a", 29, "offset id"),
        ("7F00000100002A9F0000010000000000", 1, "no message is at"),
    ],
)
async def test_what_names_no_message_is_not_resumed(
    parts: TransactingParts, offset_id: str | None, code: int, remark: str
) -> None:
    with pytest.raises(RequestRejected, match=remark) as refused:
        await parts.resume(offset_id)
    assert refused.value.code == code


async def test_what_was_no_half_message_is_not_resumed(parts: TransactingParts) -> None:
    await parts.ask(sent())
    (message,) = parts.stored("t")
    with pytest.raises(RequestRejected, match="is no half message"):
        await parts.resume(message.offset_id)
