"""Tells brokers how far a query has come, as the progress of a consumer group."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.broker.offsets import BrokerOffsets
from rocketpipe.pipeline.options.securing import Access
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger("rocketpipe.pipeline")

_untold = LogBudget()


class GroupProgress:
    """What was told of one group; only what has changed is told again."""

    def __init__(self, name_servers: str, group: str, access: Access | None = None) -> None:
        self._places = BrokerOffsets(name_servers, group, access)
        self._group = group
        self._told: dict[MessageQueue, QueueOffset] = {}

    def tell(self, ends: Mapping[MessageQueue, QueueOffset]) -> None:
        """Tell what has changed; what fails is logged, and told again next time."""
        changed = {queue: end for queue, end in ends.items() if self._told.get(queue) != end}
        if not changed:
            return
        try:
            if self._places.commit(changed):
                self._told.update(changed)
        except RocketPipeError as error:
            if _untold.allows(error):
                log.warning(
                    "progress not told group=%s reason=%s%s",
                    self._group,
                    error,
                    _untold.suppressed(),
                )

    def close(self) -> None:
        """End the connections."""
        self._places.close()
