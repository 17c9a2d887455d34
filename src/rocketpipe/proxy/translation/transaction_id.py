"""The transaction id that a gRPC producer is given, and gives back.

It says where the half message is: unique key, broker, offset in the half queue, offset in the log,
separated by blanks. So nothing has to be remembered between a send and its decision: RocketMQ's
proxy keeps that in memory for thirty seconds, and an answer that comes later, after a restart or
through another proxy decides nothing. A forged one is refused by the broker, which looks at what
lies there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocketpipe.errors import InvalidName
from rocketpipe.model.names import check_broker
from rocketpipe.model.offsets import LogOffset, QueueOffset

_MOST: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionId:
    """Where one half message is."""

    unique_key: str
    broker: str
    queue_offset: QueueOffset
    log_offset: LogOffset

    @classmethod
    def parse(cls, text: str) -> TransactionId:
        """Read what was given.

        Raises:
            InvalidName: If it is none.
        """
        kind, shown = "transaction id", text[:64]
        parts = text.split(" ") if len(text) <= _MOST else []
        if len(parts) != 4 or not parts[0]:
            raise InvalidName(kind, shown, "is not the one that the send was answered with")
        key, broker, *numbers = parts
        check_broker(broker)
        if not all(each.isascii() and each.isdigit() and len(each) <= 19 for each in numbers):
            raise InvalidName(kind, shown, "has offsets that are no numbers")
        queue_offset, log_offset = map(int, numbers)
        return cls(
            unique_key=key,
            broker=broker,
            queue_offset=QueueOffset(queue_offset),
            log_offset=LogOffset(log_offset),
        )

    def __str__(self) -> str:
        return f"{self.unique_key} {self.broker} {self.queue_offset} {self.log_offset}"
