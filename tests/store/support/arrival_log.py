"""A listener that keeps what a store tells of messages that became readable."""

from __future__ import annotations

from collections.abc import Sequence

from rocketpipe.store.derived.derivation import Arrival


class ArrivalLog:
    """All messages that became readable, in order."""

    def __init__(self) -> None:
        self.arrived: list[Arrival] = []

    wanted = None

    def tell(self, arrivals: Sequence[Arrival]) -> None:
        self.arrived.extend(arrivals)
