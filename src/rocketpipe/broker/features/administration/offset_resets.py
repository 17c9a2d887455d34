"""Has a group go on elsewhere: by a moment, by an offset, in one queue or in all.

    the broker's own table       moved at once, so that a group without members goes on there
    members that pull            their next pull, or the one that waits, is answered "moved"; what
                                 they commit before that is not kept, as it would undo the reset
    members that are told (220)  push consumers drop what they have in hand; those of a broadcast
                                 group keep their places themselves, and know by this alone

Java's clients since 5.0 know by their pulls, as RocketMQ's brokers since then have it: told by a
request they would stop for ten seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, cast

from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.consumer_group import Client
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.clock import Clock
from rocketpipe.errors import ConnectionLost
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeType, MessageModel
from rocketpipe.protocol.codes import Language, PeerVersion
from rocketpipe.protocol.requests.callbacks import ResetConsumerClientOffset, write_reset
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

_LOOK_EVERY_MS: Final = 10_000


class Resets:
    """Moves groups, and tells their members."""

    def __init__(
        self,
        store: MessageStore,
        offsets: OffsetTable,
        clients: ClientTable,
        waiting: WaitingPulls,
        clock: Clock,
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._clients = clients
        self._waiting = waiting
        self._clock = clock

    def at_time(self, topic: str, queue_id: int, at_ms: int) -> QueueOffset:
        """The first offset that was stored at a moment or later; the end, if ``at_ms`` is below 0.

        Raises:
            StoreError: The queue or the log cannot be read.
        """
        least = self._store.min_offset(topic, queue_id)
        end = self._store.max_offset(topic, queue_id)
        if at_ms < 0 or least == end:
            return end
        found = self._store.offset_at_time(topic, queue_id, at_ms)
        return QueueOffset(max(least, min(found, end)))

    def not_ahead(
        self, group: str, topic: str, wanted: Mapping[int, QueueOffset]
    ) -> dict[int, QueueOffset]:
        """The same, but nowhere ahead of where the group is: nothing is skipped."""
        kept: dict[int, QueueOffset] = {}
        for queue_id, offset in wanted.items():
            committed = self._offsets.committed(group, topic, queue_id)
            kept[queue_id] = offset if committed is None else min(offset, committed)
        return kept

    def apply(self, group: str, topic: str, wanted: Mapping[int, QueueOffset]) -> None:
        """Have a group go on from these offsets, by queue.

        Raises:
            TableFull: If there are too many places; those before it are moved.
        """
        members = self._clients.consumer_group(group)
        if members is None or members.model is not MessageModel.BROADCASTING:
            online = self._has_readers(group)
            for queue_id, offset in wanted.items():
                self._offsets.reset(group, topic, queue_id, offset, online=online)
                self._waiting.wake(topic, queue_id)
        log.info("offsets reset group=%s topic=%s queues=%d", group, topic, len(wanted))

    def tell(self, group: str, topic: str, at_ms: int, wanted: Mapping[MessageQueue, int]) -> None:
        """Tell the members that are there, each in the form that its language reads."""
        members = self._clients.consumer_group(group)
        if members is None:
            return
        offsets = {queue: QueueOffset(offset) for queue, offset in wanted.items()}
        everyone = members.model is MessageModel.BROADCASTING
        for member in members.members():
            if not everyone and _knows_by_its_pulls(member.client):
                continue
            body = write_reset(offsets, as_list=member.client.language is Language.CPP)
            told = ResetConsumerClientOffset(
                topic=topic, group=group, timestamp=at_ms, is_force=True, body=body
            )
            try:
                cast("PeerConnection", member.client.connection).tell(told)
            except ConnectionLost:
                continue  # it is about to be forgotten; the table has its place

    async def keep_bounded(self) -> None:
        """Wait for no member for ever; runs as long as the broker does."""
        while True:
            await self._clock.sleep(_LOOK_EVERY_MS)
            self._offsets.drop_resets(self._has_readers)

    def _has_readers(self, group: str) -> bool:
        members = self._clients.consumer_group(group)
        return members is not None and any(
            member.consume_type is not ConsumeType.CONSUME_POP for member in members.members()
        )


def _knows_by_its_pulls(client: Client) -> bool:
    return client.language is Language.JAVA and client.version >= PeerVersion.V5_0_0
