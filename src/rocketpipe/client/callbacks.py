"""What brokers ask of clients, on the connections that clients opened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from rocketpipe.client.members import Member, TakesResets
from rocketpipe.errors import BodyError, RequestRejected
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.callbacks import (
    NotifyConsumerIdsChanged,
    ResetConsumerClientOffset,
    read_reset,
)
from rocketpipe.remoting.router import Call, handles

log = logging.getLogger(__name__)


class CallbackHandlers:
    """Hands what a broker says to the members that it concerns."""

    def __init__(self, members: Callable[[], Iterable[Member]]) -> None:
        self._members = members

    @handles(NotifyConsumerIdsChanged)
    async def ids_changed(self, request: NotifyConsumerIdsChanged, call: Call) -> None:
        group = request.consumer_group
        for member in self._of(group):
            member.on_ids_changed(group)

    @handles(ResetConsumerClientOffset)
    async def reset(self, request: ResetConsumerClientOffset, call: Call) -> None:
        try:
            offsets = read_reset(request.body)
        except BodyError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
        ours = {
            queue: offset
            for queue, offset in offsets.items()
            if queue.topic == request.topic and offset >= 0
        }
        log.info(
            "offsets reset peer=%s group=%s topic=%s queues=%d",
            call.peer.address,
            request.group,
            request.topic,
            len(ours),
        )
        for member in self._of(request.group):
            if isinstance(member, TakesResets):
                member.on_offsets_reset(request.group, ours)

    def _of(self, group: str) -> list[Member]:
        return [
            member
            for member in self._members()
            if any(consumer.group_name == group for consumer in member.consumers())
        ]
