"""Which topics this broker has.

Provisional: kept in memory only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.topic import DataVersion, Perm, TopicSettings

INHERITABLE: Final = int(Perm.READ | Perm.WRITE | Perm.INHERIT)


class TopicTable:
    """Topics by name; every change is a new version."""

    def __init__(self, default_topic_queues: int) -> None:
        self._topics: dict[str, TopicSettings] = {}
        self.version = DataVersion()
        self._put(
            TopicSettings(
                name=AUTO_CREATE_TOPIC,
                read_queues=default_topic_queues,
                write_queues=default_topic_queues,
                perm=INHERITABLE,
            ),
            now_ms=0,
        )

    def get(self, name: str) -> TopicSettings | None:
        return self._topics.get(name)

    def all(self) -> Mapping[str, TopicSettings]:
        """Every topic, as a copy that does not change under its reader."""
        return dict(self._topics)

    def create_for_send(
        self, name: str, *, like: str, queues: int, now_ms: int
    ) -> TopicSettings | None:
        """Create a topic after the pattern a send names; None where it may not be inherited."""
        pattern = self._topics.get(like)
        if pattern is None or not pattern.perm & Perm.INHERIT:
            return None
        count = max(1, min(queues, pattern.write_queues))
        return self._put(
            TopicSettings(
                name=name,
                read_queues=count,
                write_queues=count,
                perm=pattern.perm & ~Perm.INHERIT,
            ),
            now_ms,
        )

    def create_retry_topic(self, name: str, now_ms: int) -> TopicSettings:
        """Create the topic to which a group's failed messages go, unless it is there."""
        found = self._topics.get(name)
        return found or self._put(TopicSettings(name=name, read_queues=1, write_queues=1), now_ms)

    def _put(self, settings: TopicSettings, now_ms: int) -> TopicSettings:
        self._topics[settings.name] = settings
        self.version = self.version.after_change(now_ms)
        return settings
