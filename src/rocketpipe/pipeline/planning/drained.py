"""Brokers that a stream has read from and that are no more.

drained, and all of it had been read      a line, and on
drained, and some of it had not           a gap: an error, or a warning and on
away, and nobody says that it was drained a warning; its queues stay where they are
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.planning.gaps import Gap, OnGap, missing
from rocketpipe.pipeline.planning.offset_reader import OffsetReader
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger("rocketpipe.pipeline")

_away: Final = LogBudget()


class DrainedBrokers:
    """Knows the brokers of one query that it has been told to be gone."""

    def __init__(self, on_gap: OnGap) -> None:
        self._on_gap = on_gap
        self._gone: set[str] = set()

    def skipped(
        self,
        places: OffsetReader,
        read: Mapping[MessageQueue, QueueOffset],
        queues: Sequence[MessageQueue],
    ) -> dict[MessageQueue, QueueOffset]:
        """Where queues ended that were not ``read`` to the end, and are not among ``queues`` now.

        Raises:
            MessagesGone: If what was not read may not be skipped.
        """
        known = {queue.broker_name for queue in queues} | self._gone
        absent = [queue for queue in read if queue.broker_name not in known]
        if not absent:
            return {}
        ends = places.drained(absent)
        found = {queue: end for queue, end in sorted(ends.items()) if read[queue] < end}
        for queue, end in found.items():
            missing(Gap(queue, read[queue], end, is_drained=True), self._on_gap)
        drained = {queue.broker_name for queue in ends}
        for broker in sorted({queue.broker_name for queue in absent}):
            if broker in drained:
                self._gone.add(broker)
                lost = sum(end - read[q] for q, end in found.items() if q.broker_name == broker)
                said = "messages of it were not read" if lost else "all of it had been read"
                log.warning("broker was drained: %s broker=%s unread=%d", said, broker, lost)
            elif _away.allows(broker):
                log.warning(
                    "broker has none of the topics now, and its queues wait for it broker=%s%s",
                    broker,
                    _away.suppressed(),
                )
        return found
