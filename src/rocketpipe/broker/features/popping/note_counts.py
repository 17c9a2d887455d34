"""How many notes of pops are written and done with, as they are counted for measurements."""

from __future__ import annotations

from rocketpipe.broker.counts import ACK, CHECK_POINT, Counts
from rocketpipe.broker.features.popping.check_points import CheckPoint
from rocketpipe.broker.features.popping.in_flight import Flight


class NoteCounts:
    """Counts the notes of a revive log."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def noted(self, point: CheckPoint) -> None:
        """A check point was written."""
        self._counts.pop_note(point.group, point.topic, CHECK_POINT)

    def acked(self, flight: Flight) -> None:
        """An acknowledgement was written: it counts at once, so it is done with as well."""
        point = flight.point
        self._counts.pop_note(point.group, point.topic, ACK)
        self._counts.pop_note_done(point.group, point.topic, ACK, flight.revive_queue)

    def finished(self, flight: Flight) -> None:
        """Everything that a check point is about is acknowledged."""
        point = flight.point
        self._counts.pop_note_done(point.group, point.topic, CHECK_POINT, flight.revive_queue)
