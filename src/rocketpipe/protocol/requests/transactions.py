"""Requests that decide a transactional message."""

from __future__ import annotations

from dataclasses import dataclass

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, wire
from rocketpipe.protocol.request import Request, request


@request(RequestCode.END_TRANSACTION)
@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction(Request[None]):
    """Show a half message to consumers, or drop it."""

    producer_group: str
    #: Where the half message lies in its queue, and in the log.
    tran_state_table_offset: QueueOffset
    commit_log_offset: LogOffset
    #: The transaction bits of a sysFlag: 8 commits, 12 rolls back, 0 leaves it undecided.
    commit_or_rollback: I32
    #: Whether the broker asked, or the producer comes by itself.
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None
    topic: str | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.RESUME_CHECK_HALF_MESSAGE)
@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeChecks(Request[None]):
    """Have a transaction asked about again, from the first check on, that was given up or may be.

    It is one for operators: RocketMQ's brokers put what nobody decided into a topic of its own.
    """

    topic: str | None = None
    #: The offset id of the half message, or of where it was put when it was given up.
    msg_id: str | None = None
