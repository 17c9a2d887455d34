"""What can go wrong in the store, by name.

StoreError
├── StoreFull        no room before a record's first byte; a later append may succeed   retryable
├── StoreFailed      writing has failed; nothing more is taken until the store is opened again
├── StoreDamaged     acknowledged bytes are not what they were; names the file and the place
├── StoreLocked      another process has the directory
├── FormatUnknown    a newer version has changed the store: this one keeps its hands off
├── RosterUnreadable what says which brokers live in a directory cannot be read
├── StoreClosed      the store was closed, or is being closed
├── RecordCorrupt    bytes that should be a record are not one
├── RecordMissing    no record is where one was asked for: gone, or not there yet
├── RecordTooLarge   a record that no segment could hold
├── UnderRepair      what was damaged is being made anew from the log; ask again         retryable
├── OddSegment       a file that cannot be a segment: its length or its name is wrong
├── QueueDamaged     a queue's file is not as it was written; it is made anew from the log
└── IndexDamaged     an index file is not as it was written; it is made anew from the log
"""

from __future__ import annotations

from pathlib import Path

from rocketpipe.errors import StoreError

__all__ = [
    "FormatUnknown",
    "IndexDamaged",
    "OddSegment",
    "QueueDamaged",
    "RecordCorrupt",
    "RecordMissing",
    "RecordTooLarge",
    "RosterUnreadable",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreFailed",
    "StoreFull",
    "StoreLocked",
    "UnderRepair",
]


class StoreFull(StoreError):
    """There is no room for the first byte; nothing was written, and a later append may succeed."""

    retryable = True

    def __init__(self, path: Path, needed: int, reason: str, free: int | None = None) -> None:
        wanted = f" for {needed} bytes" if needed else ""
        left = "" if free is None else f", {free} bytes free"
        super().__init__(f"no room at {path}{wanted}{left}: {reason}")
        self.path = path
        self.needed = needed
        self.reason = reason
        self.free = free


class StoreFailed(StoreError):
    """A write, a sync or a preallocation failed: nothing is taken until the store is reopened."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the store has failed and takes nothing until it is reopened: {reason}")
        self.reason = reason


class StoreDamaged(StoreError):
    """Bytes that were durable are damaged; ``next_good`` is the first whole record behind them."""

    def __init__(self, file: Path, at: int, reason: str, next_good: int | None = None) -> None:
        behind = (
            "no whole record is behind it"
            if next_good is None
            else f"whole records go on at {next_good}"
        )
        super().__init__(f"{file} is damaged at log offset {at}: {reason}; {behind}")
        self.file = file
        self.at = at
        self.reason = reason
        self.next_good = next_good


class StoreLocked(StoreError):
    """Another process, or another store in this one, has the directory."""

    hint = "stop that one first, or name another directory"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is locked: another broker has this directory")
        self.path = path


class FormatUnknown(StoreError):
    """The store is in a format that this version does not know; nothing of it was changed."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class RosterUnreadable(StoreError):
    """What says which brokers live in a directory cannot be read; none of them is opened."""

    hint = (
        "put the file of a backup in its place; what belongs in it is in "
        "docs/how-to/cores.md, and the brokers are the directories beside it"
    )

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class StoreClosed(StoreError):
    """The store was closed before it could do this."""

    def __init__(self) -> None:
        super().__init__("the store is closed")


class StoreFollows(StoreError):
    """The store takes the log of a leader, so that it gives no offsets by itself."""

    hint = "send to the leader; a store that is to lead adopts its tail first"

    def __init__(self) -> None:
        super().__init__("the store follows another's log and takes no messages of its own")


class RecordCorrupt(StoreError):
    """Bytes that should be a record are not one."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(f"record at {at}: {reason}")
        self.at = at
        self.reason = reason


class RecordMissing(StoreError):
    """The log does not have, or does not have any more, what was asked for."""

    def __init__(self, at: int, first: int, end: int) -> None:
        super().__init__(f"no record at {at}: the log goes from {first} to {end}")
        self.at = at


class RecordTooLarge(StoreError):
    """A record that no segment could hold."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(f"a record of {size} bytes, where segments hold {most}")
        self.size = size
        self.most = most


class OddSegment(StoreError):
    """A file among the segments that cannot be one of them."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class UnderRepair(StoreError):
    """What was asked for is being put right, and can be read again soon."""

    retryable = True
    hint = "ask again in a moment"

    def __init__(self, what: str, how: str = "made anew from the log") -> None:
        super().__init__(f"{what} is being {how}: ask again in a moment")
        self.what = what


class QueueDamaged(StoreError):
    """A queue's file is not as it was written; it has to be put right from the log."""

    def __init__(self, path: Path, at: int, reason: str) -> None:
        super().__init__(f"{path} at byte {at}: {reason}")
        self.path = path
        self.at = at
        self.reason = reason


class IndexDamaged(StoreError):
    """An index file is not as it was written; it has to be rebuilt from the log."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
