"""Whether the topic is still there that a message has waited for.

it was deleted since the message was stored    the message goes with it
nobody knows it, and nobody deleted it         it is made known again, so that somebody sees it
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.log.puts import Put

log = logging.getLogger(__name__)

#: So many deleted topics are told of once each, and then once more.
_MOST_TOLD: Final = 1000
#: No topic was deleted behind it.
_NEVER: Final = LogOffset(1 << 62)


class Destinations:
    """Knows the topics to which messages go that have waited."""

    def __init__(self, topics: TopicTable, topic_provider: TopicProvider) -> None:
        self._topics = topics
        self._topic_provider = topic_provider
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

    def first_gone(self, topics: Iterable[tuple[str, LogOffset]]) -> str | None:
        """One that was deleted since, of topics with places in the log; None if none was."""
        return next((topic for topic, at in topics if self.is_gone(topic, at)), None)

    async def make_topic_known(self, topic: str, queue_id: int, log_offset: LogOffset) -> None:
        """Have the topic of a message, unless it is gone: a lost table may have had it."""
        if self._topics.get(topic) is None and not self.is_gone(topic, log_offset):
            log.warning("topic has messages that waited, and is made again topic=%s", topic)
            try:
                await self._topic_provider.ensured(topic, queues=queue_id + 1)
            except RequestRejected as error:
                log.error("topic cannot be made topic=%s reason=%s", topic, error)

    async def make_known(self, puts: Iterable[Put]) -> None:
        """Have the topics of messages that are about to be stored."""
        for put in puts:
            await self.make_topic_known(put.topic, put.queue_id, _NEVER)
