"""A block decides its message; a broker that did not hear it is told when it asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.client.producer.support.broker_parts import (
    LOST,
    SILENT,
    Taker,
    World,
    turned,
    world,
)
from tests.waiting import until

from rocketpipe import Decision, Producer
from rocketpipe.client.producer.sending.batching import Batching
from rocketpipe.client.producer.transactions import Check, Transaction
from rocketpipe.errors import CallTimeout, ConnectionLost, RequestRejected, SessionClosed
from rocketpipe.model import properties
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.requests.callbacks import CheckTransactionState
from rocketpipe.record.codec import RecordView, encode_record

HOST = Host.parse("127.0.0.1:10911")


@asynccontextmanager
async def producing(
    here: World, check: Check | None = None, **changes: Any
) -> AsyncIterator[Producer]:
    async with here.session() as session:
        async with Producer(session, group="shop", check=check, **changes) as producer:
            await session.routes.get("t")
            await session.beat()
            yield producer


def ask(broker: Taker, message_id: str) -> None:
    """Ask the producer about a transaction, as a broker does."""
    said = {properties.UNIQ_KEY: message_id, properties.PRODUCER_GROUP: "shop"}
    half = StoredMessage(
        topic="t",
        body=b"x",
        raw_properties=properties.encode_bytes(said),
        queue_id=0,
        queue_offset=QueueOffset(7),
        log_offset=LogOffset(9),
        born_ms=1,
        born_host=HOST,
        stored_ms=2,
        store_host=HOST,
    )
    question = CheckTransactionState(
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=half.log_offset,
        msg_id=message_id,
        message=encode_record(half),
    )
    broker.peers[-1].tell(question)


async def test_a_half_message_says_what_it_is_and_goes_alone() -> None:
    async with world("a") as here, producing(here, batching=Batching()) as producer:
        async with producer.transaction("t", b"x", tags="A", immunity_s=60) as begun:
            (taken,) = here["a"].taken
            said = properties.decode(taken.properties)
            assert said["TRAN_MSG"] == "true"
            assert said["PGROUP"] == "shop"
            assert said["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "60"
            assert said["UNIQ_KEY"] == begun.message_id
            assert said["TAGS"] == "A"
            assert not taken.batch
            assert here["a"].ended == []
        (ended,) = here["a"].ended
        assert ended.commit_or_rollback == 8
        assert (ended.producer_group, ended.topic) == ("shop", "t")
        assert (ended.msg_id, ended.from_transaction_check) == (begun.message_id, False)


@pytest.mark.parametrize(("say", "codes"), [("rollback", [12]), ("unknown", []), ("commit", [8])])
async def test_the_block_says_how_it_ends(say: str, codes: list[int]) -> None:
    async with world("a") as here, producing(here) as producer:
        async with producer.transaction("t", b"x") as begun:
            getattr(begun, say)()
        assert [each.commit_or_rollback for each in here["a"].ended] == codes


async def test_an_error_is_a_rollback_and_stays_the_error() -> None:
    async with world("a") as here, producing(here) as producer:
        here["a"].next_ends = [1]
        with pytest.raises(LookupError, match="mine"):
            async with producer.transaction("t", b"x"):
                raise LookupError("mine")
        assert [each.commit_or_rollback for each in here["a"].ended] == [12]


async def test_a_decision_that_is_not_answered_is_said_again() -> None:
    async with world("a") as here, producing(here) as producer:
        here["a"].next_ends = [LOST, LOST]
        leaving = asyncio.ensure_future(_left(producer))
        while not leaving.done():
            await here.clock.advance(100)
        await leaving
        assert [each.commit_or_rollback for each in here["a"].ended] == [8, 8, 8]


async def test_a_decision_that_nobody_answers_is_an_error_in_the_end() -> None:
    async with world("a") as here, producing(here) as producer:
        here["a"].next_ends = [LOST] * 1000
        leaving = asyncio.ensure_future(_left(producer))
        while not leaving.done():
            await here.clock.advance(100)
        with pytest.raises(ConnectionLost) as caught:
            await leaving
        assert caught.value.__notes__ == [
            "the broker asks how the transaction ended, and is told then"
        ]
        # It does, and the producer remembers.
        here["a"].next_ends.clear()
        here["a"].ended.clear()
        half, _ = here["a"].taken[0], await producer.send("t", b"wakes the connection")
        await until(lambda: here["a"].peers[-1].is_open)
        ask(here["a"], properties.decode(half.properties)["UNIQ_KEY"])
        await until(lambda: [each.commit_or_rollback for each in here["a"].ended] == [8])


async def _left(producer: Producer) -> Transaction:
    async with producer.transaction("t", b"x") as begun:
        pass
    return begun


async def test_a_decision_that_comes_too_late_is_an_error() -> None:
    async with world("a") as here, producing(here) as producer:
        here["a"].next_ends = [201]
        with pytest.raises(RequestRejected) as caught:
            await _left(producer)
        assert caught.value.code == 201
        assert len(here["a"].ended) == 1


async def test_a_half_message_is_sent_once_even_if_nobody_answers() -> None:
    async with world("a", "b") as here, producing(here) as producer:
        here["a"].next = here["b"].next = [SILENT]
        entering = asyncio.ensure_future(_left(producer))
        await until(lambda: here["a"].asked + here["b"].asked == 1)
        await here.clock.advance(3000)
        with pytest.raises(CallTimeout):
            await entering
        assert here["a"].asked + here["b"].asked == 1


async def test_what_was_decided_here_needs_no_check() -> None:
    async with world("a") as here, producing(here) as producer:
        begun = await _left(producer)
        ask(here["a"], begun.message_id)
        await until(lambda: len(here["a"].ended) == 2)
        asked = here["a"].ended[1]
        assert (asked.commit_or_rollback, asked.from_transaction_check) == (8, True)
        assert (asked.tran_state_table_offset, asked.commit_log_offset) == (7, 9)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(("decision", "codes"), [(Decision.COMMIT, [8]), (Decision.ROLLBACK, [12])])
async def test_what_others_began_is_for_the_check_to_say(
    waits: bool, decision: Decision, codes: list[int]
) -> None:
    heard: list[str] = []

    def check(message: RecordView) -> Decision:
        heard.append(message.message_id)
        return decision

    async def check_later(message: RecordView) -> Decision:
        return check(message)

    async with world("a") as here, producing(here, check_later if waits else check):
        ask(here["a"], "K")
        await until(lambda: len(here["a"].ended) == 1)
        assert heard == ["K"]
        assert [each.commit_or_rollback for each in here["a"].ended] == codes


async def test_a_check_that_fails_or_does_not_know_leaves_it_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said: list[str] = []

    def check(message: RecordView) -> Any:
        said.append(message.message_id)
        if message.message_id == "no decision":
            return True
        if message.message_id == "fails":
            raise LookupError
        return Decision.COMMIT if message.message_id == "last" else Decision.UNKNOWN

    async with world("a") as here, producing(here, check):
        for message_id in ("fails", "no decision", "open", "last"):
            ask(here["a"], message_id)
        await until(lambda: len(here["a"].ended) == 1)
        assert said == ["fails", "no decision", "open", "last"]
        assert "the check returned True: Decision.COMMIT, ROLLBACK or UNKNOWN" in caplog.text
        assert here["a"].ended[0].msg_id == "last"


async def test_an_executor_decides() -> None:
    async with world("a") as here, producing(here) as producer:
        for decision in Decision:

            async def execute(_: Transaction, given: Decision = decision) -> Decision:
                return given

            assert await producer.send_in_transaction("t", b"x", execute=execute) is decision
        assert [each.commit_or_rollback for each in here["a"].ended] == [8, 12]


async def test_what_makes_no_sense_is_refused_at_once() -> None:
    async with world("a") as here:
        async with producing(here) as producer:
            with pytest.raises(ValueError, match="immunity_s 0"):
                producer.transaction("t", b"x", immunity_s=0)
        with pytest.raises(SessionClosed):
            producer.transaction("t", b"x")
        with pytest.raises(SessionClosed):
            await producer.recall("t", "x")


# Leaders that change


async def test_a_half_message_that_was_not_stored_follows_the_leader() -> None:
    async with world("a", "b") as here:
        here.known.routes.clear()
        here.led_by("g", "a", "b")
        async with producing(here) as producer:
            here["a"].follows = RequestRejected(14, f"not me leader={here['b'].address}")
            here["b"].follows = None
            async with producer.transaction("t", b"x") as tx:
                pass
            assert tx.sent is not None
            assert (len(here["b"].taken), len(here["b"].ended)) == (1, 1)
            here["b"].next = [14]  # it may have been stored before the broker stopped to lead
            with pytest.raises(RequestRejected):
                async with producer.transaction("t", b"x"):
                    pytest.fail("there is no half message")


async def test_a_decision_goes_to_the_leader_that_the_queue_has_by_then() -> None:
    async with world("a", "b") as here:
        here.known.routes.clear()
        here.led_by("g", "a", "b")

        async def decided() -> None:
            async with producer.transaction("t", b"x"):
                here.led_by("g", None, "a", "b")
                asked = len(here.known.asked)
                moving.append(asyncio.create_task(led_again(asked)))

        async def led_again(asked: int) -> None:
            await until(lambda: len(here.known.asked) >= asked + 3)
            here.led_by("g", "b", "a")

        moving: list[asyncio.Task[None]] = []
        async with producing(here, timeout_ms=60_000) as producer:
            await turned(here.clock, decided())
            assert (len(here["a"].taken), len(here["b"].ended)) == (1, 1)
            await moving[0]


async def test_a_check_is_answered_to_who_leads_in_place_of_who_asked() -> None:
    async with world("a", "b") as here, producing(here) as producer:
        async with producer.transaction("t", b"x") as tx:
            pass
        one, other = ("a", "b") if here["a"].ended else ("b", "a")
        here[one].follows = RequestRejected(14, f"not me leader={here[other].address}")
        ask(here[one], tx.message_id)
        await until(lambda: here[other].ended)
        assert here[other].ended[0].from_transaction_check
