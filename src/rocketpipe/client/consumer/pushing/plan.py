"""How a push consumer consumes, as its application says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketpipe.client.consumer.group.assignment import AVERAGE, Strategy
from rocketpipe.client.consumer.group.offsets import (
    BrokerOffsets,
    FileOffsets,
    OffsetStore,
    offsets_path,
)
from rocketpipe.client.consumer.group.start import Beginnings, StartFrom
from rocketpipe.client.consumer.handling.retry_limit import RetryLimit
from rocketpipe.client.consumer.handling.send_back import SendBack
from rocketpipe.client.consumer.pushing.claims import QueueClaims
from rocketpipe.client.consumer.pushing.locks import QueueLocks
from rocketpipe.client.consumer.tuning import PushTuning
from rocketpipe.client.session import Session
from rocketpipe.model.names import check_consumer_group
from rocketpipe.model.subscription import MessageModel

#: As RocketMQ's consumers have threads.
CONCURRENCY: Final = 20
MAX_CONCURRENCY: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PushPlan:
    """What a group does with its messages; the words are those of ``PushConsumer``.

    Raises:
        InvalidName: If no group of consumers may have this name.
        ValueError: If a number is out of its range, or what is broadcast is to be popped.
    """

    group: str
    start: StartFrom
    ordered: bool = False
    broadcast: bool = False
    #: None leaves it to the brokers.
    pop: bool | None = False
    strategy: Strategy = AVERAGE
    concurrency: int = CONCURRENCY
    tuning: PushTuning = field(default_factory=PushTuning)
    offsets_root: Path | None = None

    def __post_init__(self) -> None:
        check_consumer_group(self.group)
        if self.pop and self.broadcast:
            raise ValueError("what is popped is shared out: broadcast, or pop, but not both")
        if not 1 <= self.concurrency <= MAX_CONCURRENCY:
            wrong = f"concurrency {self.concurrency}"
            raise ValueError(f"{wrong}: it goes from 1 to {MAX_CONCURRENCY}")

    @property
    def model(self) -> MessageModel:
        """Whether members share the messages, or each gets all."""
        return MessageModel.BROADCASTING if self.broadcast else MessageModel.CLUSTERING

    @property
    def locks_queues(self) -> bool:
        """Whether a queue is consumed only by who has locked it at its broker."""
        return self.ordered and not self.broadcast

    def offsets(self, session: Session) -> OffsetStore:
        """Where the group's places are kept: at the brokers, or in a file of who broadcasts."""
        if not self.broadcast:
            return BrokerOffsets(session, self.group, exact=self.start.exact)
        return FileOffsets(offsets_path(session.client_id, self.group, self.offsets_root))

    def claims(self, session: Session, offsets: OffsetStore, beginnings: Beginnings) -> QueueClaims:
        """The queues of a member, none to begin with."""
        locks = None
        if self.locks_queues:
            locks = QueueLocks(session, self.group, self.tuning.lock_life_ms)
        return QueueClaims(
            offsets, locks, start_of=beginnings.of, clock=session.clock, tuning=self.tuning
        )

    def returns(self, session: Session) -> SendBack:
        """What brings back messages that could not be handled."""
        most = self.tuning.max_attempts
        retries = None if most is None else most - 1
        limit = RetryLimit(session, self.group, retries, ordered=self.ordered)
        return SendBack(session, self.group, limit)
