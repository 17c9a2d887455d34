"""How many retries a message has: as its consumer says, or else its group at the broker.

A group that nobody has set goes by RocketMQ's 16. An ordered consumer does not give a message up by
itself, so these 16 do not count for it: any other number of the group does.
"""

from __future__ import annotations

import logging
from typing import Final

from rocketpipe.client.session import Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.groups import GetGroupConfig

log = logging.getLogger(__name__)

#: What groups have that nobody has set.
USUAL: Final[int] = GroupSettings(name="").max_retries
#: More than there can be.
NO_END: Final = (1 << 31) - 1
#: An operator's change is noticed so soon; a broker that does not say is asked again then.
KNOWN_FOR_MS: Final = 10_000


class RetryLimit:
    """Knows how often a group's messages are tried again."""

    def __init__(self, session: Session, group: str, said: int | None, *, ordered: bool) -> None:
        """Go by what the consumer ``said``, or by the group's settings if it said nothing."""
        self.said = said
        self._session = session
        self._group = group
        self._ordered = ordered
        self._known: dict[str, tuple[int, int]] = {}

    async def at(self, queue: MessageQueue) -> int:
        """How many retries a message of this queue has."""
        if self.said is not None:
            return self.said
        now_ms = self._session.clock.monotonic_ms()
        limit, asked_ms = self._known.get(queue.broker_name, (None, None))
        if limit is None or asked_ms is None or now_ms - asked_ms >= KNOWN_FOR_MS:
            limit = await self._ask(queue, limit)
            self._known[queue.broker_name] = (limit, now_ms)
        return limit

    async def _ask(self, queue: MessageQueue, last: int | None) -> int:
        request = GetGroupConfig(group=self._group, broker_name=queue.broker_name)
        try:
            reply = await self._session.leaders.ask(queue, request, self._session.timeout_ms)
        except RocketPipeError as error:
            log.debug("retries not known group=%s reason=%s", self._group, error)
            found = USUAL if last is None else last
        else:
            found = reply.settings.max_retries
        return NO_END if self._ordered and found == USUAL else found
