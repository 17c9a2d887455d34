"""Offsets that a read counted on and that are no more."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, Literal

from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger("rocketpipe.pipeline")

OnGap = Literal["fail", "skip"]

_gaps: Final = LogBudget()


@dataclass(frozen=True, slots=True)
class Gap:
    """A run of missing offsets in one queue: from ``first``, going on at ``following``."""

    queue: MessageQueue
    first: QueueOffset
    following: QueueOffset
    #: Whether the queue was made anew: ``first`` is how far it was read before that.
    is_anew: bool = False
    #: Whether its broker was drained before they were read.
    is_drained: bool = False

    @property
    def count(self) -> int:
        """How many offsets are missing."""
        return self.following - self.first

    def __str__(self) -> str:
        if self.is_anew:
            return (
                f"topic {self.queue.topic!r}: queue {self.queue.queue_id} of broker "
                f"{self.queue.broker_name!r} was deleted and made anew since it was read up to "
                f"{self.first}, and begins at {self.following} again"
            )
        if self.is_drained:
            return (
                f"topic {self.queue.topic!r}: broker {self.queue.broker_name!r} was drained before "
                f"messages {self.first} to {self.following - 1} of its queue "
                f"{self.queue.queue_id} were read ({self.count} of them; they are in "
                f"drained/{self.queue.broker_name} of its directory, if that was not deleted)"
            )
        return (
            f"topic {self.queue.topic!r}: queue {self.queue.queue_id} of broker "
            f"{self.queue.broker_name!r} has no messages {self.first} to {self.following - 1} "
            f"any more ({self.count} of them)"
        )


class MessagesGone(RocketPipeError):
    """Messages that were to be read have aged out, or their topic was made anew."""

    hint = "read from what is left with another start, or go on without them with onGap=skip"

    def __init__(self, gap: Gap) -> None:
        super().__init__(f"{gap}: {self.hint}")
        self.gap = gap

    def __reduce__(self) -> tuple[type[MessagesGone], tuple[Gap]]:
        return type(self), (self.gap,)


def missing(gap: Gap, on_gap: OnGap) -> None:
    """Say that messages are missing: as an error, or in the log where they may be skipped.

    Raises:
        MessagesGone: If they may not.
    """
    if on_gap == "fail":
        raise MessagesGone(gap)
    if gap.is_anew:
        log.warning("queue is read from its start gap=%s", gap)
    elif _gaps.allows():
        log.warning(
            "messages skipped topic=%s broker=%s queue=%d from=%d to=%d count=%d%s",
            gap.queue.topic,
            gap.queue.broker_name,
            gap.queue.queue_id,
            gap.first,
            gap.following - 1,
            gap.count,
            _gaps.suppressed(),
        )
