"""A broker killed at every step of a transaction and of a timer: none lost, early or twice.

``ROCKETPIPE_KILLS`` says how often, over all scenarios together.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from tests.faults.support.broker_process import WORKERS, Broker, Scenario, live_and_die

from rocketpipe.clock import SystemClock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.flags import Transaction
from rocketpipe.model.ids import OffsetId
from rocketpipe.model.message import StoredMessage
from rocketpipe.protocol.requests.sending import RecallMessage, SendMessageReply
from rocketpipe.protocol.requests.transactions import EndTransaction

KILLS = max(1, int(os.environ.get("ROCKETPIPE_KILLS", "20")) // 10)
TOPIC = "t"


class Transactions(Scenario):
    """Half messages, decided at once; the broker dies in between, before and after."""

    span = (10, 120)

    def __init__(self) -> None:
        self._numbers = count()
        #: Half messages by number, and how each was, or is to be, decided.
        self._halves: dict[int, SendMessageReply] = {}
        self._decided: set[int] = set()
        self._unanswered: set[int] = set()

    def _state(self, number: int) -> Transaction:
        return Transaction.ROLLED_BACK if number % 3 == 0 else Transaction.COMMITTED

    async def step(self, broker: Broker, worker: int) -> None:
        number = next(self._numbers)
        self._unanswered.add(number)
        text = f"UNIQ_KEY\x01T{number}\x02TRAN_MSG\x01true\x02PGROUP\x01p\x02"
        half = await broker.send(TOPIC, worker, b"%d" % number, properties=text)
        self._unanswered.discard(number)
        self._halves[number] = half
        await self._decide(broker, number)
        self.progress += 1

    async def _decide(self, broker: Broker, number: int) -> None:
        half = self._halves[number]
        await broker.ask(
            EndTransaction(
                producer_group="p",
                tran_state_table_offset=half.queue_offset,
                commit_log_offset=OffsetId.parse(half.msg_id).log_offset,
                commit_or_rollback=int(self._state(number)),
                msg_id=f"T{number}",
            )
        )
        self._decided.add(number)

    async def check(self, broker: Broker) -> None:
        # Whoever got no answer says it again; whoever did may do so too.
        for number in self._halves:
            if number not in self._decided or number % 10 == 0:
                await self._decide(broker, number)
        seen: Counter[int] = Counter()
        for queue_id in range(WORKERS):
            seen.update(int(each.body) for each in await broker.read(TOPIC, queue_id))
        wanted = {number for number in self._halves if self._state(number) is Transaction.COMMITTED}
        assert set(seen) == wanted
        assert not set(seen) & self._unanswered, "a half message was seen"
        assert max(seen.values(), default=1) == 1, "committed twice"

    async def finish(self, broker: Broker) -> None:
        await self.check(broker)
        for number in list(self._decided)[:20]:
            half, state = self._halves[number], self._state(number)
            other = Transaction.COMMITTED if state is Transaction.ROLLED_BACK else 12
            with pytest.raises(RequestRejected) as late:
                await broker.ask(
                    EndTransaction(
                        producer_group="p",
                        tran_state_table_offset=half.queue_offset,
                        commit_log_offset=OffsetId.parse(half.msg_id).log_offset,
                        commit_or_rollback=int(other),
                        msg_id=f"T{number}",
                    )
                )
            assert late.value.code in (200, 201)


class Timers(Scenario):
    """Messages for a moment soon; some are taken back; the broker dies as they fall due."""

    span = (20, 150)

    def __init__(self) -> None:
        self._numbers = count()
        self._clock = SystemClock()
        self._due_ms: dict[int, int] = {}
        self._recalled: set[int] = set()
        self._in_doubt: set[int] = set()

    async def step(self, broker: Broker, worker: int) -> None:
        number = next(self._numbers)
        due_ms = self._clock.now_ms() + 300 + number % 7 * 100
        far = number % 5 == 0
        if far:
            due_ms += 5000
        text = f"UNIQ_KEY\x01R{number}\x02TIMER_DELIVER_MS\x01{due_ms}\x02"
        reply = await broker.send(TOPIC, worker, b"%d" % number, properties=text)
        self._due_ms[number] = due_ms
        if far and reply.recall_handle is not None:
            self._in_doubt.add(number)
            await broker.ask(RecallMessage(topic=TOPIC, recall_handle=reply.recall_handle))
            self._in_doubt.discard(number)
            self._recalled.add(number)
        self.progress += 1

    async def check(self, broker: Broker) -> None:
        self._look(await self._all(broker))

    async def _all(self, broker: Broker) -> list[StoredMessage]:
        queues = range(WORKERS)
        return [each for queue_id in queues for each in await broker.read(TOPIC, queue_id)]

    def _look(self, found: list[StoredMessage]) -> set[int]:
        seen = Counter(int(each.body) for each in found)
        assert max(seen.values(), default=1) == 1, "delivered twice"
        assert not set(seen) & self._recalled, "delivered though it was taken back"
        for each in found:
            due_ms = self._due_ms.get(int(each.body))
            assert due_ms is None or each.stored_ms >= due_ms, "delivered early"
        return set(seen)

    async def finish(self, broker: Broker) -> None:
        wanted = set(self._due_ms) - self._recalled - self._in_doubt
        while not self._look(await self._all(broker)) >= wanted:
            await broker.pull(TOPIC, 0, len(await broker.read(TOPIC, 0)), wait=True)


@pytest.mark.parametrize("flush", ["async", "sync"])
async def test_a_transaction_is_seen_once_or_never_whenever_the_broker_dies(
    flush: str, tmp_path: Path
) -> None:
    await live_and_die(tmp_path, Transactions(), KILLS, ["--flush", flush])


async def test_timed_messages_come_once_and_none_too_early_whenever_it_dies(tmp_path: Path) -> None:
    await live_and_die(tmp_path, Timers(), KILLS)
