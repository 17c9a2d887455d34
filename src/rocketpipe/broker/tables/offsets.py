"""How far each group has come in each queue.

Provisional: kept in memory only.
"""

from __future__ import annotations

from rocketpipe.model.offsets import QueueOffset


class OffsetTable:
    """Committed offsets by group, topic and queue."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str, int], QueueOffset] = {}

    def committed(self, group: str, topic: str, queue_id: int) -> QueueOffset | None:
        return self._offsets.get((group, topic, queue_id))

    def commit(self, group: str, topic: str, queue_id: int, offset: QueueOffset) -> None:
        """Keep a group's place. An offset below 0 is what some clients send for "nowhere yet"."""
        if offset >= 0:
            self._offsets[group, topic, queue_id] = offset
