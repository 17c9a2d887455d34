"""What a table took of its topic, kept because Spark clears its own notes of it away.

    {"v": 1,
     "begins":  {"orders": {"broker-a": {"0": 42}}},              the first offset of each queue
     "skipped": {"orders": {"broker-a": {"0": [[90, 95]]}}},      aged out before they were read
     "since":   {"note": {"orders": {"broker-a": {"0": 120}}}}}   rows before have no such column

With it and the end of the last batch it can be said which messages a table must have: all from
where it began, but for what was skipped. Ends are not included.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

VERSION: Final = 1


class Queue(NamedTuple):
    """A queue of the table's topic."""

    topic: str
    broker: str
    queue_id: int


class Offsets(Protocol):
    """Of a batch, as Spark's checkpoint has it: where it ended, and where it began by leaping."""

    @property
    def ends(self) -> Mapping[Any, int]: ...

    @property
    def begins(self) -> Mapping[Any, int]: ...


@dataclass(frozen=True, slots=True)
class Spans:
    """Where a table began in each queue, what it skipped, and since when it has which columns."""

    begins: Mapping[Queue, int] = field(default_factory=dict)
    skipped: Mapping[Queue, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    since: Mapping[str, Mapping[Queue, int]] = field(default_factory=dict)

    def with_batch(self, before: Offsets | None, batch: Offsets) -> Spans:
        """The same, a batch later; one that comes again changes nothing."""
        begins, skipped = dict(self.begins), dict(self.skipped)
        ends = {} if before is None else _by_queue(before.ends)
        for queue, begin in _by_queue(batch.begins).items():
            if queue not in begins:
                begins[queue] = begin
            elif ends.get(queue, begin) < begin:
                leap = (ends[queue], begin)
                skipped[queue] = tuple(sorted({*skipped.get(queue, ()), leap}))
        return Spans(begins, skipped, self.since)

    def with_columns(self, names: Iterable[str], last: Offsets | None) -> Spans:
        """The same, of a table whose rows up to the end of its last batch have no such columns."""
        ends = {} if last is None else _by_queue(last.ends)
        new = {name: ends for name in names if name not in self.since}
        return Spans(self.begins, self.skipped, {**self.since, **new})

    @classmethod
    def read(cls, path: Path) -> Spans:
        """What was kept; of a table that has no batch yet, nothing.

        Raises:
            ValueError: If it is not such a text.
        """
        try:
            kept = json.loads(path.read_text())
        except FileNotFoundError:
            return cls()
        if not isinstance(kept, dict) or kept.get("v") != VERSION:
            raise ValueError(f"{path.name} is not of version {VERSION}")
        return cls(
            _flat(kept["begins"]),
            {
                queue: tuple((int(first), int(after)) for first, after in leaps)
                for queue, leaps in _flat(kept["skipped"]).items()
            },
            {name: _flat(ends) for name, ends in kept["since"].items()},
        )

    def write(self, path: Path) -> None:
        """Keep it; whoever reads sees the old or the new, whole."""
        kept = {
            "v": VERSION,
            "begins": _nested(self.begins),
            "skipped": _nested(self.skipped),
            "since": {name: _nested(ends) for name, ends in self.since.items()},
        }
        draft = path.with_suffix(".draft")
        with draft.open("w") as file:
            json.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)


def leaps(before: Offsets | None, batch: Offsets) -> dict[Queue, tuple[int, int]]:
    """Queues that a batch does not read on where the one before ended: that place, and its own."""
    if before is None:
        return {}
    ends = _by_queue(before.ends)
    topics = {queue.topic for queue in ends}
    return {
        queue: (ends.get(queue, 0), begin)
        for queue, begin in _by_queue(batch.begins).items()
        if queue.topic in topics and ends.get(queue, 0) != begin
    }


def _by_queue(numbers: Mapping[Any, int]) -> dict[Queue, int]:
    return {
        Queue(queue.topic, queue.broker_name, queue.queue_id): int(number)
        for queue, number in numbers.items()
    }


def _nested(values: Mapping[Queue, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    nested: dict[str, dict[str, dict[str, Any]]] = {}
    for queue, value in sorted(values.items()):
        nested.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.queue_id)] = value
    return nested


def _flat(nested: Mapping[str, Any]) -> dict[Queue, Any]:
    return {
        Queue(topic, broker, int(queue_id)): value
        for topic, brokers in nested.items()
        for broker, queues in brokers.items()
        for queue_id, value in queues.items()
    }
