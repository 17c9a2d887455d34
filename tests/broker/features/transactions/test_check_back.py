"""Producers are asked about what they left open: in time, so often, and then no more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.sending_parts import HOST
from tests.broker.support.stepped_clock import SteppedClock
from tests.broker.support.transacting import HalfSent, TransactingParts

from rocketpipe.broker.features.transactions.check_back import ProducerGroups
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.consumer_group import Client
from rocketpipe.errors import ConnectionLost, RequestRejected
from rocketpipe.model.flags import Transaction
from rocketpipe.model.names import CHECK_MAX_TIME_TOPIC, HALF_OP_TOPIC, HALF_TOPIC
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.callbacks import CheckTransactionState
from rocketpipe.record.codec import RecordView
from rocketpipe.store.config import FlushMode
from rocketpipe.testing.clock import ManualClock

COMMIT, ROLLBACK = Transaction.COMMITTED, Transaction.ROLLED_BACK
HOUR_MS = 3_600_000

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


async def test_nobody_is_asked_before_the_time(opened: Open) -> None:
    parts = opened()
    await parts.half(b"a")
    await parts.clock.advance(6000)
    await parts.checks.ask_all()
    assert parts.asked.places() == []
    await parts.clock.advance(1)
    await parts.checks.ask_all()
    assert len(parts.asked.places()) == 1


async def test_who_wants_to_be_left_alone_is_for_so_long(opened: Open) -> None:
    parts = opened()
    half = await parts.half(b"a", "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02")
    await parts.clock.advance(60_000)
    await parts.checks.ask_all()
    assert parts.asked.places() == []
    await parts.clock.advance(1)
    await parts.checks.ask_all()
    (asked,) = parts.asked.places()
    with pytest.raises(RequestRejected) as late:
        await parts.decide(half, COMMIT)
    assert late.value.code == 604
    await parts.decide(asked, COMMIT, from_transaction_check=True)
    assert parts.bodies() == [b"a"]


async def test_what_is_asked_about_is_put_again_and_the_old_place_is_done(opened: Open) -> None:
    parts = opened()
    half = await parts.half(b"a")
    for times in (1, 2):
        await parts.clock.advance(30_000)
        await parts.checks.ask_all()
        newest = parts.stored(HALF_TOPIC)[-1]
        assert newest.properties["TRANSACTION_CHECK_TIMES"] == str(times)
        assert newest.properties["TRAN_PREPARED_QUEUE_OFFSET"] == str(half.offset)
        assert parts.asked.places() == [HalfSent(newest.queue_offset, newest.log_offset, "")]
    assert [op.body for op in parts.stored(HALF_OP_TOPIC)] == [b"0,", b"1,"]
    assert len(parts.waiting) == 1
    parts = opened()
    assert [(each.offset, each.checks) for each in parts.waiting] == [(2, 2)]


@pytest.mark.parametrize("restart", [False, True])
async def test_a_decision_about_an_older_copy_counts_for_the_newest(
    opened: Open, restart: bool
) -> None:
    parts = opened()
    half = await parts.half(b"a")
    await parts.clock.advance(30_000)
    await parts.checks.ask_all()
    (asked,) = parts.asked.places()
    if restart:
        parts = opened()
    await parts.decide(half, COMMIT)
    await parts.decide(asked, COMMIT)
    assert parts.bodies() == [b"a"]
    await parts.clock.advance(30_000)
    await parts.checks.ask_all()
    assert parts.asked.places() == []


async def test_after_the_last_check_it_is_kept_elsewhere_and_said_so(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    parts = opened()
    half = await parts.half(b"a")
    asked = 0
    parts.waiting.catch_up()
    while len(parts.waiting):
        await parts.clock.advance(30_000)
        with caplog.at_level(logging.WARNING):
            await parts.checks.ask_all()
        asked += len(parts.asked.places())
    assert asked == 15
    (given_up,) = parts.stored(CHECK_MAX_TIME_TOPIC)
    assert (given_up.body, given_up.properties["TRANSACTION_CHECK_TIMES"]) == (b"a", "15")
    assert "transaction is given up" in caplog.text
    assert parts.bodies() == []
    for restart in (False, True):
        parts = opened() if restart else parts
        with pytest.raises(RequestRejected) as late:
            await parts.decide(half, COMMIT)
        assert late.value.code == 202
        assert len(parts.waiting) == 0


async def test_what_would_go_with_the_log_is_given_up_before(opened: Open) -> None:
    parts = opened()
    days = "CHECK_IMMUNITY_TIME_IN_SECONDS\x01999999\x02"
    await parts.half(b"a", days)
    await parts.clock.advance(parts.store.config.reserved_hours * HOUR_MS + 1)
    await parts.half(b"b", days)
    await parts.checks.ask_all()
    assert parts.bodies(CHECK_MAX_TIME_TOPIC, 0) == [b"a"]
    assert [half.key for half in parts.waiting] == ["K-b"]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("step_ms", [-24 * HOUR_MS, 24 * 30 * HOUR_MS])
async def test_a_clock_that_is_set_has_nobody_asked_late_and_gives_nothing_up(
    tmp_path: Path, step_ms: int, *, restart: bool
) -> None:
    clock = SteppedClock()
    parts = TransactingParts(tmp_path, clock)
    try:
        await parts.half(b"a")
        await parts.checks.ask_all()
        clock.step(step_ms)
        if restart and step_ms < 0:
            parts.abandon()
            parts = TransactingParts(tmp_path, clock)
        await parts.checks.ask_all()
        await clock.advance(6000)
        await parts.checks.ask_all()
        assert parts.asked.places() == [], "nor early"
        await clock.advance(1)
        await parts.checks.ask_all()
        assert len(parts.asked.places()) == 1
        assert parts.stored(CHECK_MAX_TIME_TOPIC) == []
    finally:
        parts.abandon()


async def test_a_clock_that_jumps_while_the_broker_is_down_has_its_producer_asked(
    tmp_path: Path,
) -> None:
    clock = SteppedClock()
    parts = TransactingParts(tmp_path, clock)
    try:
        await parts.half(b"a")
        parts.abandon()
        clock.step(24 * 30 * HOUR_MS)
        parts = TransactingParts(tmp_path, clock)
        for _ in range(2):
            await parts.checks.ask_all()
            await clock.advance(60_000)
        assert parts.stored(CHECK_MAX_TIME_TOPIC) == []
        asked = parts.asked.places()
        assert len(asked) == 2
        await parts.decide(asked[-1], COMMIT, from_transaction_check=True)
        assert parts.bodies() == [b"a"]
    finally:
        parts.abandon()


async def test_the_clock_of_a_producer_does_not_end_its_immunity(opened: Open) -> None:
    parts = opened()
    half = await parts.half(b"a", "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02", born_timestamp=1)
    await parts.decide(half, COMMIT)
    assert parts.bodies() == [b"a"]


async def test_many_are_put_again_with_few_writes(opened: Open) -> None:
    parts = opened()
    for number in range(70):
        await parts.half(b"%d" % number)
    await parts.clock.advance(30_000)
    await parts.checks.ask_all()
    assert len(parts.asked.places()) == 70
    ops = [op.body.decode().split(",")[:-1] for op in parts.stored(HALF_OP_TOPIC)]
    assert [len(op) for op in ops] == [32, 32, 6]
    assert sorted(int(offset) for op in ops for offset in op) == list(range(70))


async def test_a_decision_waits_while_its_message_is_put_again(opened: Open) -> None:
    parts = opened(flush=FlushMode.SYNC)
    sending = asyncio.ensure_future(parts.half(b"a"))
    await flushed(parts, sending)
    half = await sending
    await parts.clock.advance(30_000)
    asking = asyncio.ensure_future(parts.checks.ask_all())
    await asyncio.sleep(0)
    deciding = asyncio.ensure_future(parts.decide(half, ROLLBACK))
    await asyncio.sleep(0)
    await flushed(parts, asking, deciding)
    await deciding
    assert len(parts.waiting) == 0
    parts.waiting.catch_up()
    assert len(parts.waiting) == 0
    assert [op.body for op in parts.stored(HALF_OP_TOPIC)] == [b"0,", b"1,"]


async def flushed(parts: TransactingParts, *tasks: asyncio.Future[Any]) -> None:
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        parts.store.flush()


class Peer:
    """The connection of a producer, as far as the broker uses it."""

    def __init__(self, *, slow: bool = False, lost: bool = False) -> None:
        self.is_slow = slow
        self._lost = lost
        self.told: list[Request[Any]] = []

    def tell(self, request: Request[Any]) -> None:
        if self._lost:
            raise ConnectionLost("producer", "gone")
        self.told.append(request)


def client(client_id: str, peer: Peer) -> Client:
    return Client(connection=peer, client_id=client_id)


async def test_some_producer_of_the_group_is_asked_that_listens(opened: Open) -> None:
    parts = opened()
    connected = ClientTable()
    peers = [Peer(slow=True), Peer(lost=True), Peer(), Peer()]
    for number, peer in enumerate(peers):
        connected.produce("p", client(f"client {number}", peer), 0)
    connected.produce("q", client("another", other := Peer()), 0)
    producers = ProducerGroups(connected, "broker-a", HOST)
    for _ in range(8):
        await parts.half(b"a")
    await parts.clock.advance(30_000)
    await parts.checks.ask_all()
    for put, placed in parts.asked.questions:
        producers.ask(put, placed)
    told = [len(peer.told) for peer in (*peers, other)]
    assert told[:2] == [0, 0]
    assert told[4] == 0
    assert sum(told) == 8
    assert min(told[2:4]) >= 2
    question = peers[2].told[0]
    assert isinstance(question, CheckTransactionState)
    message = RecordView(question.message)
    assert (message.topic, message.queue_id, message.body) == ("t", 2, b"a")
    assert message.queue_offset == question.tran_state_table_offset
    assert message.log_offset == question.commit_log_offset
    assert question.msg_id == question.transaction_id == message.message_id


async def test_who_may_not_send_to_the_topic_is_shown_no_message_of_it(opened: Open) -> None:
    parts = opened()
    connected = ClientTable()
    writer, spy = Peer(), Peer()
    for name, peer in (("writer", writer), ("spy", spy)):
        connected.produce("p", Client(connection=peer, client_id=name, by=name), 0)
    may_decide = {("writer", "t")}.__contains__
    producers = ProducerGroups(
        connected, "broker-a", HOST, lambda by, topic: may_decide((by, topic))
    )
    for _ in range(4):
        await parts.half(b"a")
    await parts.clock.advance(30_000)
    await parts.checks.ask_all()
    for put, placed in parts.asked.questions:
        producers.ask(put, placed)
    assert (len(writer.told), len(spy.told)) == (4, 0)
