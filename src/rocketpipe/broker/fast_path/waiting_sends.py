"""Sends that wait before they show: with a delay, until a moment, or for their producer's word.

They are made what the handlers make of them, and stored with the others of their turn. Whatever
would be refused, or is unusual in another way, is left to the handlers.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketpipe.broker.delivery.single_sends import Sent, SingleSends
from rocketpipe.broker.intake.room import Room
from rocketpipe.broker.intake.sent_properties import SendOptions, waits
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.names import NOT_SENDABLE, is_retry_topic
from rocketpipe.protocol.hot import SendLetters, SendNames
from rocketpipe.store.log.puts import Put


class Waiting(NamedTuple):
    """What is stored of a send, and what its sender is told of it."""

    put: Put
    unique_key: str
    #: Empty if it cannot be taken back.
    recall_handle: str


class WaitingSends:
    """Reads sends that ask for a delay, a moment or a transaction."""

    def __init__(self, singles: SingleSends, topics: TopicTable, room: Room) -> None:
        self._singles = singles
        self._topics = topics
        self._room = room

    def read(
        self, fields: SendLetters | SendNames, body: bytes, born_host: bytes
    ) -> Waiting | None:
        """What to store of a send, if it waits and nothing speaks against it."""
        topic = self._topics.get(fields.topic)
        if (
            topic is None
            or topic.ordered
            or topic.name in NOT_SENDABLE
            or is_retry_topic(topic.name)
            or not 0 <= fields.queue_id < max(topic.write_queues, topic.read_queues)
            or fields.reconsume_times
        ):
            return None
        given = properties.decode(fields.properties)
        try:
            wishes = SendOptions.of(given)
            key = wishes.unique_key
            if not key or not waits(given) or not (wishes.waits or wishes.is_half):
                return None
            sent = Sent(
                body=body,
                properties=fields.properties,
                flag=fields.flag,
                sys_flag=fields.sys_flag,
                born_ms=fields.born_ms,
                born_host=born_host,
                producer_group=fields.producer_group,
            )
            put = self._singles.put(sent, topic, fields.queue_id, wishes, key)
            self._room.check(put)
        except RequestRejected:
            return None  # the handlers say why
        return Waiting(put, key, self._singles.recall_handle(put, key) or "")
