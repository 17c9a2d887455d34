"""What is tried again, how often, and for how long.

    answered, and stored                      done
    stored, but flush or replica in doubt     done; again only with ``not_durable``
    no connection, no leader, not the leader  again, until the time is up
    too few replicas to take it               again, until the time is up
    no answer                                 again
    refused with one of ``codes``             again
    refused otherwise                         an error at once

The time of a send covers all its attempts. Those that failed for want of a leader are not counted:
another one is there soon. With one attempt only, what may have been stored is not sent again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocketpipe.client.leaders import awaits_leader
from rocketpipe.errors import (
    CallTimeout,
    ConnectionLost,
    NoRoute,
    RemoteProtocolError,
    RequestRejected,
    RocketPipeError,
)
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.refusals import stored_nothing

#: Those of RocketMQ 5.x; 4.9 did not try again on SYSTEM_BUSY.
RETRY_CODES: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)

#: What tells of a leader that is gone, or of replicas that are: an asynchronous send goes on too.
_PASSES: Final = frozenset({ResponseCode.SERVICE_NOT_AVAILABLE})

_UNANSWERED: Final = (ConnectionLost, CallTimeout, NoRoute, RemoteProtocolError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a send is tried, and after what: ``Producer(…, retries=Retries(attempts=5))``.

    Raises:
        ValueError: If a number makes no sense.
    """

    #: How often a send is tried in all, apart from waiting for a leader.
    attempts: int = 3
    #: The broker's refusals that another broker may not share.
    codes: frozenset[int] = RETRY_CODES
    #: Whether a message that is stored, but not as safely as asked, is sent to another broker too.
    not_durable: bool = False
    #: The most that one attempt may take, but for the last; None for whatever time is left.
    attempt_timeout_ms: int | None = None

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts {self.attempts}: at least 1, which is a send without retry")
        if self.attempt_timeout_ms is not None and self.attempt_timeout_ms < 1:
            raise ValueError(f"attempt_timeout_ms {self.attempt_timeout_ms}: at least 1")

    def after_error(
        self, error: RocketPipeError, attempt: int, left_ms: int, *, sent: bool = True
    ) -> bool:
        """Whether another attempt follows the ``attempt``-th, counted from 1, which failed so.

        ``sent`` says whether a broker may have got it.
        """
        if left_ms <= 0:
            return False
        if awaits_leader(error) and (self.attempts > 1 or not sent or _stored_nothing(error)):
            return not isinstance(error, RequestRejected) or error.code in self.codes
        if attempt >= self.attempts:
            return False
        if isinstance(error, RequestRejected):
            return error.code in self.codes
        return isinstance(error, _UNANSWERED)

    def after_doubt(self, attempt: int, left_ms: int) -> bool:
        """Whether another attempt follows one whose message is stored, but not surely safe."""
        return self.not_durable and attempt < self.attempts and left_ms > 0

    def time_for(self, attempt: int, left_ms: int) -> int:
        """How long the ``attempt``-th may take, with so much left for all."""
        if self.attempt_timeout_ms is None or attempt >= self.attempts:
            return left_ms
        return min(left_ms, self.attempt_timeout_ms)

    @property
    def unanswered_only(self) -> Retries:
        """The same without the broker's refusals: an asynchronous send tells its callback those.

        That a broker does not lead any more is none of the message's.
        """
        return Retries(
            attempts=self.attempts,
            codes=self.codes & _PASSES,
            not_durable=self.not_durable,
            attempt_timeout_ms=self.attempt_timeout_ms,
        )


def _stored_nothing(error: RocketPipeError) -> bool:
    return isinstance(error, RequestRejected) and stored_nothing(error.code, error.remark)
