"""Messages that show only when their producer has decided so.

    async with producer.transaction("orders", body) as tx:    a half message is stored
        await database.commit(tx.message_id)                  what belongs to it is done
                                                              left normally: it shows, once
                                                              left by an exception: it never does

A broker that hears no decision asks one producer of the group, whichever is there: the ``check``
that the producer was given finds out by the message, as whoever sent it may be gone. A transaction
that is open in this process, or was decided here, needs no ``check`` for that.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from enum import Enum
from types import TracebackType
from typing import Final, Self

from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.retry import Retries
from rocketpipe.client.producer.selectors import Pick
from rocketpipe.client.producer.sending.delivery import Delivery
from rocketpipe.client.producer.sending.outgoing import Checks, Outgoing
from rocketpipe.client.producer.sending.sender import result_of
from rocketpipe.client.session import Session
from rocketpipe.errors import (
    CallTimeout,
    ConnectionLost,
    NoRoute,
    RecordError,
    RequestRejected,
    RocketPipeError,
)
from rocketpipe.model import properties
from rocketpipe.model.flags import Transaction as State
from rocketpipe.model.ids import OffsetId
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.refusals import leader_in
from rocketpipe.protocol.requests.callbacks import CheckTransactionState
from rocketpipe.protocol.requests.transactions import EndTransaction
from rocketpipe.record.codec import RecordView

log = logging.getLogger(__name__)

#: So many questions of brokers are answered at a time; the next ones are asked again later.
MAX_CHECKS: Final = 2000
#: So many decisions are remembered, for brokers that did not hear them.
REMEMBERED: Final = 10_000
#: A half message that is stored twice would be decided once, and asked about for ever after.
_ONCE: Final = Retries(attempts=1)


class Decision(Enum):
    """How a transaction ends; what a ``check`` gives."""

    COMMIT = State.COMMITTED
    ROLLBACK = State.ROLLED_BACK
    #: Not known yet: the broker asks again.
    UNKNOWN = State.NONE


Check = Callable[[RecordView], Decision | Awaitable[Decision]]


class Transactions:
    """The transactions of one producer: begun, ended, and asked about."""

    def __init__(
        self,
        session: Session,
        delivery: Delivery,
        checks: Checks,
        group: str,
        check: Check | None,
    ) -> None:
        """``check`` is asked about transactions of which this process knows nothing."""
        self._session = session
        self._delivery = delivery
        self._checks = checks
        self._group = group
        self._check = check
        #: Those of this process by their ids; UNKNOWN while they are open.
        self._known: OrderedDict[str, Decision] = OrderedDict()
        self._answering: set[asyncio.Task[None]] = set()

    async def begin(
        self, out: Outgoing, immunity_s: int | None, left_ms: int, pick: Pick | None
    ) -> SendResult:
        """Send the half message; what it raises is what ``Delivery`` does."""
        marks = {properties.TRANSACTION_PREPARED: "true", properties.PRODUCER_GROUP: self._group}
        if immunity_s is not None:
            marks[properties.CHECK_IMMUNITY_SECONDS] = str(immunity_s)
        out.properties += properties.encode(marks)
        await self._checks.compress(out)
        self._note(out.message_id, Decision.UNKNOWN)
        try:
            return result_of(out, await self._delivery.deliver(out, left_ms, _ONCE, pick))
        except RocketPipeError:
            # Whether it is stored or not: nobody will go on with it.
            self._note(out.message_id, Decision.ROLLBACK)
            raise

    async def end(self, sent: SendResult, topic: str, decision: Decision, time_ms: int) -> None:
        """Tell the broker, again if it does not answer: of several decisions the first counts.

        Raises:
            RequestRejected: If the transaction has ended otherwise, or is no longer there.
            NoRoute, ConnectionLost, CallTimeout: If the broker does not answer in time; it asks
                for the decision later, and is told then.
        """
        self._note(sent.message_id, decision)
        if decision is Decision.UNKNOWN:
            return
        request = self._request(
            sent.queue_offset,
            OffsetId.parse(sent.offset_id).log_offset,
            sent.message_id,
            topic,
            decision,
        )
        try:
            await self._session.leaders.ask(sent.queue, request, time_ms, patient=True)
        except (ConnectionLost, CallTimeout, NoRoute) as error:
            error.add_note("the broker asks how the transaction ended, and is told then")
            raise

    def _note(self, message_id: str, decision: Decision) -> None:
        self._known[message_id] = decision
        self._known.move_to_end(message_id)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _request(
        self,
        offset: QueueOffset,
        log_offset: LogOffset,
        message_id: str,
        topic: str,
        decision: Decision,
        *,
        asked: bool = False,
    ) -> EndTransaction:
        return EndTransaction(
            producer_group=self._group,
            tran_state_table_offset=offset,
            commit_log_offset=log_offset,
            commit_or_rollback=int(decision.value),
            from_transaction_check=asked,
            msg_id=message_id,
            transaction_id=message_id,
            topic=topic,
        )

    # What brokers ask

    def on_check(self, question: CheckTransactionState, message: RecordView, address: str) -> None:
        """Find out how a transaction ended, and tell the broker at ``address``; does not wait."""
        if len(self._answering) >= MAX_CHECKS:
            log.warning("too many transactions are asked about at once group=%s", self._group)
            return
        task = asyncio.create_task(self._answer(question, message, address), name="check")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def close(self) -> None:
        """Let go of what is not answered yet: the broker asks somebody else."""
        answering = set(self._answering)
        for task in answering:
            task.cancel()
        if answering:
            await asyncio.wait(answering)

    async def _answer(
        self, question: CheckTransactionState, message: RecordView, address: str
    ) -> None:
        try:
            decision = await self._decision(message)
            if decision is Decision.UNKNOWN:
                return
            request = self._request(
                question.tran_state_table_offset,
                question.commit_log_offset,
                message.message_id,
                message.topic,
                decision,
                asked=True,
            )
            await self._tell(address, request)
        except (RocketPipeError, RecordError) as error:
            log.warning("transaction stays open, and is asked about again reason=%s", error)
        except Exception:
            log.exception("a check failed group=%s message=%s", self._group, message.message_id)

    async def _tell(self, address: str, request: EndTransaction) -> None:
        """Tell who asked; or who leads in its place, if that is what it says by now."""
        caller, timeout_ms = self._session.caller, self._session.timeout_ms
        try:
            await caller.call(address, request, timeout_ms)
        except RequestRejected as error:
            leader = leader_in(error.remark)
            if leader is None:
                raise
            await caller.call(leader, request, timeout_ms)

    async def _decision(self, message: RecordView) -> Decision:
        known = self._known.get(message.message_id)
        if known is not None and not (known is Decision.UNKNOWN and self._check):
            return known
        if self._check is None:
            return Decision.UNKNOWN
        decided: object = self._check(message)
        if inspect.isawaitable(decided):
            decided = await decided
        if not isinstance(decided, Decision):
            raise TypeError(
                f"the check returned {decided!r}: Decision.COMMIT, ROLLBACK or UNKNOWN is expected"
            )
        return decided


class Transaction:
    """A half message, and the block at whose end it is decided."""

    def __init__(
        self,
        transactions: Transactions,
        out: Outgoing,
        *,
        immunity_s: int | None,
        timeout_ms: int,
        pick: Pick | None,
    ) -> None:
        """For ``Producer.transaction``."""
        self._transactions = transactions
        self._out = out
        self._immunity_s = immunity_s
        self._timeout_ms = timeout_ms
        self._pick = pick
        self._decision = Decision.COMMIT
        #: Where the half message is, once the block is entered.
        self.sent: SendResult | None = None

    @property
    def message_id(self) -> str:
        """The message's id, by which a check may find out how the transaction ended."""
        return self._out.message_id

    @property
    def decision(self) -> Decision:
        """How it ends if the block is left normally now."""
        return self._decision

    def rollback(self) -> None:
        """Have the message never shown, though the block is left normally."""
        self._decision = Decision.ROLLBACK

    def unknown(self) -> None:
        """Leave it open when the block is left: the broker asks, and the check decides."""
        self._decision = Decision.UNKNOWN

    def commit(self) -> None:
        """Have the message shown when the block is left, which is how it ends if nobody speaks."""
        self._decision = Decision.COMMIT

    async def __aenter__(self) -> Self:
        self.sent = await self._transactions.begin(
            self._out, self._immunity_s, self._timeout_ms, self._pick
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.sent is not None, "entered"
        decision = self._decision
        if error is not None and decision is Decision.COMMIT:
            decision = self._decision = Decision.ROLLBACK
        end = self._transactions.end(self.sent, self._out.topic, decision, self._timeout_ms)
        if error is None:
            await end
            return
        try:
            await end
        except RocketPipeError as reason:
            # The block's own error is what the caller has to hear.
            log.warning("rollback not answered, the broker will ask reason=%s", reason)
