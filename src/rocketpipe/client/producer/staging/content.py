"""What a batch holds, so that one can see whether a second one under its name is the same.

A count, the bytes, and a sum over the messages' checksums: the same however they are ordered, split
and spread, as a batch that is done again may be. Unique keys, times and places are left out, since
each attempt has its own.

As text, for brokers to keep: ``count bytes sum run topic,topic``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self
from zlib import crc32

#: So many topics are named, for whoever reads the error.
MAX_TOPICS: Final = 8
_WRAP: Final = 1 << 64
_NO_RUN: Final = "-"


@dataclass(slots=True)
class Content:
    """Some messages, as far as they can be compared."""

    count: int = 0
    size: int = 0
    total: int = 0
    topics: set[str] = field(default_factory=set)
    #: Which run of a stream wrote it; one run does each of its batches once.
    run: str | None = None

    def add(self, topic: str, checksum: int, size: int) -> None:
        """Count one more message."""
        self.count += 1
        self.size += size
        self.total = (self.total + checksum) % _WRAP
        self._name(topic)

    def take(self, topic: str, count: int, size: int, total: int) -> None:
        """Count several of one topic."""
        if count:
            self.count += count
            self.size += size
            self.total = (self.total + total) % _WRAP
            self._name(topic)

    def join(self, other: Content) -> None:
        """Count what another has."""
        self.count += other.count
        self.size += other.size
        self.total = (self.total + other.total) % _WRAP
        for topic in other.topics:
            self._name(topic)

    def _name(self, topic: str) -> None:
        if len(self.topics) < MAX_TOPICS:
            self.topics.add(topic)

    def is_like(self, other: Content) -> bool:
        """Whether both have the same messages."""
        return (self.count, self.size, self.total) == (other.count, other.size, other.total)

    def __str__(self) -> str:
        where = f" to {', '.join(sorted(self.topics))}" if self.topics else ""
        return f"{self.count} messages{where}"

    def text(self) -> str:
        """As brokers keep it."""
        topics = ",".join(sorted(self.topics)) or _NO_RUN
        return f"{self.count} {self.size} {self.total:x} {self.run or _NO_RUN} {topics}"

    @classmethod
    def of(cls, text: str | None) -> Self | None:
        """Read what a broker kept; None where that says nothing."""
        try:
            count, size, total, run, topics = (text or "").split(" ")
            return cls(
                int(count),
                int(size),
                int(total, 16),
                set() if topics == _NO_RUN else set(topics.split(",")),
                None if run == _NO_RUN else run,
            )
        except ValueError:
            return None


def checksum(topic: str, flag: int, body: bytes, properties: bytes) -> int:
    """Of one message: ``properties`` in a form that is the same for the same ones."""
    return crc32(properties, crc32(body, crc32(b"%d %b " % (flag, topic.encode()))))
