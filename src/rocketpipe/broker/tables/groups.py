"""Which consumer groups this broker knows, and what they may not read.

Kept as ``config/subscriptionGroup.json``: the version of the table, the settings of each group by
its name, and bits by group and topic that forbid it something; bit 0 forbids to read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from rocketpipe.errors import InvalidName
from rocketpipe.model.body import Body, Int32
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import PREDEFINED_GROUPS, check_group
from rocketpipe.model.topic import DataVersion

log = logging.getLogger(__name__)


class GroupsFile(Body, frozen=True, kw_only=True):
    """The table as it is in its file."""

    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    forbidden: dict[str, dict[str, Int32]] = msgspec.field(
        name="forbiddenTable", default_factory=dict
    )
    groups: dict[str, GroupSettings] = msgspec.field(
        name="subscriptionGroupTable", default_factory=dict
    )


class GroupTable:
    """Consumer groups by name; every change is a new version."""

    def __init__(self) -> None:
        self._groups = {
            # Whoever consumes in their name is no consumer of a user's.
            name: GroupSettings(name=name, consume_broadcast_enable=True)
            for name in sorted(PREDEFINED_GROUPS)
        }
        self._forbidden: dict[str, dict[str, int]] = {}
        self.version = DataVersion()

    def get(self, name: str) -> GroupSettings | None:
        return self._groups.get(name)

    def all(self) -> Mapping[str, GroupSettings]:
        """Every group, as a copy that does not change under its reader."""
        return dict(self._groups)

    def put(self, settings: GroupSettings, now_ms: int) -> None:
        """Create a group, or change it.

        Raises:
            InvalidName: If no group may have this name.
        """
        check_group(settings.name)
        if self._groups.get(settings.name) != settings:
            self._groups[settings.name] = settings
            self.version = self.version.after_change(now_ms)

    def create_if_missing(self, name: str, now_ms: int) -> GroupSettings:
        """Give a group's settings; a group that comes for the first time gets the usual ones.

        Raises:
            InvalidName: If no group may have this name.
        """
        found = self._groups.get(name)
        if found is None:
            found = GroupSettings(name=name)
            self.put(found, now_ms)
        return found

    def remove(self, name: str, now_ms: int) -> bool:
        """Forget a group and what it was forbidden; False if there was none."""
        self._forbidden.pop(name, None)
        if self._groups.pop(name, None) is None:
            return False
        self.version = self.version.after_change(now_ms)
        return True

    def forbidden(self, group: str, topic: str) -> int:
        """The bits that forbid a group something about a topic."""
        return self._forbidden.get(group, {}).get(topic, 0)

    def forbid(self, group: str, topic: str, bits: int, now_ms: int) -> None:
        """Set these bits; 0 allows everything again."""
        if bits == self.forbidden(group, topic):
            return
        topics = self._forbidden.setdefault(group, {})
        if bits:
            topics[topic] = bits
        else:
            del topics[topic]
            if not topics:
                del self._forbidden[group]
        self.version = self.version.after_change(now_ms)

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
