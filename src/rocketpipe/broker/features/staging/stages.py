"""What was staged and not committed yet: where in the log each part of each stage lies.

Nothing of it is kept in a file: it is made again from the log when the broker starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rocketpipe.model.offsets import LogOffset, QueueOffset

MAX_STAGES: Final = 50_000
MAX_PARTS: Final = 200_000

#: An application, and the number of one of its batches.
Batch = tuple[str, int]


class Place(NamedTuple):
    """Where a part lies."""

    log_offset: LogOffset
    size: int
    #: Its place among all that was staged.
    queue_offset: QueueOffset
    #: Whether this run has seen that all its messages are plain; if not, that is yet to be found.
    is_plain: bool = False

    @property
    def end(self) -> LogOffset:
        """Where the log goes on behind it."""
        return LogOffset(self.log_offset + self.size)


@dataclass(slots=True)
class Stage:
    """Parts that show together."""

    batch: Batch
    parts: dict[int, Place] = field(default_factory=dict)
    #: Where the log has the first part for each topic.
    topics: dict[str, LogOffset] = field(default_factory=dict)
    #: When this run saw the last of them: time in which no broker runs makes nothing older.
    seen_ms: int = 0

    @property
    def places(self) -> list[Place]:
        """Its parts in their order."""
        return [self.parts[number] for number in sorted(self.parts)]


class StageTable:
    """Stages by name, of bounded number and size."""

    def __init__(
        self, max_bytes: int, *, max_stages: int = MAX_STAGES, max_parts: int = MAX_PARTS
    ) -> None:
        self._max_bytes = max_bytes
        self._max_stages = max_stages
        self._max_parts = max_parts
        self._stages: dict[str, Stage] = {}
        self._of_batch: dict[Batch, set[str]] = {}
        self._parts = 0
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._stages)

    def get(self, name: str) -> Stage | None:
        """A stage, if there is one of this name."""
        return self._stages.get(name)

    def refusal(self, name: str, size: int) -> str | None:
        """Why there is no room for another part, if there is none."""
        if self.held_bytes + size > self._max_bytes:
            return f"{self.held_bytes} bytes are staged, {self._max_bytes} are the most"
        if self._parts >= self._max_parts:
            return f"{self._parts} parts are staged, as many as may be"
        if name not in self._stages and len(self._stages) >= self._max_stages:
            return f"there are {len(self._stages)} stages, as many as may be"
        return None

    def add(
        self, name: str, batch: Batch, part: int, place: Place, seen_ms: int, topic: str = ""
    ) -> None:
        """Take a part that is in the log, whose messages go to a topic.

        Nobody puts a part there that is known, or of a stage that is of another batch. So if this
        is one, what is known by its name had been dropped before.
        """
        stage = self._stages.get(name)
        if stage is not None and (stage.batch != batch or part in stage.parts):
            self.drop(name)
            stage = None
        if stage is None:
            stage = self._stages[name] = Stage(batch)
            self._of_batch.setdefault(batch, set()).add(name)
        stage.parts[part] = place
        stage.topics.setdefault(topic, place.log_offset)
        stage.seen_ms = max(stage.seen_ms, seen_ms)
        self._parts += 1
        self.held_bytes += place.size

    def missing(self, batch: Batch, named: Mapping[str, int]) -> str | None:
        """What of the stages that a commit names is not here, if anything is not."""
        for name, count in named.items():
            stage = self._stages.get(name)
            if stage is None:
                return f"there is no stage {name!r}: it expired, or was never written here"
            if stage.batch != batch:
                return f"stage {name!r} is of batch {stage.batch[1]} of {stage.batch[0]!r}"
            if len(stage.parts) != count or max(stage.parts, default=-1) != count - 1:
                return f"stage {name!r} has {len(stage.parts)} parts here, not {count}"
        return None

    def topics(self, named: Iterable[str]) -> Iterator[tuple[str, LogOffset]]:
        """The topics of stages that are here, each with where the log has its first part."""
        return (each for name in named for each in self._stages[name].topics.items())

    def places(self, named: Sequence[str] | Mapping[str, int]) -> list[Place]:
        """The parts of stages that are here, stage by stage."""
        return [place for name in named for place in self._stages[name].places]

    def drop_batch(self, batch: Batch) -> None:
        """Forget every stage of a batch."""
        for name in tuple(self._of_batch.get(batch, ())):
            self.drop(name)

    def drop(self, name: str) -> None:
        """Forget a stage, if it is there."""
        stage = self._stages.pop(name, None)
        if stage is None:
            return
        self._parts -= len(stage.parts)
        self.held_bytes -= sum(place.size for place in stage.parts.values())
        others = self._of_batch[stage.batch]
        others.discard(name)
        if not others:
            del self._of_batch[stage.batch]

    def unused_since(self, before_ms: int) -> list[str]:
        """Stages that got no part since, as this run saw it."""
        return [name for name, stage in self._stages.items() if stage.seen_ms < before_ms]

    def all_places(self) -> Iterator[Place]:
        """Every part of every stage."""
        return (place for stage in self._stages.values() for place in stage.parts.values())
