"""Which consumer groups this broker knows, and what they may not read.

Kept as ``config/subscriptionGroup.json``: the version of the table, the settings of each group by
its name, and bits by group and topic that forbid it something: a 4 forbids to read.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from typing import Final

from rocketpipe.broker.tables.limits import TableFull, TableLimits
from rocketpipe.broker.tables.watched import Watched
from rocketpipe.errors import InvalidName
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import PREDEFINED_GROUPS, check_group, is_system_group
from rocketpipe.model.topic import DataVersion, Perm
from rocketpipe.protocol.requests.groups import GroupTableData

log = logging.getLogger(__name__)


#: The table in its file is the same as in the answer to those who ask for it.
GroupsFile = GroupTableData

#: The bit that forbids a group to read a topic.
FORBID_READ: Final = int(Perm.READ)


class GroupTable(Watched[str]):
    """Consumer groups by name; every change is a new version."""

    def __init__(self, *, auto_create: bool = True, limits: TableLimits | None = None) -> None:
        """Begin with RocketMQ's own groups."""
        super().__init__()
        #: Whether a group that nobody made is made when it first comes.
        self.auto_create = auto_create
        self._limits = limits or TableLimits()
        self._groups = {
            # Whoever consumes in their name is no consumer of a user's.
            name: GroupSettings(name=name, consume_broadcast_enable=True)
            for name in sorted(PREDEFINED_GROUPS)
        }
        self._forbidden: dict[str, dict[str, int]] = {}
        #: Groups that were deleted since somebody last asked (`take_deleted`).
        self._deleted: set[str] = set()
        self.version = DataVersion()
        #: Grows with what is taken over from a leader, whose version may be known already.
        self.replicated = 0

    def get(self, name: str) -> GroupSettings | None:
        return self._groups.get(name)

    def all(self) -> Mapping[str, GroupSettings]:
        """Every group, as a copy that does not change under its reader."""
        return dict(self._groups)

    def update(self, settings: GroupSettings, now_ms: int) -> bool:
        """Create a group, or change it; False if it was just so already.

        Raises:
            InvalidName: If no group may have this name.
            TableFull: If it is new, and there are too many groups.
        """
        check_group(settings.name)
        found = self._groups.get(settings.name)
        if found == settings:
            return False
        if found is None and len(self._groups) >= self._limits.groups:
            raise TableFull("groups", self._limits.groups, "delete what is not used")
        self._groups[settings.name] = settings
        self._note(settings.name)
        self.version = self.version.after_change(now_ms)
        return True

    def ensure(self, name: str, now_ms: int) -> GroupSettings | None:
        """Give a group's settings; a group that comes for the first time gets the usual ones.

        None where groups are to be created by an operator, and this one was not.

        Raises:
            InvalidName: If no group may have this name.
            TableFull: If it is new, and there are too many groups.
        """
        found = self._groups.get(name)
        if found is not None:
            return found
        if not (self.auto_create or is_system_group(name)):
            return None
        self.update(GroupSettings(name=name), now_ms)
        return self._groups[name]

    def delete(self, name: str, now_ms: int) -> bool:
        """Forget a group and what it was forbidden; False if there was none."""
        forbidden = self._forbidden.pop(name, None)
        found = self._groups.pop(name, None)
        if found is not None or forbidden is not None:
            self._note(name)
            self.version = self.version.after_change(now_ms)
        if found is not None:
            self._deleted.add(name)
        return found is not None

    def take_deleted(self) -> set[str]:
        """The groups that were deleted since this was last asked, and are not there again.

        A group that is merely unknown may be one that a killed broker forgot.
        """
        deleted, self._deleted = self._deleted, set()
        return deleted - self._groups.keys()

    def forbidden(self, group: str, topic: str) -> int:
        """The bits that forbid a group something about a topic."""
        return self._forbidden.get(group, {}).get(topic, 0)

    def forbid(self, group: str, topic: str, bits: int, now_ms: int) -> None:
        """Set these bits; 0 allows everything again.

        Raises:
            TableFull: If that is one group or one topic too many.
        """
        if bits == self.forbidden(group, topic):
            return
        self._check_forbidden(group, topic)
        topics = self._forbidden.setdefault(group, {})
        if bits:
            topics[topic] = bits
        else:
            del topics[topic]
            if not topics:
                del self._forbidden[group]
        self._note(group)
        self.version = self.version.after_change(now_ms)

    def _check_forbidden(self, group: str, topic: str) -> None:
        limits = self._limits
        topics = self._forbidden.get(group)
        if topics is None and len(self._forbidden) >= limits.groups:
            raise TableFull("groups that are forbidden something", limits.groups, "allow some")
        if topics and topic not in topics and len(topics) >= limits.forbidden_topics:
            raise TableFull(
                f"topics forbidden to group {group}", limits.forbidden_topics, "allow some"
            )

    def forbidden_of(self, group: str) -> dict[str, int]:
        """The bits that forbid a group something, by topic."""
        return dict(self._forbidden.get(group, ()))

    def forbidden_groups(self) -> list[str]:
        """The groups that are forbidden something, whether they are there or not."""
        return list(self._forbidden)

    def replicate(
        self,
        groups: Iterable[GroupSettings],
        gone: Iterable[str],
        forbidden: Iterable[tuple[str, str, int]],
        version: DataVersion,
    ) -> None:
        """Take over what changed at the leader.

        ``gone`` has the groups that are not there, and what each group is forbidden is all in
        ``forbidden``, behind an entry without a topic; no bits allow everything.
        """
        for name in gone:
            if self._groups.pop(name, None) is not None:
                self._note_deleted(name)
        for settings in groups:
            try:
                check_group(settings.name)
            except InvalidName as error:
                log.warning("group left out, no such name is legal: %s", error)
                continue
            self._groups[settings.name] = settings
        for group, topic, bits in forbidden:
            if not topic:
                self._forbidden.pop(group, None)
            elif bits:
                self._forbidden.setdefault(group, {})[topic] = bits
        self.version = version
        self.replicated += 1

    def _note_deleted(self, name: str) -> None:
        # Nobody asks for them as long as this broker follows.
        if len(self._deleted) < self._limits.groups:
            self._deleted.add(name)

    def keep_only(self, groups: Container[str], forbidden: Container[str]) -> None:
        """Forget every group, and all that was forbidden, of which the leader does not know."""
        for name in [name for name in self._groups if name not in groups]:
            del self._groups[name]
            self._note_deleted(name)
        for name in [name for name in self._forbidden if name not in forbidden]:
            del self._forbidden[name]
        self.replicated += 1

    def to_file(self) -> GroupsFile:
        """The table as it is now."""
        forbidden = {group: dict(topics) for group, topics in self._forbidden.items()}
        return GroupsFile(version=self.version, forbidden=forbidden, groups=dict(self._groups))

    def load(self, file: GroupsFile) -> None:
        """Take over a table that was saved: its groups count, and its version."""
        for name, settings in file.groups.items():
            try:
                check_group(name)
            except InvalidName as error:
                log.warning("group left out, no such name is legal: %s", error)
                continue
            self._groups[name] = settings
        self._forbidden = {group: dict(topics) for group, topics in file.forbidden.items()}
        self.version = file.version
