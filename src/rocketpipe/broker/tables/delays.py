"""Where each delay level reads on in its queue of the schedule topic.

Kept as ``config/delayOffset.json``: ``"offsetTable":{1:100,2:3}``, by level.
"""

from __future__ import annotations

import msgspec

from rocketpipe.model.body import Body, Int32, Int64
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import DataVersion


class DelaysFile(Body, frozen=True, kw_only=True):
    """The table as it is in its file."""

    version: DataVersion = msgspec.field(name="dataVersion", default=DataVersion())
    offsets: dict[Int32, Int64] = msgspec.field(name="offsetTable", default_factory=dict)


class DelayTable:
    """The next offset to deliver, by level; levels count from 1."""

    def __init__(self) -> None:
        self._offsets: dict[int, QueueOffset] = {}
        self.version = DataVersion()
        #: Grows with every change, so that one can tell whether there was any.
        self.changes = 0

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
            self.changes += 1

    def to_file(self, now_ms: int) -> DelaysFile:
        """The table as it is now, in a new version of its own."""
        self.version = self.version.after_change(now_ms)
        return DelaysFile(version=self.version, offsets=dict(self._offsets))

    def load(self, file: DelaysFile) -> None:
        """Take over a table that was saved."""
        for level, offset in file.offsets.items():
            self._offsets[level] = QueueOffset(max(offset, 0))
        self.version = file.version
