"""Which topics this broker has.

Kept as ``config/topics.json``: the version of the table, and the settings of each topic by its
name; of our own, where the log ended when a topic was deleted, -1 while it is being deleted. What
is in the log before that is not to be seen again, whatever waits there or is found by a start.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from rocketpipe.broker.tables.limits import TableFull, TableLimits
from rocketpipe.broker.tables.watched import Watched
from rocketpipe.errors import InvalidName, RequestRejected
from rocketpipe.model.body import Body, Int64
from rocketpipe.model.names import (
    AUTO_CREATE_TOPIC,
    STAGING_TOPIC,
    SYSTEM_TOPICS,
    TABLES_TOPIC,
    check_topic,
    is_pop_retry_v2,
    is_system_topic,
)
from rocketpipe.model.offsets import LogOffset
from rocketpipe.model.topic import MAX_QUEUES, DataVersion, Perm, TopicSettings
from rocketpipe.protocol.codes import ResponseCode

log = logging.getLogger(__name__)

READ_WRITE: Final = int(Perm.READ | Perm.WRITE)
INHERITABLE: Final = int(Perm.READ | Perm.WRITE | Perm.INHERIT)
_DELETING: Final = -1


class TopicsFile(Body, frozen=True, kw_only=True):
    """The table as it is in its file."""

    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    topics: dict[str, TopicSettings] = msgspec.field(name="topicConfigTable", default_factory=dict)
    deleted: dict[str, Int64] | None = msgspec.field(name="deletedTopics", default=None)


class TopicTable(Watched[str]):
    """Topics by name; every change is a new version."""

    def __init__(
        self,
        default_topic_queues: int,
        *,
        auto_create: bool = True,
        limits: TableLimits | None = None,
    ) -> None:
        """Begin with the pattern of topics that sends create, if they may."""
        super().__init__()
        self._topics: dict[str, TopicSettings] = {}
        self._auto_create = False
        self._default_queues = default_topic_queues
        self._limits = limits or TableLimits()
        self._system: set[str] = set()
        #: Where the log ended when each of these was deleted.
        self._deleted: dict[str, int] = {}
        self._unmade: set[str] = set()
        self.version = DataVersion()
        #: Grows with what is taken over from a leader, whose version may be known already.
        self.replicated = 0
        self.let_sends_create(auto_create, now_ms=0)

    def let_sends_create(self, allowed: bool, now_ms: int) -> None:
        """Let sends create topics, or not; there is a topic that they are created after."""
        self._auto_create = allowed
        if allowed and AUTO_CREATE_TOPIC not in self._topics:
            self._put(
                TopicSettings(
                    name=AUTO_CREATE_TOPIC,
                    read_queues=self._default_queues,
                    write_queues=self._default_queues,
                    perm=INHERITABLE,
                ),
                now_ms,
            )

    def get(self, name: str) -> TopicSettings | None:
        return self._topics.get(name)

    def all(self) -> Mapping[str, TopicSettings]:
        """Every topic, as a copy that does not change under its reader."""
        return dict(self._topics)

    def establish(self, topics: Iterable[TopicSettings], now_ms: int) -> None:
        """Have the broker's own topics; one that is there already stays as it is."""
        for settings in topics:
            self._system.add(settings.name)
            if settings.name not in self._topics:
                self._put(settings, now_ms)

    def is_system(self, name: str) -> bool:
        """Whether a topic is RocketMQ's or this broker's own, so that nobody may change it."""
        return name in self._system or is_system_topic(name)

    def system_topics(self) -> list[str]:
        """The names that no user's topic may have, in order."""
        own = (name for name in self._topics if is_system_topic(name))
        return sorted(self._system | SYSTEM_TOPICS | set(own))

    def create_for_send(
        self, name: str, *, like: str, queues: int, now_ms: int
    ) -> TopicSettings | None:
        """Create a topic after the pattern a send names; None where it may not be inherited.

        Raises:
            TableFull: If there are too many topics.
        """
        pattern = self._topics.get(like)
        if pattern is None or not pattern.perm & Perm.INHERIT or not pattern.write_queues:
            return None
        if like == AUTO_CREATE_TOPIC and not self._auto_create:
            return None
        count = max(1, min(queues, pattern.write_queues))
        return self._create(
            TopicSettings(
                name=name,
                read_queues=count,
                write_queues=count,
                perm=pattern.perm & ~Perm.INHERIT,
                sys_flag=pattern.sys_flag,
            ),
            now_ms,
        )

    def ensure(
        self,
        name: str,
        *,
        queues: int,
        perm: int = READ_WRITE,
        ordered: bool = False,
        now_ms: int,
    ) -> TopicSettings:
        """Give a topic that the broker itself needs, such as a group's retry topic.

        Raises:
            TableFull: If it is not there, and there are too many topics.
        """
        found = self._topics.get(name)
        if found is not None:
            return found
        count = max(1, min(queues, MAX_QUEUES))
        return self._create(
            TopicSettings(
                name=name, read_queues=count, write_queues=count, perm=perm, ordered=ordered
            ),
            now_ms,
        )

    def update(self, settings: TopicSettings, now_ms: int) -> bool:
        """Create a topic, or change it; False if it was just so already.

        Raises:
            InvalidName: If no topic may have this name.
            TableFull: If it is new, and there are too many topics.
        """
        error = _illegal(settings.name)
        if error is not None:
            raise error
        found = self._topics.get(settings.name)
        if found == settings:
            return False
        if found is None:
            self._create(settings, now_ms)
        else:
            self._put(settings, now_ms)
        return True

    def renew(self, now_ms: int) -> None:
        """Begin a new version of the same topics: NameServers look at no other."""
        self.version = self.version.after_change(now_ms)

    def begin_delete(self, name: str, now_ms: int) -> None:
        """Say that a topic is about to be deleted: a start that finds this said deletes it."""
        if name in self._topics:
            self._note_deleted(name, _DELETING, now_ms)

    def delete(self, name: str, now_ms: int, log_end: int = 0) -> bool:
        """Forget a topic, with all that is in the log before ``log_end``; False if there was none.

        A topic of this name that is made later has nothing to do with it.
        """
        if self._topics.pop(name, None) is None:
            return False
        self._note_deleted(name, log_end, now_ms)
        return True

    @contextmanager
    def kept_unmade(self, name: str) -> Iterator[None]:
        """Let nobody make a topic inside the block: what is left of the last one is going."""
        self._unmade.add(name)
        try:
            yield
        finally:
            self._unmade.discard(name)

    def finish_deleting(self, log_end: int, now_ms: int) -> None:
        """Delete what the last run was about to delete."""
        for name in [name for name, at in self._deleted.items() if at == _DELETING]:
            log.info("topic is deleted, as the last run was about to topic=%s", name)
            self.delete(name, now_ms, log_end)

    def was_deleted_since(self, name: str, log_offset: int) -> bool:
        """Whether a topic was deleted after something was stored there in the log."""
        return log_offset < self._deleted.get(name, 0)

    def deleted_to(self, name: str) -> LogOffset:
        """Where the log ended when a topic was deleted last; 0 if that is not known."""
        return LogOffset(max(0, self._deleted.get(name, 0)))

    def deleted(self) -> list[str]:
        """The topics that were deleted and are not there again."""
        return [name for name in self._deleted if name not in self._topics]

    def forget_deleted(self, log_first: int) -> None:
        """Forget those deletions before which the log has nothing any more."""
        gone = [name for name, at in self._deleted.items() if _DELETING < at <= log_first]
        for name in gone:
            del self._deleted[name]

    def _note_deleted(self, name: str, at: int, now_ms: int) -> None:
        self._deleted.pop(name, None)
        self._deleted[name] = at
        self._note(name)
        if len(self._deleted) > self._limits.topics:
            del self._deleted[next(iter(self._deleted))]
        self.version = self.version.after_change(now_ms)

    def adopt(self, name: str, queues: int, now_ms: int) -> None:
        """Know a topic that the store has messages of, with at least so many queues.

        A broker that was killed may have stored messages of a topic just created and not saved.
        """
        found = self._topics.get(name)
        if found is None:
            level = logging.INFO if is_system_topic(name) else logging.WARNING
            log.log(level, "topic is in the store but not in the table topic=%s", name)
            # What only brokers write nobody else is to read, as after replicas were done away with.
            perm = int(Perm.INHERIT) if name in (STAGING_TOPIC, TABLES_TOPIC) else READ_WRITE
            self._put(
                TopicSettings(name=name, read_queues=queues, write_queues=queues, perm=perm), now_ms
            )

    def to_file(self) -> TopicsFile:
        """The table as it is now, without names that could not be read back."""
        topics = {name: topic for name, topic in self._topics.items() if _illegal(name) is None}
        return TopicsFile(version=self.version, topics=topics, deleted=dict(self._deleted) or None)

    def load(self, file: TopicsFile) -> None:
        """Take over a table that was saved: its topics count, and its version."""
        for name, settings in file.topics.items():
            error = _illegal(name)
            if error is not None:
                log.warning("topic left out, no such name is legal: %s", error)
                continue
            self._topics[name] = settings
        self._deleted = dict(file.deleted or {})
        self.version = file.version

    def replicate(
        self,
        topics: Iterable[TopicSettings],
        gone: Iterable[str],
        deleted: Mapping[str, int],
        version: DataVersion,
    ) -> None:
        """Take over what changed at the leader; ``deleted`` has what was deleted, and up to where.

        What this broker itself has to have stays, whoever leads.
        """
        for name in gone:
            if name not in self._system:
                self._topics.pop(name, None)
        for settings in topics:
            error = _illegal(settings.name)
            if error is not None:
                log.warning("topic left out, no such name is legal: %s", error)
                continue
            self._topics[settings.name] = settings
        for name, at in deleted.items():
            self._deleted.pop(name, None)
            self._deleted[name] = at
        while len(self._deleted) > self._limits.topics:
            del self._deleted[next(iter(self._deleted))]
        self.version = version
        self.replicated += 1

    def keep_only(self, topics: Container[str], deleted: Container[str]) -> None:
        """Forget every topic, and every deletion, that the leader does not have."""
        for name in [name for name in self._topics if name not in topics]:
            if name not in self._system:
                del self._topics[name]
        for name in [name for name in self._deleted if name not in deleted]:
            del self._deleted[name]
        self.replicated += 1

    def deletions(self) -> dict[str, int]:
        """Where the log ended when each of these was deleted, of those that are."""
        return {name: at for name, at in self._deleted.items() if at > _DELETING}

    def _create(self, settings: TopicSettings, now_ms: int) -> TopicSettings:
        if settings.name in self._unmade:
            raise RequestRejected(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"topic[{settings.name}] is being deleted: make it again in a moment",
            )
        if len(self._topics) >= self._limits.topics:
            raise TableFull("topics", self._limits.topics, "delete what is not used")
        return self._put(settings, now_ms)

    def _put(self, settings: TopicSettings, now_ms: int) -> TopicSettings:
        self._topics[settings.name] = settings
        self._note(settings.name)
        self.version = self.version.after_change(now_ms)
        return settings


def _illegal(name: str) -> InvalidName | None:
    try:
        # Retry topics of popped messages may have a plus, which no other topic has.
        check_topic(name.replace("+", "_") if is_pop_retry_v2(name) else name)
    except InvalidName as error:
        return error
    return None
