"""The numbers of a push consumer, with RocketMQ's defaults and ranges.

Few users need any: how many messages are in hand, how long a stuck one is waited for, and when
things happen that happen from time to time.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final, Self

from rocketpipe.model.misnomers import check_names

_MIB: Final = 1 << 20
_INT_MAX: Final = (1 << 31) - 1

_RANGES: Final = MappingProxyType(
    {
        "queue_messages": (1, 65_535),
        "queue_mib": (1, 1024),
        "topic_messages": (1, 6_553_500),
        "topic_mib": (1, 102_400),
        "span": (1, 65_535),
        "pull_count": (1, 1024),
        "pull_bytes": (1, _INT_MAX),
        "pull_interval_ms": (0, 65_535),
        "pull_suspend_ms": (0, 600_000),
        "pop_count": (1, 32),
        "pop_in_hand": (1, 65_535),
        "pop_invisible_ms": (5_000, 300_000),
        "max_attempts": (1, _INT_MAX),
        "consume_timeout_ms": (1, _INT_MAX),
        "suspend_queue_ms": (10, 30_000),
        "local_retry_ms": (1, 600_000),
        "failed_pull_ms": (1, 600_000),
        "persist_every_ms": (1, 600_000),
        "lock_every_ms": (1, 600_000),
        "lock_start_ms": (1, 600_000),
        "lock_life_ms": (1, 600_000),
        "release_wait_ms": (0, 600_000),
        "drain_ms": (0, _INT_MAX),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTuning:
    """How a push consumer goes about its work.

    Raises:
        ValueError: If a number is out of its range.
        TypeError: If it has no such setting; the message says which may be meant.
    """

    #: Pulling a queue stops above so many messages, or so many bytes of bodies, in hand.
    queue_messages: int = 1000
    queue_mib: int = 100
    #: The same for all queues of a topic that this consumer has; None: no such limit.
    topic_messages: int | None = None
    topic_mib: int | None = None
    #: How far the greatest offset in hand may be from the smallest, which a slow handler has.
    span: int = 2000
    pull_count: int = 32
    pull_bytes: int = 256 * 1024
    pull_interval_ms: int = 0
    #: How long a broker may hold a pull that finds nothing.
    pull_suspend_ms: int = 15_000
    #: Popping: how many at a time, how many of a broker in hand, and how long they are hidden.
    pop_count: int = 32
    pop_in_hand: int = 96
    pop_invisible_ms: int = 60_000
    #: Attempts before a message is dead, the first included; None: as many as its group has at the
    #: broker (``max_attempts`` there too, 17 if nobody set it, which is no end for who is ordered).
    max_attempts: int | None = None
    #: A message that a handler has had for longer is sent back, and not waited for.
    consume_timeout_ms: int = 15 * 60_000
    #: How long an ordered queue rests after a failure.
    suspend_queue_ms: int = 1000
    #: When a message is tried again here that no broker takes back.
    local_retry_ms: int = 5000
    failed_pull_ms: int = 1000
    persist_every_ms: int = 5000
    lock_every_ms: int = 20_000
    #: A lock that was renewed so long ago starts no handler any more.
    lock_start_ms: int = 30_000
    #: A result that comes so long after the lock was renewed is dropped: another may have the lock.
    lock_life_ms: int = 60_000
    #: How long a queue that is given up waits for its handlers to finish.
    release_wait_ms: int = 500
    #: The same on closing.
    drain_ms: int = 30_000

    def __new__(cls, **given: object) -> Self:
        """Refuse a name that is not known before the numbers are looked at."""
        check_names(cls.__name__, given, _RANGES)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least, most = _RANGES[field.name]
            if value is not None and not least <= value <= most:
                raise ValueError(f"{field.name} {value}: it goes from {least} to {most}")
        if not self.lock_every_ms < self.lock_start_ms <= self.lock_life_ms:
            raise ValueError("lock_every_ms < lock_start_ms <= lock_life_ms must hold")

    def room(self, queues: int) -> Room:
        """What one of so many queues of a topic may have in hand."""
        messages, bytes_ = self.queue_messages, self.queue_mib * _MIB
        if self.topic_messages is not None:
            messages = min(messages, max(1, self.topic_messages // max(1, queues)))
        if self.topic_mib is not None:
            bytes_ = min(bytes_, max(1, self.topic_mib // max(1, queues)) * _MIB)
        return Room(messages, bytes_, self.span)


@dataclass(frozen=True, slots=True)
class Room:
    """What a queue may have in hand before it is pulled no further."""

    messages: int
    bytes: int
    span: int

    def is_left(self, messages: int, bytes_: int, span: int) -> bool:
        """Whether another pull fits; one may bring more than that, so it is no hard limit."""
        return messages <= self.messages and bytes_ <= self.bytes and span <= self.span
