"""Which topics this broker has.

Kept as ``config/topics.json``: the version of the table, and the settings of each topic by its
name.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from rocketpipe.errors import InvalidName
from rocketpipe.model.body import Body
from rocketpipe.model.names import AUTO_CREATE_TOPIC, check_topic, is_pop_retry_v2, is_system_topic
from rocketpipe.model.topic import DataVersion, Perm, TopicSettings

log = logging.getLogger(__name__)

INHERITABLE: Final = int(Perm.READ | Perm.WRITE | Perm.INHERIT)


class TopicsFile(Body, frozen=True, kw_only=True):
    """The table as it is in its file."""

    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    topics: dict[str, TopicSettings] = msgspec.field(name="topicConfigTable", default_factory=dict)


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

    def adopt(self, name: str, queues: int, now_ms: int) -> None:
        """Know a topic that the store has messages of, with at least so many queues.

        A broker that was killed may have stored messages of a topic just created and not saved.
        """
        found = self._topics.get(name)
        if found is None:
            level = logging.INFO if is_system_topic(name) else logging.WARNING
            log.log(level, "topic is in the store but not in the table topic=%s", name)
            self._put(TopicSettings(name=name, read_queues=queues, write_queues=queues), now_ms)

    def to_file(self) -> TopicsFile:
        """The table as it is now, without names that could not be read back."""
        topics = {name: topic for name, topic in self._topics.items() if _illegal(name) is None}
        return TopicsFile(version=self.version, topics=topics)

    def load(self, file: TopicsFile) -> None:
        """Take over a table that was saved: its topics count, and its version."""
        for name, settings in file.topics.items():
            error = _illegal(name)
            if error is not None:
                log.warning("topic left out, no such name is legal: %s", error)
                continue
            self._topics[name] = settings
        self.version = file.version

    def _put(self, settings: TopicSettings, now_ms: int) -> TopicSettings:
        self._topics[settings.name] = settings
        self.version = self.version.after_change(now_ms)
        return settings


def _illegal(name: str) -> InvalidName | None:
    try:
        # Retry topics of popped messages may have a plus, which no other topic has.
        check_topic(name.replace("+", "_") if is_pop_retry_v2(name) else name)
    except InvalidName as error:
        return error
    return None
