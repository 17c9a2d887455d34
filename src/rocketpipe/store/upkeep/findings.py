"""What a look through a store found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from rocketpipe.model.offsets import LogOffset

#: Every finding is counted, and the first so many of each kind are kept.
KEPT_OF_A_KIND: Final = 100


_START: Final = LogOffset(0)


class Kind(StrEnum):
    """What is wrong, in words for a report."""

    ODD_FILE = "a file with a wrong name or length"
    BAD_RECORD = "bytes in the log that are no record"
    TORN_TAIL = "a record at the end of the log that is not whole"
    GROUP_CUT = "a group of messages of which some are not there"
    OFFSETS_MISSING = "messages that a queue counts and the log has not"
    OFFSETS_REPEATED = "messages under a queue offset that another has"
    QUEUE_ENTRY_MISSING = "a message without its queue entry"
    QUEUE_ENTRY_WRONG = "a queue entry that is not that of its message"
    QUEUE_ENTRY_DANGLING = "a queue entry without a message"
    INDEX_ENTRY_MISSING = "a key without its index entry"
    INDEX_ENTRY_WRONG = "an index entry that is not that of its message"
    INDEX_CHAIN_BROKEN = "an index entry that its slot does not lead to"
    TIMER_DAMAGED = "notes of what waits for its time that cannot be read"
    TIMER_ENTRY_DANGLING = "a message that waits for its time and is not in the log"
    CHECKPOINT_AHEAD = "a checkpoint that is newer than the log"


#: These cost messages or order; all others go away when derived files are rebuilt.
IN_THE_LOG: Final = frozenset(
    {
        Kind.BAD_RECORD,
        Kind.TORN_TAIL,
        Kind.GROUP_CUT,
        Kind.OFFSETS_MISSING,
        Kind.OFFSETS_REPEATED,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: in which file, at which byte or entry, and how it shows."""

    kind: Kind
    file: Path
    at: int
    detail: str

    def __str__(self) -> str:
        return f"{self.file} at {self.at}: {self.kind.value}: {self.detail}"


@dataclass(slots=True)
class Report:
    """All findings, counted, and what was looked at."""

    first_offset: LogOffset = _START
    end_offset: LogOffset = _START
    records: int = 0
    record_bytes: int = 0
    #: Records that have no checksum over all of them, but only over their body.
    unsealed: int = 0
    #: Messages stored at an earlier time than the one before: somebody had set the clock.
    times_back: int = 0
    queue_entries: int = 0
    index_entries: int = 0
    #: Whether the last broker that had the store stopped in order.
    clean_stop: bool = True
    counts: Counter[Kind] = field(default_factory=Counter)
    #: What a kill leaves, and the next start puts right: no damage.
    left_over: Counter[Kind] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was found that the next start does not put right."""
        return not self.counts

    @property
    def log_ok(self) -> bool:
        """Whether nothing is wrong that rebuilding the derived files would leave."""
        return not IN_THE_LOG & self.counts.keys()

    def add(
        self,
        kind: Kind,
        file: Path,
        at: int,
        detail: str,
        count: int = 1,
        *,
        left_over: bool = False,
    ) -> None:
        """Count a finding, and keep it if it is among the first of its kind.

        ``left_over`` says that it is about what was under way when the last run ended. If that did
        not end in order, it is what a kill leaves.
        """
        if left_over and not self.clean_stop:
            self.left_over[kind] += count
            return
        if self.counts[kind] < KEPT_OF_A_KIND:
            self.findings.append(Finding(kind, file, at, detail))
        self.counts[kind] += count

    def take(self, other: Report) -> None:
        """Add what another look found, at what lies behind."""
        self.records += other.records
        self.record_bytes += other.record_bytes
        self.unsealed += other.unsealed
        self.times_back += other.times_back
        self.queue_entries += other.queue_entries
        self.index_entries += other.index_entries
        if other.records:
            self.end_offset = other.end_offset
        kept = Counter(each.kind for each in self.findings)
        for each in other.findings:
            if kept[each.kind] < KEPT_OF_A_KIND:
                self.findings.append(each)
                kept[each.kind] += 1
        self.counts.update(other.counts)
        self.left_over.update(other.left_over)

    def only(self, kind: Kind) -> Report:
        """What was found of one kind."""
        return Report(
            counts=Counter({kind: self.counts[kind]} if self.counts[kind] else {}),
            left_over=Counter({kind: self.left_over[kind]} if self.left_over[kind] else {}),
            findings=[each for each in self.findings if each.kind is kind],
        )

    def lines(self) -> list[str]:
        """The report as text, a count of each kind first."""
        head = (
            f"log from {self.first_offset} to {self.end_offset}: {self.records} records, "
            f"{self.record_bytes} bytes, {self.unsealed} without a checksum; "
            f"{self.queue_entries} queue entries, {self.index_entries} index entries; "
            f"{f'the clock was set back {self.times_back} times; ' if self.times_back else ''}"
            f"{'stopped in order' if self.clean_stop else 'not stopped in order'}"
        )
        counted = [f"{count} × {kind.value}" for kind, count in sorted(self.counts.items())]
        noted = [
            f"{count} × {kind.value}: left by a run that was killed; the next start puts it right"
            for kind, count in sorted(self.left_over.items())
        ]
        return [head, *(counted or ["nothing is wrong"]), *noted, *map(str, self.findings)]
