"""Where everything is in a store's directory; the same as in RocketMQ's ``storePathRootDir``.

    commitlog/                          segments, named for their first offset
    consumequeue/<topic>/<queue>/       queue files, named for their first byte
    index/                              key index files, named for when they were made
    config/                             the broker's tables, and the timer's position
    checkpoint                          how far the files are good
    abort                               there while a broker runs, and after it died
    lock                                held by the broker that has the directory
    epochFileCheckpoint                 whose leadership each part of a replica's log is of

Ours alone, and left alone by RocketMQ:

    timer/                              what falls due when; rebuilt from the log
    sums/                               checksums of queues and index, and how far they are good
    quarantine/                         bytes that were cut off a damaged log
    failed                              why the last run stopped writing, if it did
    format                              which versions can read all of this
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from rocketpipe.errors import InvalidName
from rocketpipe.record.layout import MAX_TOPIC_BYTES

_NAME_DIGITS: Final = 20
#: What is being made has this ending until it is complete; leftovers are removed on opening.
UNFINISHED: Final = ".tmp"
MAX_QUEUE_ID: Final = 0x7FFFFFFF

#: A plus is in the names of retry topics of the second form, and in no other.
_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_+-]+")


def file_name(offset: int) -> str:
    """Name a segment or queue file for the position of its first byte."""
    assert offset >= 0
    return f"{offset:0{_NAME_DIGITS}d}"


def offset_of(name: str) -> int | None:
    """Give the position that a file is named for; ``None`` if it is named for none."""
    if len(name) == _NAME_DIGITS and name.isascii() and name.isdigit():
        return int(name)
    return None


def check_queue(topic: str, queue_id: int) -> None:
    """Refuse what cannot become a path: it is checked here too, whoever has checked it before.

    Raises:
        InvalidName: If the topic has other characters than RocketMQ's, or too many; or the queue
            id is negative, or beyond 32 bits.
    """
    if not _TOPIC.fullmatch(topic) or len(topic) > MAX_TOPIC_BYTES:
        raise InvalidName("topic", topic, "is no name that a directory may have")
    if not 0 <= queue_id <= MAX_QUEUE_ID:
        raise InvalidName("queue", str(queue_id), f"is not between 0 and {MAX_QUEUE_ID}")


class StoreLayout:
    """The paths of one store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commit_log = root / "commitlog"
        self.queues = root / "consumequeue"
        self.index = root / "index"
        self.config = root / "config"
        self.checkpoint = root / "checkpoint"
        self.abort = root / "abort"
        self.lock = root / "lock"
        self.epochs = root / "epochFileCheckpoint"
        self.timer = root / "timer"
        #: As Apache's broker reads it.
        self.timer_check = self.config / "timercheck"
        self.sums = root / "sums"
        self.quarantine = root / "quarantine"
        self.failed = root / "failed"
        self.format = root / "format"

    def own_files(self) -> list[Path]:
        """Every file and directory that a store has in its root."""
        return [
            *(self.commit_log, self.queues, self.index, self.config, self.checkpoint, self.abort),
            *(self.lock, self.epochs, self.timer, self.sums, self.quarantine, self.failed),
            self.format,
        ]

    def queue(self, topic: str, queue_id: int) -> Path:
        """The directory of one queue.

        Raises:
            InvalidName: As for `check_queue`.
        """
        check_queue(topic, queue_id)
        return self.queues / topic / str(queue_id)
