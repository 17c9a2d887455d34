"""How far the log has come, in four positions that are only moved here.

    dispatched  ≤  confirmed  ≤  written        durable  ≤  written

    written     every byte before it was taken by the operating system
    durable     every byte before it survives a power cut
    confirmed   readers may see what is before it: ``written``, or ``durable`` with SYNC_FLUSH
    dispatched  queues, index and timer know of every record before it

Each belongs to one thread: ``written`` and ``dispatched`` to the writer, ``durable`` to the
flusher. They only grow, but for `rewind`, which is for opening and truncating a log.
"""

from __future__ import annotations

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode


class Positions:
    """Four offsets of one log; moving one where it may not be is an AssertionError."""

    __slots__ = ("_dispatched", "_durable", "_sync", "_written")

    def __init__(self, flush: FlushMode) -> None:
        self._sync = flush is FlushMode.SYNC
        self._written = LogOffset(0)
        self._durable = LogOffset(0)
        self._dispatched = LogOffset(0)

    @property
    def written(self) -> LogOffset:
        """Where the next record will start."""
        return self._written

    @written.setter
    def written(self, to: LogOffset) -> None:
        assert to >= self._written
        self._written = to

    @property
    def durable(self) -> LogOffset:
        """Everything before it survives a power cut."""
        return self._durable

    @durable.setter
    def durable(self, to: LogOffset) -> None:
        assert to >= self._durable
        assert to <= self._written
        self._durable = to

    @property
    def confirmed(self) -> LogOffset:
        """Nothing at or behind it is shown to readers."""
        return self._durable if self._sync else self._written

    @property
    def dispatched(self) -> LogOffset:
        """Where the dispatcher reads on."""
        return self._dispatched

    @dispatched.setter
    def dispatched(self, to: LogOffset) -> None:
        assert to >= self._dispatched
        assert to <= self.confirmed
        self._dispatched = to

    def rewind(self, to: LogOffset, dispatched: LogOffset | None = None) -> None:
        """Start at the end of a log that was opened or truncated: all of it is durable.

        What is ``dispatched`` stays where it is, unless it is given or lies beyond the end.
        """
        assert to >= 0
        self._written = self._durable = to
        wanted = self._dispatched if dispatched is None else dispatched
        self._dispatched = min(wanted, to)
