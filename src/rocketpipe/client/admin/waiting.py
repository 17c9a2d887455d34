"""What brokers keep from consumers for now: open transactions, and messages before their moment.

Both are read from the topics in which brokers keep them, so this works with RocketMQ's brokers too.
A transaction is open if its half message is not named by an op message. A timed message waits if
its moment is to come and no recall names it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from rocketpipe.client.admin.fleet import Fleet
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.flags import Transaction
from rocketpipe.model.ids import RecallHandle
from rocketpipe.model.names import (
    HALF_OP_TOPIC,
    HALF_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_GROUP,
)
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import (
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
)
from rocketpipe.protocol.requests.transactions import EndTransaction
from rocketpipe.record.codec import RecordView, view_records

#: So many are listed unless the caller says otherwise.
LISTED: Final = 1000
#: A broker's longest delay, unless it is set otherwise.
LONGEST_MS: Final = 3 * 24 * 3_600_000
_QUEUE: Final = 0
_SECOND_MS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A half message that nobody has decided."""

    broker: str
    topic: str
    message_id: str
    #: Who may be asked about it.
    group: str
    #: How often one of them was.
    checks: int
    born_ms: int
    age_ms: int
    #: Where its half message is: its id, its place in its queue and in the log.
    offset_id: str
    queue_offset: QueueOffset
    log_offset: LogOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedMessage:
    """A message that waits for its moment."""

    broker: str
    topic: str
    message_id: str
    #: When it is delivered, or at the latest where its sender did not name the moment.
    due_ms: int
    #: What ``Producer.recall`` takes.
    recall_handle: str
    offset_id: str


class WaitingAdmin:
    """Lists what waits at brokers, and decides transactions that nobody else will."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def transactions(
        self, *, broker: str | None = None, limit: int = LISTED
    ) -> list[OpenTransaction]:
        """The transactions that are open, the oldest of each broker first.

        Raises:
            NoBroker: If there is none, or none of this name.
            ConnectionLost: If a broker, or every NameServer, is out of reach.
        """
        found: list[OpenTransaction] = []
        for name, address in (await self._fleet.leaders(broker=broker)).items():
            async for each in self._open_at(name, address):
                if len(found) >= limit:
                    return found
                found.append(each)
        return found

    async def decide(self, transaction: OpenTransaction, *, commit: bool) -> None:
        """End a transaction in the place of its producers: consumers get its message, or never.

        Raises:
            NoBroker: If its broker is gone.
            RequestRejected: If it was decided otherwise in the meantime.
            ConnectionLost: If its broker, or every NameServer, is out of reach.
        """
        decision = Transaction.COMMITTED if commit else Transaction.ROLLED_BACK
        request = EndTransaction(
            producer_group=transaction.group,
            tran_state_table_offset=transaction.queue_offset,
            commit_log_offset=transaction.log_offset,
            commit_or_rollback=int(decision),
            msg_id=transaction.message_id,
            transaction_id=transaction.message_id,
            topic=transaction.topic,
            broker_name=transaction.broker,
        )
        leaders = await self._fleet.leaders(broker=transaction.broker)
        await self._fleet.call(leaders[transaction.broker], request)

    async def timed(
        self, *, broker: str | None = None, topic: str | None = None, limit: int = LISTED
    ) -> list[TimedMessage]:
        """The messages that wait for their moment, the first due first; all, or of one topic.

        All that wait at a broker are read, however few are wanted.

        Raises:
            NoBroker: If there is none, or none of this name.
            ConnectionLost: If a broker, or every NameServer, is out of reach.
        """
        found: list[TimedMessage] = []
        for name, address in (await self._fleet.leaders(broker=broker)).items():
            waiting = await self._timed_at(name, address)
            found += (each for each in waiting.values() if topic in (None, each.topic))
        return sorted(found, key=lambda each: (each.due_ms, each.message_id))[:limit]

    async def _open_at(self, broker: str, address: str) -> AsyncIterator[OpenTransaction]:
        now_ms = self._fleet.session.clock.now_ms()
        done: set[int] = set()
        start = await self._place(address, HALF_TOPIC)
        async for op in self._read(
            address, HALF_OP_TOPIC, await self._place(address, HALF_OP_TOPIC)
        ):
            if op.tags == "d":
                named = (_number(text, -1) for text in op.body.decode("latin-1").split(","))
                done.update(offset for offset in named if offset >= start)
        async for half in self._read(address, HALF_TOPIC, start):
            if half.queue_offset in done:
                continue
            said = half.properties
            yield OpenTransaction(
                broker=broker,
                topic=said.get(properties.REAL_TOPIC, ""),
                message_id=half.message_id,
                group=said.get(properties.PRODUCER_GROUP, ""),
                checks=_number(said.get(properties.TRANSACTION_CHECK_TIMES), 0),
                born_ms=half.born_ms,
                age_ms=max(0, now_ms - half.born_ms),
                offset_id=half.offset_id,
                queue_offset=half.queue_offset,
                log_offset=half.log_offset,
            )

    async def _timed_at(self, broker: str, address: str) -> Mapping[str, TimedMessage]:
        now_ms = self._fleet.session.clock.now_ms()
        request = SearchOffsetByTimestamp(
            topic=TIMER_TOPIC, queue_id=_QUEUE, timestamp=now_ms - LONGEST_MS - _SECOND_MS
        )
        start = (await self._fleet.call(address, request)).offset
        waiting: dict[str, TimedMessage] = {}
        async for record in self._read(address, TIMER_TOPIC, start):
            said = record.properties
            recalled = said.get(properties.TIMER_DEL_UNIQ_KEY)
            if recalled is not None:
                waiting.pop(recalled, None)
                continue
            topic, out_ms = said.get(properties.REAL_TOPIC), said.get(properties.TIMER_OUT_MS)
            due_ms = _due_ms(said)
            if topic is None or due_ms is None or due_ms <= now_ms:
                continue
            handle = RecallHandle(
                topic=topic,
                broker=broker,
                deliver_ms=_number(out_ms, 0) + 1,
                unique_key=record.message_id,
            )
            waiting[f"{topic}+{record.message_id}"] = TimedMessage(
                broker=broker,
                topic=topic,
                message_id=record.message_id,
                due_ms=due_ms,
                recall_handle=str(handle),
                offset_id=record.offset_id,
            )
        return waiting

    async def _place(self, address: str, topic: str) -> QueueOffset:
        """How far the broker has come in one of its topics."""
        request = QueryConsumerOffset(
            consumer_group=TRANSACTION_GROUP, topic=topic, queue_id=_QUEUE
        )
        try:
            return (await self._fleet.call(address, request)).offset
        except RequestRejected as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
        least = GetMinOffset(topic=topic, queue_id=_QUEUE)
        return (await self._fleet.call(address, least)).offset

    async def _read(
        self, address: str, topic: str, offset: QueueOffset
    ) -> AsyncIterator[RecordView]:
        """Every message of a broker's own queue from ``offset`` to its end, as that is now."""
        end: int | None = None
        while end is None or offset < end:
            reply = await self._fleet.pull(address, topic, _QUEUE, offset)
            end = reply.max_offset if end is None else end
            for record in view_records(reply.messages):
                yield record
            if reply.next_begin_offset <= offset:
                return
            offset = reply.next_begin_offset


def _due_ms(said: Mapping[str, str]) -> int | None:
    out_ms = _number(said.get(properties.TIMER_OUT_MS), -1)
    if out_ms < 0:
        return None
    moment = _number(said.get(properties.TIMER_DELIVER_MS), -1)
    # RocketMQ rounds down to the second, or to the one before.
    return moment if out_ms <= moment <= out_ms + 2 * _SECOND_MS else out_ms + _SECOND_MS


def _number(text: str | None, otherwise: int) -> int:
    if text and text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    return otherwise
