"""Answers to the decisions of producers about their half messages, checked as RocketMQ does it:

the half message is not there               1
its immunity is over, and nobody asked      604: the check decides
another group, or another place             1
"""

from __future__ import annotations

import logging
from typing import Final

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.features.transactions.decisions import Decisions
from rocketpipe.broker.features.transactions.open_transactions import Outcome
from rocketpipe.broker.intake.intake import Intake, unavailable
from rocketpipe.clock import Clock
from rocketpipe.errors import InvalidName, RecordError, RequestRejected, StoreError
from rocketpipe.model import properties
from rocketpipe.model.flags import Transaction
from rocketpipe.model.ids import OffsetId
from rocketpipe.model.names import HALF_TOPIC
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.transactions import EndTransaction, ResumeChecks
from rocketpipe.record.codec import RecordView
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

_OUTCOMES: Final = {
    int(Transaction.COMMITTED): Outcome.COMMITTED,
    int(Transaction.ROLLED_BACK): Outcome.ROLLED_BACK,
}


class TransactionHandlers:
    """Ends transactions as their producers say, and has operators resume those given up."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        intake: Intake,
        decisions: Decisions,
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = store
        self._intake = intake
        self._decisions = decisions
        self._clock = clock

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings from now on."""
        self._config = config

    @handles(EndTransaction)
    async def end(self, request: EndTransaction, call: Call) -> None:
        if request.commit_or_rollback == Transaction.NONE:
            return  # it does not know yet, and is asked again
        outcome = _OUTCOMES.get(request.commit_or_rollback)
        if outcome is None:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"commitOrRollback is {request.commit_or_rollback}: 8 commits, 12 rolls back, "
                "0 leaves it open",
            )
        self._intake.admit()
        half = self._half(request.commit_log_offset)
        self._check_immunity(request, half)
        _check_place(request, half)
        try:
            await self._decisions.end(half, outcome)
        except StoreError as error:
            raise unavailable(error) from error

    @handles(ResumeChecks)
    async def resume(self, request: ResumeChecks, call: Call) -> None:
        self._intake.admit()
        try:
            at = OffsetId.parse(request.msg_id or "").log_offset
        except InvalidName as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        try:
            await self._decisions.resume(RecordView(self._store.record_at(at)))
        except (StoreError, RecordError) as error:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"no message is at {request.msg_id}: {error}"
            ) from error
        log.info("transaction is asked about again by request offset_id=%s", request.msg_id)

    def _half(self, at: LogOffset) -> RecordView:
        try:
            half = RecordView(self._store.record_at(at))
        except (StoreError, RecordError) as error:
            raise _missing(str(error)) from error
        if half.topic != HALF_TOPIC:
            raise _missing(f"what is at {at} is no half message")
        return half

    def _check_immunity(self, request: EndTransaction, half: RecordView) -> None:
        text = half.properties.get(properties.CHECK_IMMUNITY_SECONDS)
        if text is None or request.from_transaction_check:
            return
        asked_ms = 1000 * int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
        immune_ms = max(asked_ms, self._config.transaction_timeout_ms)
        # Not since it was born: that is by the clock of its producer, which may be behind.
        if self._clock.now_ms() - half.stored_ms > immune_ms:
            raise RequestRejected(
                ResponseCode.ILLEGAL_OPERATION,
                f"its immunity of {immune_ms} ms is over: the broker asks, and that answer decides",
            )


def _check_place(request: EndTransaction, half: RecordView) -> None:
    remark = None
    if half.properties.get(properties.PRODUCER_GROUP) != request.producer_group:
        remark = "The producer group wrong"
    elif half.queue_offset != request.tran_state_table_offset:
        remark = "The transaction state table offset wrong"
    elif half.log_offset != request.commit_log_offset:
        remark = "The commit log offset wrong"
    if remark is not None:
        raise RequestRejected(ResponseCode.SYSTEM_ERROR, remark)


def _missing(reason: str) -> RequestRejected:
    return RequestRejected(
        ResponseCode.SYSTEM_ERROR, f"Find prepared transaction message failed: {reason}"
    )
