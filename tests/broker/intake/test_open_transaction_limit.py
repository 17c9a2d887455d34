"""So many transactions may be open, and one more is refused until one of them ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.support.transacting import TransactingParts

from rocketpipe.errors import RequestRejected
from rocketpipe.model.flags import Transaction
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.testing.clock import ManualClock


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[TransactingParts]:
    parts = TransactingParts(tmp_path, ManualClock(), config={"max_open_transactions": 3})
    yield parts
    parts.abandon()


async def test_one_transaction_too_many_is_refused_until_another_ends(
    parts: TransactingParts,
) -> None:
    begun = [await parts.half(body) for body in (b"a", b"b", b"c")]
    with pytest.raises(RequestRejected, match="3 transactions are open") as refused:
        await parts.half(b"d")
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    assert "maxOpenTransactions" in refused.value.remark
    await parts.decide(begun[0], Transaction.ROLLED_BACK)
    await parts.half(b"d")
    with pytest.raises(RequestRejected):
        await parts.half(b"e")
    assert len(parts.waiting) == 3


async def test_what_was_asked_about_counts_once(parts: TransactingParts) -> None:
    await parts.half(b"a")
    for _ in range(5):
        await parts.clock.advance(60_000)
        await parts.checks.ask_all()
    assert parts.asked.places()
    await parts.half(b"b")
    await parts.half(b"c")
    with pytest.raises(RequestRejected, match="3 transactions are open"):
        await parts.half(b"d")
