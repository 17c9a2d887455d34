"""A consumer group's settings, and how long a message that failed waits for its next attempt."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from rocketpipe.model.body import Body, Int32, Int64

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE

#: The eighteen delay levels of RocketMQ, level 1 first.
DELAYS_MS: Final[tuple[int, ...]] = (
    *(seconds * _SECOND for seconds in (1, 5, 10, 30)),
    *(minutes * _MINUTE for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    1 * _HOUR,
    2 * _HOUR,
)

#: A first retry waits the third of the delays: ten seconds, as it always did.
_FIRST_RETRY: Final = 2

_MOST_DOUBLINGS: Final = 32


class RetryPolicyType(StrEnum):
    """Whether waits grow by a factor or are listed."""

    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"


class ExponentialRetry(Body, frozen=True, kw_only=True):
    """Waits that grow by a factor up to a limit, in milliseconds."""

    initial: Int64 = 5 * _SECOND
    limit: Int64 = msgspec.field(name="max", default=2 * _HOUR)
    multiplier: Int64 = 2

    def delay_ms(self, attempts: int) -> int:
        """How long to wait after ``attempts`` failures before this one."""
        doublings = min(max(attempts, 0), _MOST_DOUBLINGS)
        factor: int = self.multiplier**doublings
        return min(self.limit, self.initial * factor)


class CustomizedRetry(Body, frozen=True, kw_only=True):
    """Waits as listed, in milliseconds; the last one repeats."""

    delays: tuple[Int64, ...] = msgspec.field(name="next", default=DELAYS_MS)

    def delay_ms(self, attempts: int) -> int:
        """How long to wait after ``attempts`` failures before this one."""
        if not self.delays:
            return 0
        return self.delays[min(max(attempts, 0) + _FIRST_RETRY, len(self.delays) - 1)]


class RetryPolicy(Body, frozen=True, kw_only=True):
    """Which of the two ways a group waits; without details, the listed delays."""

    type: RetryPolicyType = RetryPolicyType.CUSTOMIZED
    exponential: ExponentialRetry | None = msgspec.field(
        name="exponentialRetryPolicy", default=None
    )
    customized: CustomizedRetry | None = msgspec.field(name="customizedRetryPolicy", default=None)

    def delay_ms(self, attempts: int) -> int:
        """How long a message waits that has failed ``attempts`` times before."""
        chosen = self.exponential if self.type is RetryPolicyType.EXPONENTIAL else self.customized
        return (chosen or CustomizedRetry()).delay_ms(attempts)


class TopicInterest(Body, frozen=True, kw_only=True):
    """A subscription that was declared with the group's settings."""

    topic: str
    expression_type: str | None = None
    expression: str | None = None
    version: Int64 = 0


class GroupSettings(Body, frozen=True, kw_only=True):
    """What a broker keeps about one consumer group."""

    name: str = msgspec.field(name="groupName")
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    ordered: bool = msgspec.field(name="consumeMessageOrderly", default=False)
    #: None and fewer: what fails is not delivered again.
    retry_queues: Int32 = msgspec.field(name="retryQueueNums", default=1)
    #: After so many retries a message goes to the dead letters.
    max_retries: Int32 = msgspec.field(name="retryMaxTimes", default=16)
    retry_policy: RetryPolicy = msgspec.field(name="groupRetryPolicy", default=RetryPolicy())
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    sys_flag: Int32 = msgspec.field(name="groupSysFlag", default=0)
    consume_timeout_minute: Int32 = 15
    subscriptions: tuple[TopicInterest, ...] | None = msgspec.field(
        name="subscriptionDataSet", default=None
    )
    attributes: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def max_attempts(self) -> int:
        """How often a message is tried before it goes to the dead letters, the first included."""
        return self.max_retries + 1
