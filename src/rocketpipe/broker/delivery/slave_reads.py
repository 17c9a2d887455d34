"""Whom a consumer is to ask next: a slave, where it reads what this broker has to fetch from disk.

As at RocketMQ's brokers: whoever reads what is likely not in memory any more (see ``cold_reads``)
is sent to the broker that its group names for that, the first slave unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketpipe.broker.delivery.cold_reads import ColdReads
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.model.offsets import LogOffset
from rocketpipe.record.hot import split

#: Where the head of a record has its place in the log.
_LOG_OFFSET: Final = 6
MASTER: Final = 0


class SlaveReads:
    """Suggests who is to be asked."""

    def __init__(self, cold: ColdReads, groups: GroupTable, readable: Callable[[], bool]) -> None:
        """``readable`` says whether a slave is there that may be read."""
        self._cold = cold
        self._groups = groups
        self._readable = readable

    def suggested(self, group: str, records: bytes) -> int:
        """The id of the broker that a group is to ask next, by what it has just read here."""
        if not records:
            return MASTER
        head = split(records, 0, len(records))[0]
        return self.suggested_at(group, head[_LOG_OFFSET])

    def suggested_at(self, group: str, start: int) -> int:
        """The same, by where the log has the first of it."""
        if not self._readable():
            return MASTER
        settings = self._groups.get(group)
        if settings is None:
            return MASTER
        if self._cold.is_cold(LogOffset(start)):
            return settings.which_broker_when_consume_slowly
        return settings.broker_id
