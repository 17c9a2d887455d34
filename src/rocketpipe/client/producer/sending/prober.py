"""Finds out whether brokers that refused messages are there again, without sending one.

Only the rules of 5.x know such brokers, and RocketMQ leaves this off unless it is asked for: every
3 seconds, brokers that were not looked at for 2 are asked for the end of one of their queues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from rocketpipe.client.faults import FaultTable
from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.offsets import GetMaxOffset
from rocketpipe.remoting.caller import Caller

log = logging.getLogger(__name__)

LOOK_EVERY_MS: Final = 3000
PROBE_TIMEOUT_MS: Final = 200

#: Where a broker takes requests, and a queue that it holds; None if no route names it any more.
Whereabouts = Callable[[str], tuple[str, MessageQueue] | None]


class Prober:
    """Asks unreachable brokers for a sign of life."""

    def __init__(
        self, faults: FaultTable, caller: Caller, clock: Clock, whereabouts: Whereabouts
    ) -> None:
        self._faults = faults
        self._caller = caller
        self._clock = clock
        self._whereabouts = whereabouts

    async def run(self) -> None:
        """Look from time to time, for ever."""
        while True:
            await self._clock.sleep(LOOK_EVERY_MS)
            await self.look()

    async def look(self) -> None:
        """Ask each broker whose turn it is, one after another."""
        self._faults.retain(lambda broker: self._whereabouts(broker) is not None)
        for broker in self._faults.to_probe():
            found = self._whereabouts(broker)
            if found is None:
                continue
            address, queue = found
            request = GetMaxOffset(
                topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
            )
            try:
                await self._caller.call(address, request, PROBE_TIMEOUT_MS)
            except RocketPipeError as error:
                log.debug("no sign of life broker=%s reason=%s", broker, error)
            else:
                log.info("broker reachable again broker=%s", broker)
                self._faults.answered(broker)
