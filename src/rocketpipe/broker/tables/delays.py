"""Where each delay level reads on in its queue of the schedule topic.

Kept as ``config/delayOffset.json``: ``"offsetTable":{1:100,2:3}``, by level.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rocketpipe.broker.tables.watched import Watched
from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import DataVersion


class DelaysFile(Body, frozen=True, kw_only=True):
    """The table as it is in its file."""

    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    offsets: dict[Int32, Int64] = msgspec.field(name="offsetTable", default_factory=dict)


class DelayTable(Watched[int]):
    """The next offset to deliver, by level; levels count from 1."""

    def __init__(self) -> None:
        super().__init__()
        self._offsets: dict[int, QueueOffset] = {}
        self.version = DataVersion()
        #: Grows with every change, so that one can tell whether there was any.
        self.changes = 0
        self._changes_at_version = -1

    def next_offset(self, level: int) -> QueueOffset | None:
        """Where a level reads on; None if it never read."""
        return self._offsets.get(level)

    def all(self) -> dict[int, int]:
        """Where each level reads on, as a copy."""
        return dict(self._offsets)

    def advance(self, level: int, offset: QueueOffset) -> None:
        """Note that everything before ``offset`` was delivered."""
        if self._offsets.get(level) != offset:
            self._offsets[level] = offset
            self._note(level)
            self.changes += 1

    def to_file(self, now_ms: int) -> DelaysFile:
        """The table as it is now, in a new version of its own if it changed since the last."""
        self.renew_version(now_ms)
        return DelaysFile(version=self.version, offsets=dict(self._offsets))

    def renew_version(self, now_ms: int) -> None:
        """Begin a new version if something changed since the last."""
        if self._changes_at_version != self.changes:
            self.version = self.version.after_change(now_ms)
            self._changes_at_version = self.changes

    def replicate(self, offsets: Mapping[int, int], version: DataVersion) -> None:
        """Take over where each level reads on at the leader, and its version."""
        self._offsets = {level: QueueOffset(max(at, 0)) for level, at in offsets.items()}
        self.version = version
        self.changes += 1
        self._changes_at_version = self.changes

    def load(self, file: DelaysFile) -> None:
        """Take over a table that was saved."""
        for level, offset in file.offsets.items():
            self._offsets[level] = QueueOffset(max(offset, 0))
        self.version = file.version
        self._changes_at_version = self.changes
