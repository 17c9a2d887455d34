"""What waits for somebody else's decision: stages that are kept until their home has spoken.

Nothing of it is kept in a file: it is made again from the log when the broker starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rocketpipe.broker.features.staging.stages import Batch
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode

#: A writer that tries again prepares again, and each time counts: its commit may be on its way.
MAX_NAMES: Final = 500_000


@dataclass(frozen=True, slots=True)
class Preparation:
    """One attempt at a commit, as far as it concerns this broker."""

    token: str
    stages: Mapping[str, int]
    #: The broker that decides.
    home: str
    #: When this run heard of it.
    since_ms: int


class PreparedTable:
    """Preparations by batch; there may be several of one, by writers that tried again."""

    def __init__(self, *, max_names: int = MAX_NAMES) -> None:
        self._max_names = max_names
        self._of_batch: dict[Batch, dict[str, Preparation]] = {}
        #: How many stages all of them name.
        self._names = 0

    def __len__(self) -> int:
        return len(self._of_batch)

    def add(self, batch: Batch, preparation: Preparation) -> None:
        """Take one; the same token again changes nothing."""
        of_batch = self._of_batch.setdefault(batch, {})
        if preparation.token not in of_batch:
            of_batch[preparation.token] = preparation
            self._names += len(preparation.stages)

    def check_room(self, names: int) -> None:
        """Refuse one more that names so many stages, where all of them name too many.

        Raises:
            RequestRejected: They do.
        """
        if self._names + names > self._max_names:
            raise RequestRejected(
                ResponseCode.SYSTEM_BUSY,
                f"{self._names} stages are prepared, some again and again, and {self._max_names} "
                "are the most: start the brokers that decide about them, or wait until they expire",
            )

    def has(self, batch: Batch, token: str) -> bool:
        """Whether one is known."""
        return token in self._of_batch.get(batch, {})

    def of(self, batch: Batch) -> tuple[Preparation, ...]:
        """All of a batch, the oldest first."""
        return tuple(self._of_batch.get(batch, {}).values())

    def batches(self) -> tuple[Batch, ...]:
        """Whatever is not decided."""
        return tuple(self._of_batch)

    def stages(self) -> Iterator[str]:
        """The stages that must be kept."""
        for each in self._of_batch.values():
            for preparation in each.values():
                yield from preparation.stages

    def without(self, names: Collection[str]) -> None:
        """Forget those that name a stage which is gone."""
        gone = set(names)
        for batch, each in tuple(self._of_batch.items()):
            for token, preparation in tuple(each.items()):
                if not gone.isdisjoint(preparation.stages):
                    del each[token]
                    self._names -= len(preparation.stages)
            if not each:
                del self._of_batch[batch]

    def drop(self, batch: Batch) -> None:
        """Forget all of a batch."""
        for each in self._of_batch.pop(batch, {}).values():
            self._names -= len(each.stages)
