"""How far each group has come in each queue.

Kept as ``config/consumerOffset.json``, where queues are by topic and group:

    "groupTopicMap":{"billing":["orders"]}        for those who look; nobody reads it back
    "offsetTable":{"orders@billing":{0:17,1:4}}
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from rocketpipe.broker.tables.limits import TableFull
from rocketpipe.broker.tables.watched import Watched
from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import DataVersion
from rocketpipe.protocol.json_dialect import quote

#: Commits are too many for each to be a new version, as they are at RocketMQ's brokers.
COMMITS_A_VERSION: Final = 500
#: Places of all groups together, and what their file may take: a longer one is not read again.
MAX_PLACES: Final = 1_000_000
MAX_FILE_BYTES: Final = 192 << 20

#: Topic and group as the file has them, queue, and offset or -1 for a place that is gone.
Change: TypeAlias = tuple[str, int, int]

_SEPARATOR: Final = "@"
_GONE: Final = -1
#: A queue, its offset and what stands around them; and what stands around names.
_PLACE_BYTES: Final = 36
_PAIR_BYTES: Final = 32
_HALF: Final = re.compile("[\ud800-\udfff]")


class OffsetsFile(Body, frozen=True, kw_only=True):
    """The table as it is in its file."""

    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    topics_by_group: dict[str, list[str]] = msgspec.field(
        name="groupTopicMap", default_factory=dict
    )
    offsets: dict[str, dict[Int32, Int64]] = msgspec.field(name="offsetTable", default_factory=dict)


class OffsetTable(Watched[tuple[str, str, int]]):
    """Committed offsets by group, topic and queue.

    What is given out for saving, `take_changed` and `pieces`, may be used on another thread while
    this one goes on: each step there reads one value, or copies one group's places in a topic.
    """

    def __init__(self, *, limit: int = MAX_PLACES, max_bytes: int = MAX_FILE_BYTES) -> None:
        super().__init__()
        self._limit = limit
        self._max_bytes = max_bytes
        self._bytes = 0
        self._places: dict[tuple[str, str], dict[int, QueueOffset]] = {}
        self._topics_of: dict[str, dict[str, None]] = {}
        self._groups_of: dict[str, dict[str, None]] = {}
        self._count = 0
        self.version = DataVersion()
        #: Grows with every change, so that one can tell whether there was any.
        self.changes = 0
        self._changes_at_version = 0
        self._changed: set[tuple[str, str, int]] = set()
        #: Where members of a group are to go on that have not been told yet.
        self.resets: dict[tuple[str, str, int], QueueOffset] = {}
        #: Groups that had places which are lost: where they have none, they begin at the start.
        self.lost_groups: Container[str] = ()

    def __len__(self) -> int:
        return self._count

    def committed(self, group: str, topic: str, queue_id: int) -> QueueOffset | None:
        places = self._places.get((group, topic))
        return None if places is None else places.get(queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: QueueOffset) -> None:
        """Keep a group's place. An offset below 0 is what some clients send for "nowhere yet".

        Raises:
            TableFull: If it is one place too many; it was not kept.
        """
        key = (group, topic, queue_id)
        # What a member commits that does not know of a reset yet would undo it.
        if offset < 0 or (self.resets and key in self.resets):
            return
        places = self._places.get((group, topic))
        if places is None or queue_id not in places:
            if self._count >= self._limit:
                raise TableFull("places of groups in queues", self._limit, "delete groups not used")
            if self._bytes + _PLACE_BYTES + _pair_bytes(group, topic) > self._max_bytes:
                raise TableFull(
                    "bytes of places of groups", self._max_bytes, "delete groups not used"
                )
            self._set(group, topic, queue_id, offset)
        else:
            places[queue_id] = offset
        self._changed.add(key)
        if self._news is not None:
            self._news.add(key)
        self.changes += 1

    def _set(self, group: str, topic: str, queue_id: int, offset: QueueOffset) -> None:
        places = self._places.get((group, topic))
        if places is None:
            places = self._places[group, topic] = {}
            self._topics_of.setdefault(group, {})[topic] = None
            self._groups_of.setdefault(topic, {})[group] = None
            self._bytes += _pair_bytes(group, topic)
        if queue_id not in places:
            self._count += 1
            self._bytes += _PLACE_BYTES
        places[queue_id] = offset

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
        key = (group, topic, queue_id)
        found = self.resets.pop(key, None)
        if found is not None:
            self._note(key)
        return None if found == asked else found

    def drop_resets(self, is_online: Callable[[str], bool]) -> None:
        """Wait no longer for the pulls of groups that have nobody to pull: they begin anew."""
        for key in [key for key in self.resets if not is_online(key[0])]:
            del self.resets[key]
            self._note(key)

    def all(self) -> Iterator[tuple[str, str, int, QueueOffset]]:
        """Group, topic, queue and offset of each place, as they are now."""
        for (group, topic), places in list(self._places.items()):
            for queue_id, offset in list(places.items()):
                yield group, topic, queue_id, offset

    def pairs(self) -> list[tuple[str, str]]:
        """Groups and topics in which they have places."""
        return list(self._places)

    def topics_of(self, group: str) -> list[str]:
        """The topics that a group has places in."""
        return list(self._topics_of.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have places in a topic."""
        return list(self._groups_of.get(topic, ()))

    def places(self, group: str, topic: str) -> dict[int, QueueOffset]:
        """A group's places in a topic, by queue."""
        return dict(self._places.get((group, topic), ()))

    def forget_group(self, group: str) -> None:
        """Drop what a group has committed."""
        self._forget([(group, topic) for topic in self.topics_of(group)])

    def forget_topic(self, topic: str) -> None:
        """Drop what any group has committed of a topic."""
        self._forget([(group, topic) for group in self.groups_of(topic)])

    def _forget(self, pairs: list[tuple[str, str]]) -> None:
        for group, topic in pairs:
            for queue_id in list(self._places[group, topic]):
                self._unset(group, topic, queue_id)
                self.resets.pop((group, topic, queue_id), None)
                self._changed.add((group, topic, queue_id))
                self._note((group, topic, queue_id))
                self.changes += 1

    def _unset(self, group: str, topic: str, queue_id: int) -> None:
        places = self._places.get((group, topic), {})
        if places.pop(queue_id, None) is None:
            return
        self._count -= 1
        self._bytes -= _PLACE_BYTES
        if not places:
            self._bytes -= _pair_bytes(group, topic)
            del self._places[group, topic]
            for index, name, other in (
                (self._topics_of, group, topic),
                (self._groups_of, topic, group),
            ):
                del index[name][other]
                if not index[name]:
                    del index[name]

    # At a replica

    def replicate(
        self, group: str, topic: str, places: Mapping[int, int], resets: Container[int] = ()
    ) -> None:
        """Take over a group's places of the leader's, -1 for none.

        Of ``resets`` its members have not been told yet.
        """
        for queue_id, offset in places.items():
            self._replicate(group, topic, queue_id, offset)
            if queue_id in resets and offset >= 0:
                self.resets[group, topic, queue_id] = QueueOffset(offset)

    def _replicate(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        key = (group, topic, queue_id)
        self.resets.pop(key, None)
        if offset < 0:
            self._unset(*key)
        else:
            self._set(*key, QueueOffset(offset))
        self._changed.add(key)
        self.changes += 1

    def keep_only(self, places: Mapping[tuple[str, str], Collection[int]]) -> None:
        """Forget every place that the leader does not have: its queues by group and topic."""
        for pair, mine in list(self._places.items()):
            theirs = places.get(pair, ())
            if len(mine) != len(theirs):
                for queue_id in mine.keys() - set(theirs):
                    self._replicate(*pair, queue_id, _GONE)

    def take_version(self, version: DataVersion) -> None:
        """Have the leader's version: all that changed until now is in it."""
        self.version = version
        self._changes_at_version = self.changes

    # To be saved

    def take_changed(self) -> set[tuple[str, str, int]]:
        """Which places changed since this was last asked."""
        changed, self._changed = self._changed, set()
        return changed

    def put_back_changed(self, changed: set[tuple[str, str, int]]) -> None:
        """These could not be saved."""
        self._changed.update(changed)

    def can_be_kept(self, group: str, topic: str) -> bool:
        """Whether these names could be read back from a file."""
        return _is_text(group) and _is_text(topic)

    def change(self, key: tuple[str, str, int]) -> Change | None:
        """A place as a journal has it; None if it cannot be read back, and so is not saved."""
        group, topic, queue_id = key
        if not self.can_be_kept(group, topic):
            return None
        offset = self.committed(group, topic, queue_id)
        return (f"{topic}{_SEPARATOR}{group}", queue_id, _GONE if offset is None else offset)

    def replay(self, changes: list[Change]) -> None:
        """Take over what changed after a table was saved."""
        for name, queue_id, offset in changes:
            topic, separator, group = name.partition(_SEPARATOR)
            if not separator:
                continue
            if offset < 0:
                self._unset(group, topic, queue_id)
            else:
                self._set(group, topic, queue_id, QueueOffset(offset))

    def pieces(self, now_ms: int) -> Iterator[str]:
        """The text of the file, a group's or topic's part at a time.

        What changes meanwhile may be in it or not: the journal of those changes says.
        """
        self.renew_version(now_ms)
        version = self.version
        yield (
            f'{{\n\t"dataVersion":{{\n\t\t"counter":{version.counter},\n\t\t"stateVersion":'
            f'{version.state_version},\n\t\t"timestamp":{version.timestamp}\n\t}},'
            '\n\t"groupTopicMap":{'
        )
        comma = ""
        for group in list(self._topics_of):
            topics = sorted(filter(_is_text, self.topics_of(group)))
            if topics and _is_text(group):
                names = ",\n\t\t\t".join(map(quote, topics))
                yield f"{comma}\n\t\t{quote(group)}:[\n\t\t\t{names}\n\t\t]"
                comma = ","
        yield ('\n\t},\n\t"offsetTable":{' if comma else '},\n\t"offsetTable":{')
        comma = ""
        for group, topic in list(self._places):
            places = self.places(group, topic)
            if places and _is_text(group) and _is_text(topic):
                name = quote(f"{topic}{_SEPARATOR}{group}")
                lines = ",\n\t\t\t".join([f"{queue}:{at}" for queue, at in places.items()])
                yield f"{comma}\n\t\t{name}:{{\n\t\t\t{lines}\n\t\t}}"
                comma = ","
        yield "\n\t}\n}" if comma else "}\n}"

    def to_file(self, now_ms: int) -> OffsetsFile:
        """The table as it is now."""
        self.renew_version(now_ms)
        offsets: dict[str, dict[int, int]] = {}
        topics: defaultdict[str, set[str]] = defaultdict(set)
        for (group, topic), places in self._places.items():
            if not (_is_text(group) and _is_text(topic)):
                continue  # a peer made it up, and the rest is to be saved all the same
            offsets[f"{topic}{_SEPARATOR}{group}"] = dict(places)
            topics[group].add(topic)
        return OffsetsFile(
            version=self.version,
            topics_by_group={group: sorted(names) for group, names in topics.items()},
            offsets=offsets,
        )

    def renew_version(self, now_ms: int) -> None:
        """Begin a new version if there were many changes since the last."""
        if self.changes - self._changes_at_version >= COMMITS_A_VERSION:
            self.version = self.version.after_change(now_ms)
            self._changes_at_version = self.changes

    def load(self, file: OffsetsFile) -> None:
        """Take over a table that was saved."""
        for name, queues in file.offsets.items():
            topic, separator, group = name.partition(_SEPARATOR)
            if not separator:  # of no group: RocketMQ ignores it too
                continue
            for queue_id, offset in queues.items():
                if offset >= 0:
                    self._set(group, topic, queue_id, QueueOffset(offset))
        self.version = file.version


def _pair_bytes(group: str, topic: str) -> int:
    """What a group and a topic take at the most in the file, where both stand twice."""
    names = group + topic
    # A character that has to be escaped takes six bytes, and none takes more.
    plain = names.isascii() and names.isprintable() and '"' not in names and "\\" not in names
    return _PAIR_BYTES + 2 * len(names) * (1 if plain else 6)


def _is_text(name: str) -> bool:
    """Whether a name could be read back: no half characters, and no separator but ours."""
    return _SEPARATOR not in name and (name.isascii() or not _HALF.search(name))
