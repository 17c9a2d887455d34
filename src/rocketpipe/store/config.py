"""What a store is told when it is opened."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, Self

_LAST_HOUR: Final = 23


class FlushMode(Enum):
    """When an append is acknowledged: once it is in the page cache, or once it is on the disk."""

    ASYNC = "ASYNC_FLUSH"
    SYNC = "SYNC_FLUSH"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """One store: where it is, how large its files are, and when they are synced and deleted.

    The sizes are those of new files: a directory that has files is opened with the sizes they have.
    """

    root: Path
    segment_bytes: int = 1 << 30
    #: A multiple of 20, the size of an entry.
    queue_file_bytes: int = 6_000_000
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000
    flush: FlushMode = FlushMode.ASYNC
    #: Without a wait for durability, data is synced this often or after so many bytes.
    flush_interval_ms: int = 200
    flush_bytes: int = 4 << 20
    #: How long an append waits for its sync before the answer is "not known".
    flush_timeout_ms: int = 5000
    #: More than this is never left unsynced: the append that reaches it syncs by itself. It also
    #: bounds how far recovery looks for records behind a torn one.
    unflushed_bytes: int = 64 << 20
    #: How often the checkpoint itself is synced, at most.
    checkpoint_interval_ms: int = 1000
    #: Whether each record gets the checksum over all of it.
    checksum: bool = True
    #: Whether a record is checked again before it is shown to a reader.
    verify_reads: bool = True
    #: Whether the key index has the tags too, as RocketMQ 5.5 writes it.
    index_tags: bool = False
    max_open_files: int = 512
    #: "stop" refuses to open a log that is damaged where it was durable; "skip" keeps the damaged
    #: bytes under ``quarantine`` and goes on behind them.
    on_damaged_log: Literal["stop", "skip"] = "stop"
    #: A record that turns out to be damaged when it is read: "skip" has readers go on behind it,
    #: "stop" refuses those who read there. It is told either way.
    on_damaged_record: Literal["skip", "stop"] = "skip"
    #: How much is kept of what was cut off the log, or replaced in it; the oldest goes first.
    quarantine_bytes: int = 10 << 30
    reserved_hours: int = 72
    #: Hours of the day at which expired files go, separated by ``;``.
    delete_hours: str = "04"
    #: Percent of the disk above which expired files go at any hour.
    used_ratio: int = 75
    #: Percent above which the oldest files go, expired or not.
    force_ratio: int = 85
    #: Percent above which appends are refused.
    full_ratio: int = 90
    delay_levels: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    #: The longest delay of a timed message; ``None`` for no limit.
    timer_max_delay_ms: int | None = 3 * 24 * 3600 * 1000
    #: How many timed messages may wait at a time, some 80 bytes of disk each beside their records.
    max_waiting_timers: int = 10_000_000
    #: How long the files are that an Apache broker keeps timed messages in; we leave it some.
    timer_log_bytes: int = 100 << 20

    def __post_init__(self) -> None:
        if self.segment_bytes < 1024:
            raise ValueError(f"segments of {self.segment_bytes} bytes hold no message")
        if self.queue_file_bytes < 20 or self.queue_file_bytes % 20:
            raise ValueError(f"queue files of {self.queue_file_bytes} bytes: 20 make an entry")
        if self.index_slots < 1 or self.index_entries < 2:
            raise ValueError("an index needs a slot and two entries, of which the first is unused")
        if not 0 < self.used_ratio <= self.force_ratio <= self.full_ratio <= 100:
            raise ValueError("used_ratio, force_ratio and full_ratio are percents in this order")
        for attribute, read in (("delay_levels", delays_ms), ("delete_hours", hours_of)):
            try:
                read(getattr(self, attribute))
            except ValueError as error:
                raise ValueError(f"{attribute}: {error}") from error

    @classmethod
    def embedded(cls, root: Path, **changes: Any) -> Self:
        """Give settings for a store inside an application or a test: small files."""
        small: dict[str, Any] = {
            "segment_bytes": 16 << 20,
            "queue_file_bytes": 60_000,
            "index_slots": 5_000,
            "index_entries": 20_000,
            "timer_log_bytes": 1 << 20,
        }
        return cls(root=root, **{**small, **changes})


def delays_ms(levels: str) -> tuple[int, ...]:
    """Read delay levels such as ``1s 5s 2h``.

    Raises:
        ValueError: One is not a number with s, m, h or d behind it, or there is none.
    """
    unit_ms = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    delays = []
    for level in levels.split():
        if level[-1:] not in unit_ms or not level[:-1].isdecimal():
            raise ValueError(f"{level!r} is no delay: a number with s, m, h or d behind it")
        delays.append(int(level[:-1]) * unit_ms[level[-1]])
    if not delays:
        raise ValueError("there is no level: leave it out, or write such as 1s")
    return tuple(delays)


def hours_of(text: str) -> frozenset[int]:
    """Read hours of the day such as ``04`` or ``04;16``; none at all is no hour.

    Raises:
        ValueError: One is not an hour.
    """
    parts = [part.strip() for part in text.split(";") if part.strip()]
    for part in parts:
        if not part.isdecimal() or int(part) > _LAST_HOUR:
            raise ValueError(f"{part!r} is no hour of the day: 00 to 23, several with ';' between")
    return frozenset(map(int, parts))
