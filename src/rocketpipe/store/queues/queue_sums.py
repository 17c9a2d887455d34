"""What the queues' files were like when they were synced last, for the next opening.

    sums/queues.json    {"holds_to": log offset, "queues": [[topic, queue id, max offset,
                         [base, count, crc], …], …]}

Every entry of every record before ``holds_to`` is in the files, and durable. There may be tens of
thousands of queues, of which few have changed since the last time: what is said of the others is
kept as it was written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.files.snapshot import Snapshot, SnapshotDamaged
from rocketpipe.store.queues.consume_queue import ConsumeQueue
from rocketpipe.store.queues.entries import QUEUE_ENTRY_BYTES
from rocketpipe.store.queues.queue_files import FileSum

log = logging.getLogger(__name__)

Queue = tuple[str, int]
#: Up to which record they tell, and of each queue its end and its files.
KnownSums = tuple[LogOffset, dict[Queue, tuple[int, list[FileSum]]]]


class QueueSums:
    """The file of checksums, and how it is written."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._file = Snapshot(disk, path)
        #: The text of each queue; of those that have no files there is none to keep.
        self._texts: dict[Queue, bytes] = {}

    def changed(self, queue: Queue) -> None:
        """Have a queue's text made anew: its files, or how far they are synced, have changed."""
        self._texts.pop(queue, None)

    def describe(self, queue: Queue, entries: ConsumeQueue) -> None:
        """Make a queue's text anew now, a few at a time, so that `text` has little left to do."""
        text, keeps = _text_of(queue, entries, LogOffset(0)) if entries.sums() else (b"", False)
        if keeps:
            self._texts[queue] = text
        else:
            self._texts.pop(queue, None)

    def all_changed(self) -> None:
        """The same for all of them."""
        self._texts.clear()

    def text(self, holds_to: LogOffset, queues: Mapping[Queue, ConsumeQueue]) -> bytes:
        """What to `save` for these queues as they were last synced.

        Raises:
            QueueDamaged: An entry of a queue that has no checksums yet is not as it was written.
            DiskError: Such an entry cannot be read.
        """
        texts = self._texts
        without: list[bytes] = []
        if len(texts) != len(queues):
            for key in queues.keys() - texts.keys():
                text, keeps = _text_of(key, queues[key], holds_to)
                if keeps:
                    texts[key] = text
                else:
                    without.append(text)
        return b'{"holds_to": %d, "queues": [%b]}' % (
            holds_to,
            b", ".join([*texts.values(), *without]),
        )

    def save(self, text: bytes) -> None:
        """Replace the file; it survives a power cut on return. Any thread may do that.

        Raises:
            DiskError: It could not be written.
        """
        self._file.save(text)

    def load(self) -> KnownSums | None:
        """What was saved last; None if that cannot be read, or nothing was."""
        try:
            return self._file.load(_parse)
        except SnapshotDamaged as damage:
            log.warning("checksums of the queues are gone reason=%s", damage)
            return None


def _text_of(key: Queue, queue: ConsumeQueue, holds_to: LogOffset) -> tuple[bytes, bool]:
    sums = queue.sums()
    # Entries that came since are not in it: they come again from the log.
    end = max(known.end for known in sums) // QUEUE_ENTRY_BYTES if sums else queue.find(holds_to)
    files = ([known.base, known.count, known.crc] for known in sums)
    return json.dumps([*key, end, *files]).encode(), bool(sums)


def _parse(text: bytes) -> KnownSums:
    whole: Any = json.loads(text)
    try:
        return LogOffset(whole["holds_to"]), {
            (topic, queue_id): (max_offset, [FileSum(*each) for each in sums])
            for topic, queue_id, max_offset, *sums in whole["queues"]
        }
    except (KeyError, TypeError) as error:
        raise ValueError(f"no checksums of queues: {error!r}") from error
