"""How far each group has come in each queue.

Kept as ``config/consumerOffset.json``, where queues are by topic and group:

    "groupTopicMap":{"billing":["orders"]}        for those who look; nobody reads it back
    "offsetTable":{"orders@billing":{0:17,1:4}}
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from rocketpipe.broker.tables.limits import TableFull
from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import DataVersion

#: Commits are too many for each to be a new version, as they are at RocketMQ's brokers.
COMMITS_A_VERSION: Final = 500
#: Places of all groups together.
MAX_PLACES: Final = 1_000_000

_SEPARATOR: Final = "@"
_HALF: Final = re.compile("[\ud800-\udfff]")


class OffsetsFile(Body, frozen=True, kw_only=True):
    """The table as it is in its file."""

    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    topics_by_group: dict[str, list[str]] = msgspec.field(
        name="groupTopicMap", default_factory=dict
    )
    offsets: dict[str, dict[Int32, Int64]] = msgspec.field(name="offsetTable", default_factory=dict)


class OffsetTable:
    """Committed offsets by group, topic and queue."""

    def __init__(self, *, limit: int = MAX_PLACES) -> None:
        self._limit = limit
        self._offsets: dict[tuple[str, str, int], QueueOffset] = {}
        self.version = DataVersion()
        #: Grows with every change, so that one can tell whether there was any.
        self.changes = 0
        self._changes_at_version = 0
        #: Where members of a group are to go on that have not been told yet.
        self.resets: dict[tuple[str, str, int], QueueOffset] = {}

    def committed(self, group: str, topic: str, queue_id: int) -> QueueOffset | None:
        return self._offsets.get((group, topic, queue_id))

    def commit(self, group: str, topic: str, queue_id: int, offset: QueueOffset) -> None:
        """Keep a group's place. An offset below 0 is what some clients send for "nowhere yet".

        Raises:
            TableFull: If it is one place too many; it was not kept.
        """
        key = (group, topic, queue_id)
        # What a member commits that does not know of a reset yet would undo it.
        if offset < 0 or (self.resets and key in self.resets):
            return
        if len(self._offsets) >= self._limit and key not in self._offsets:
            raise TableFull("places of groups in queues", self._limit, "delete groups not used")
        self._offsets[key] = offset
        self.changes += 1

    def reset(
        self,
        group: str,
        topic: str,
        queue_id: int,
        offset: QueueOffset,
        *,
        online: bool,
    ) -> None:
        """Move a group to another place; if it is online, its next pull there is told so.

        Raises:
            TableFull: If it is one place too many; it was not kept.
        """
        key = (group, topic, queue_id)
        self.resets.pop(key, None)
        self.commit(group, topic, queue_id, offset)
        if online:
            self.resets[key] = offset

    def reset_to(self, group: str, topic: str, queue_id: int, asked: int) -> QueueOffset | None:
        """Where a pull is to go on instead of where it asks to; it is told so once."""
        found = self.resets.pop((group, topic, queue_id), None)
        return None if found == asked else found

    def drop_resets(self, is_online: Callable[[str], bool]) -> None:
        """Wait no longer for the pulls of groups that have nobody to pull: they begin anew."""
        for key in [key for key in self.resets if not is_online(key[0])]:
            del self.resets[key]

    def all(self) -> Iterator[tuple[str, str, int, QueueOffset]]:
        """Group, topic, queue and offset of each place, as they are now."""
        for (group, topic, queue_id), offset in list(self._offsets.items()):
            yield group, topic, queue_id, offset

    def forget_group(self, group: str) -> None:
        """Drop what a group has committed."""
        self._forget([key for key in self._offsets if key[0] == group])

    def forget_topic(self, topic: str) -> None:
        """Drop what any group has committed of a topic."""
        self._forget([key for key in self._offsets if key[1] == topic])

    def _forget(self, keys: list[tuple[str, str, int]]) -> None:
        for key in keys:
            del self._offsets[key]
            self.resets.pop(key, None)
        self.changes += len(keys)

    def to_file(self, now_ms: int) -> OffsetsFile:
        """The table as it is now."""
        if self.changes - self._changes_at_version >= COMMITS_A_VERSION:
            self.version = self.version.after_change(now_ms)
            self._changes_at_version = self.changes
        offsets: defaultdict[str, dict[int, int]] = defaultdict(dict)
        topics: defaultdict[str, set[str]] = defaultdict(set)
        for (group, topic, queue_id), offset in self._offsets.items():
            if not (_is_text(group) and _is_text(topic)):
                continue  # a peer made it up, and the rest is to be saved all the same
            offsets[f"{topic}{_SEPARATOR}{group}"][queue_id] = offset
            topics[group].add(topic)
        return OffsetsFile(
            version=self.version,
            topics_by_group={group: sorted(names) for group, names in topics.items()},
            offsets=dict(offsets),
        )

    def load(self, file: OffsetsFile) -> None:
        """Take over a table that was saved."""
        for name, queues in file.offsets.items():
            topic, separator, group = name.partition(_SEPARATOR)
            if not separator:  # of no group: RocketMQ ignores it too
                continue
            for queue_id, offset in queues.items():
                if offset >= 0:
                    self._offsets[group, topic, queue_id] = QueueOffset(offset)
        self.version = file.version


def _is_text(name: str) -> bool:
    """Whether a name could be read back: no half characters, and no separator but ours."""
    return _SEPARATOR not in name and (name.isascii() or not _HALF.search(name))
