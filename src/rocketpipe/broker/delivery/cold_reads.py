"""How much each group reads of what is likely not in memory any more, and who has had enough.

A group that reads old messages takes the disk, and the page cache, from everybody else. With
``coldDataFlowControlEnable`` it gets so many bytes of them every five seconds
(``cgColdReadThreshold``, or what an operator set for the group), and all groups together get no
more than ``globalColdReadThreshold``. A pull beyond is refused with SYSTEM_BUSY: clients pause, and
try again. What is new is never kept from anybody.

As at RocketMQ's brokers a message counts as cold if more was stored since than fits in 40 % of the
machine's memory, and nothing of this outlives the broker.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.tables.limits import TableFull
from rocketpipe.clock import Clock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.message_store import MessageStore

WINDOW_MS: Final = 5_000
#: A group that read nothing cold for so long is not listed any more.
LISTED_MS: Final = 60_000
MAX_GROUPS: Final = 50_000
_IN_MEMORY: Final = 0.4


@dataclass(slots=True)
class ColdGroup:
    """A group that reads cold messages."""

    began_ms: int
    last_ms: int
    #: In which window it read so many bytes.
    window: int
    bytes: int = 0


class ColdReads:
    """Counts cold reads, and says who has had enough of them for now."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        clock: Clock,
        *,
        hot_bytes: int | None = None,
        limit: int = MAX_GROUPS,
    ) -> None:
        """``hot_bytes`` of the log are in memory; by default what the machine's allows."""
        self._config = config
        self._store = store
        self._clock = clock
        self._hot_bytes = _hot_bytes() if hot_bytes is None else hot_bytes
        self._limit = limit
        self._limits: dict[str, int] = {}
        self._groups: dict[str, ColdGroup] = {}
        self._all = ColdGroup(0, 0, 0)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings from now on."""
        self._config = config

    @property
    def on(self) -> bool:
        """Whether anybody is held back at all."""
        return self._config.cold_flow_control

    def allow(self, group: str, size: int) -> None:
        """Let a group read so many cold bytes in five seconds, whatever others may.

        Raises:
            TableFull: If it is one group too many.
        """
        if group not in self._limits and len(self._limits) >= self._limit:
            raise TableFull("groups with a limit of their own", self._limit, "remove some")
        self._limits[group] = size

    def forget(self, group: str) -> None:
        """Let a group read as much as others."""
        self._limits.pop(group, None)

    def is_cold(self, at: LogOffset) -> bool:
        """Whether a message is likely to be read from the disk."""
        return self._store.positions.written - at > self._hot_bytes

    def read(self, group: str, size: int) -> None:
        """Note that a group was given so many cold bytes."""
        now_ms = self._clock.now_ms()
        known = self._groups.get(group)
        if known is None:
            if len(self._groups) >= self._limit:
                self._tidy(now_ms)
            if len(self._groups) >= self._limit:
                return
            known = self._groups[group] = ColdGroup(now_ms, now_ms, 0)
        for each in (known, self._all):
            if each.window != now_ms // WINDOW_MS:
                each.window, each.bytes = now_ms // WINDOW_MS, 0
            each.bytes += size
            each.last_ms = now_ms

    def has_enough(self, group: str) -> bool:
        """Whether a group has to wait before it is given something cold again."""
        mine = self._in_window(self._groups.get(group))
        if not mine:
            return False  # whoever comes anew is not kept out by others
        allowed = self._limits.get(group, self._config.cold_group_bytes)
        return mine >= allowed or self._in_window(self._all) >= self._config.cold_total_bytes

    def _in_window(self, counted: ColdGroup | None) -> int:
        current = self._clock.now_ms() // WINDOW_MS
        return counted.bytes if counted is not None and counted.window == current else 0

    def _tidy(self, now_ms: int) -> None:
        for group, known in list(self._groups.items()):
            if now_ms - known.last_ms > LISTED_MS:
                del self._groups[group]

    def info(self) -> dict[str, object]:
        """How it stands, under RocketMQ's names."""
        self._tidy(self._clock.now_ms())
        return {
            "runtimeTable": {
                group: {
                    "coldAcc": self._in_window(known),
                    "createTimeMills": known.began_ms,
                    "lastColdReadTimeMills": known.last_ms,
                }
                for group, known in self._groups.items()
            },
            "configTable": dict(self._limits),
            "cgColdReadThreshold": self._config.cold_group_bytes,
            "globalColdReadThreshold": self._config.cold_total_bytes,
            "globalAcc": self._in_window(self._all),
        }


def _hot_bytes() -> int:
    """How much of the log is likely in memory; all of it where the machine does not say."""
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _IN_MEMORY)
    except (AttributeError, ValueError, OSError):
        return 1 << 62
