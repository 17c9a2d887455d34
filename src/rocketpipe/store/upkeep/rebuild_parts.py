"""Queues, index and timer made anew in parts, which may be done at the same time and elsewhere.

A part is a segment: its records are read, checked, and what follows from them is left in a file
beside the checksums. Who has all parts only puts their entries together, in the order of the log.
Where a part ends before its segment does, or cannot be read back, the log itself is read.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketpipe.model.offsets import LogOffset
from rocketpipe.model.properties import read_text
from rocketpipe.store.config import StoreConfig, delays_ms
from rocketpipe.store.derived.derivation import derive, known_record
from rocketpipe.store.derived.prepared import SUFFIX, Prepared, encode
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout, file_name
from rocketpipe.store.log.puts import Appended
from rocketpipe.store.queues.queue_set import check_name
from rocketpipe.store.upkeep.log_scan import Gap, is_full, log_of, scan

#: So many records are in a portion, about 400 KB of what follows from them.
_MANY: Final = 8192


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What every part has to know."""

    root: Path
    delays_ms: tuple[int, ...]
    index_tags: bool

    @classmethod
    def of(cls, config: StoreConfig) -> RebuildPlan:
        """The plan for a store with these settings."""
        return cls(config.root, tuple(delays_ms(config.delay_levels)), config.index_tags)


#: Does the parts for these segments, each by `derive_segment`; gives their names, in order.
DerivesSegments = Callable[[RebuildPlan, Sequence[int]], Iterable[str]]


def derive_segment(disk: Disk, plan: RebuildPlan, base: int) -> str:
    """Leave what follows from a segment's records in a file; gives its name.

    It ends before the first record that is not whole.

    Raises:
        DiskError: The segment cannot be read, or the file not be written.
    """
    layout = StoreLayout(plan.root)
    # Another attempt at the same segment may be under way.
    path = layout.sums / f"{file_name(base)}-{uuid.uuid4().hex}{SUFFIX}"
    records: list[Appended] = []
    place = 0
    with log_of(disk, layout) as files, disk.create(path) as file:
        end = base + files.segment_bytes
        start = at = base

        def leave(upto: int) -> None:
            nonlocal place, start
            derived = derive(records, plan.delays_ms, plan.index_tags)
            data = encode(Prepared(LogOffset(start), LogOffset(upto), derived))
            file.write(data, place)
            place += len(data)
            start = upto
            records.clear()

        for item in scan(files, LogOffset(base), LogOffset(end)):
            if isinstance(item, Gap):
                break
            try:
                records.append(known_record(item.record, item.at, read_text, check_name))
            except RecordCorrupt:
                break
            at = int(item.at) + len(item.record)
            if len(records) >= _MANY:
                leave(at)
        if is_full(files, at, end):
            at = end
        if at > start:
            leave(at)
    return path.name


def one_after_the_other(disk: Disk) -> DerivesSegments:
    """Do the parts here."""
    return lambda plan, bases: [derive_segment(disk, plan, base) for base in bases]
