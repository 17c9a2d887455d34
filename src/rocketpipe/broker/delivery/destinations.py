"""Whether the topic is still there that a message has waited for.

it was deleted since the message was stored    the message goes with it
nobody knows it, and nobody deleted it         it is made known again, so that somebody sees it
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from rocketpipe.broker.delivery.topic_supply import TopicSupply
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.message_store import Put

log = logging.getLogger(__name__)

#: So many deleted topics are told of once each, and then once more.
_MOST_TOLD: Final = 1000


class Destinations:
    """Knows the topics to which messages go that have waited."""

    def __init__(self, topics: TopicTable, supply: TopicSupply) -> None:
        self._topics = topics
        self._supply = supply
        self._told: set[str] = set()

    def is_gone(self, topic: str, log_offset: LogOffset) -> bool:
        """Whether a topic was deleted since a message was stored there in the log."""
        if not self._topics.was_deleted_since(topic, log_offset):
            return False
        if topic not in self._told:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told.add(topic)
            log.info(
                "messages that waited for a topic go with it, as it was deleted topic=%s", topic
            )
        return True

    async def make_known(self, puts: Iterable[Put]) -> None:
        """Have the topics that messages go to: a table may have been lost that the log outlived."""
        for put in puts:
            if self._topics.get(put.topic) is None:
                log.warning("topic has messages that waited, and is made again topic=%s", put.topic)
                try:
                    await self._supply.ensured(put.topic, queues=put.queue_id + 1)
                except RequestRejected as error:
                    log.error("topic cannot be made topic=%s reason=%s", put.topic, error)
