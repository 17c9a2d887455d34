"""The first decision counts, however often it is said and whenever the broker dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.broker.support.transacting import HalfSent, TransactingParts

from rocketpipe.broker.features.transactions.open_transactions import OpenTransactions
from rocketpipe.broker.intake.half_messages import committed
from rocketpipe.errors import RequestRejected
from rocketpipe.model.flags import Transaction
from rocketpipe.model.names import (
    HALF_OP_TOPIC,
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import StoreFull
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock

COMMIT, ROLLBACK = Transaction.COMMITTED, Transaction.ROLLED_BACK

Open = Callable[..., TransactingParts]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open the parts, again after the last ones were abandoned, on the same directory."""
    clock = ManualClock()
    last: list[TransactingParts] = []

    def open_parts(**changes: Any) -> TransactingParts:
        if last:
            last[-1].abandon()
        last.append(TransactingParts(tmp_path, clock, **changes))
        return last[-1]

    yield open_parts
    last[-1].abandon()


async def refused(parts: TransactingParts, half: HalfSent, state: Transaction) -> int:
    with pytest.raises(RequestRejected) as error:
        await parts.decide(half, state)
    return error.value.code


async def test_a_committed_message_shows_as_it_was_sent(opened: Open) -> None:
    parts = opened()
    half = await parts.half(b"a")
    assert parts.bodies() == []
    await parts.decide(half, COMMIT)
    (message,) = parts.stored("t", 2)
    assert message.body == b"a"
    assert message.sys_flag & 12 == COMMIT
    assert message.prepared_offset == half.log_offset
    said = message.properties
    assert (said["UNIQ_KEY"], said["TAGS"], said["REAL_TOPIC"]) == (half.key, "A", "t")
    (op,) = parts.stored(HALF_OP_TOPIC)
    assert (op.tags, op.body) == ("d", b"%d," % half.offset)
    assert len(parts.waiting) == 0


async def test_what_is_rolled_back_never_shows(opened: Open) -> None:
    parts = opened()
    half = await parts.half(b"a")
    await parts.decide(half, ROLLBACK)
    assert parts.bodies() == []
    assert len(parts.stored(HALF_OP_TOPIC)) == 1
    assert len(parts.waiting) == 0


@pytest.mark.parametrize("restart", [False, True])
async def test_a_late_decision_is_told_how_it_ended(opened: Open, restart: bool) -> None:
    parts = opened()
    committed, dropped = await parts.half(b"a"), await parts.half(b"b")
    await parts.decide(committed, COMMIT)
    await parts.decide(dropped, ROLLBACK)
    if restart:
        parts = opened()
    await parts.decide(committed, COMMIT)
    await parts.decide(dropped, ROLLBACK)
    assert await refused(parts, committed, ROLLBACK) == 200
    assert await refused(parts, dropped, COMMIT) == 201
    assert parts.bodies() == [b"a"]
    assert len(parts.stored(HALF_OP_TOPIC)) == 2


async def test_two_decisions_at_once_are_one(opened: Open) -> None:
    parts = opened(flush=FlushMode.SYNC)
    sending = asyncio.ensure_future(parts.half(b"a"))
    await _flushed(parts, sending)
    half = await sending
    decisions = [
        asyncio.ensure_future(parts.decide(half, state)) for state in (COMMIT, ROLLBACK, COMMIT)
    ]
    await asyncio.sleep(0)
    assert parts.bodies() == [], "nothing shows before it is durable"
    await _flushed(parts, *decisions)
    first, second, third = await asyncio.gather(*decisions, return_exceptions=True)
    assert (first, third) == (None, None)
    assert isinstance(second, RequestRejected)
    assert second.code == 200
    assert parts.bodies() == [b"a"]


async def _flushed(parts: TransactingParts, *tasks: asyncio.Future[Any]) -> None:
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        parts.store.flush()


async def test_a_store_that_takes_nothing_leaves_it_open(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = opened()
    half = await parts.half(b"a")

    def full(*_: object) -> None:
        raise StoreFull(Path("x"), 1, "no room")

    with monkeypatch.context() as patched:
        patched.setattr(parts.store, "append", full)
        assert await refused(parts, half, COMMIT) == 14
    assert len(parts.waiting) == 1
    await parts.decide(half, COMMIT)
    assert parts.bodies() == [b"a"]


async def test_message_and_op_message_are_written_together_or_not_at_all(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = opened()
    half = await parts.half(b"a")
    groups: list[int] = []
    append = MessageStore.append

    def watched(store: MessageStore, some: Any) -> Any:
        groups.extend(len(group) for group in some)
        return append(store, some)

    monkeypatch.setattr(MessageStore, "append", watched)
    await parts.decide(half, COMMIT)
    assert groups == [2]


async def test_a_decision_after_a_restart_ends_what_the_last_run_took(opened: Open) -> None:
    parts = opened()
    half = await parts.half(b"a")
    parts = opened()
    assert [each.key for each in parts.waiting] == [half.key]
    await parts.decide(half, COMMIT)
    parts = opened()
    assert len(parts.waiting) == 0
    assert parts.bodies() == [b"a"]


async def test_a_message_committed_with_a_delay_waits_for_it_then(opened: Open) -> None:
    parts = opened()
    by_level = await parts.half(b"level", "DELAY\x011\x02")
    by_time = await parts.half(b"time", "TIMER_DELAY_MS\x015000\x02")
    assert parts.stored(SCHEDULE_TOPIC) == []
    await parts.decide(by_level, COMMIT)
    await parts.decide(by_time, COMMIT)
    assert parts.bodies() == []
    assert [message.body for message in parts.stored(SCHEDULE_TOPIC)] == [b"level"]
    assert [message.body for message in parts.stored(TIMER_TOPIC)] == [b"time"]
    await parts.clock.advance(1000)
    await parts.delays.deliver_due()
    assert parts.bodies() == [b"level"]
    assert await refused(opened(), by_time, ROLLBACK) == 200


async def test_the_place_is_saved_once_it_is_durable(opened: Open) -> None:
    parts = opened()
    done, waiting = await parts.half(b"a"), await parts.half(b"b")
    await parts.decide(done, COMMIT)
    offsets = parts.tables.offsets
    parts.waiting.catch_up()
    parts.waiting.save_place()
    assert offsets.committed("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) is None
    parts.store.flush()
    parts.waiting.save_place()
    assert offsets.committed("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == waiting.offset
    assert offsets.committed("CID_RMQ_SYS_TRANS", HALF_OP_TOPIC, 0) == 1
    again = OpenTransactions(parts.store, offsets)
    assert [half.key for half in again] == [waiting.key]


async def test_what_an_apache_broker_committed_before_it_died_is_not_committed_again(
    opened: Open,
) -> None:
    # It writes the op message seconds after the message.
    parts = opened()
    asked, decided = await parts.half(b"a"), await parts.half(b"b")
    for half in parts.stored(HALF_TOPIC):
        message = committed(half)
        assert message is not None
        await parts.intake.put([message])
    parts = opened()
    assert len(parts.waiting) == 2
    await parts.decide(decided, COMMIT)
    await parts.clock.advance(30_000)
    await parts.checks.ask_all()
    assert parts.asked.places() == []
    assert await refused(parts, asked, ROLLBACK) == 200
    assert parts.bodies() == [b"a", b"b"]
    assert [op.body for op in parts.stored(HALF_OP_TOPIC)] == [b"1,", b"0,"]
    assert len(parts.waiting) == len(opened().waiting) == 0


class Late:
    """Replicas that never have anything in time."""

    def __init__(self, *, elected: bool) -> None:
        self.late = (1, "whether it stays is not known") if elected else None

    async def acknowledged(self, end: int) -> int:
        return ResponseCode.FLUSH_SLAVE_TIMEOUT


@pytest.mark.parametrize(("elected", "code"), [(True, 1), (False, 12)])
async def test_a_decision_that_replicas_lack_is_an_error_where_another_may_lead(
    opened: Open, elected: bool, code: int
) -> None:
    parts = opened()
    half = await parts.half(b"a")
    parts.visibility.standing.followers = cast("Any", Late(elected=elected))
    assert await refused(parts, half, COMMIT) == code
    assert await refused(parts, half, COMMIT) == code, "said again, it is not known either"
    parts.visibility.standing.followers = None
    await parts.decide(half, COMMIT)
    assert parts.bodies() == [b"a"]
