"""How far the log has come, in five positions that are only moved here.

    dispatched  ≤  confirmed  ≤  written        durable, acknowledged  ≤  written

    written       every byte before it was taken by the operating system
    durable       every byte before it survives a power cut
    acknowledged  the replicas that count have what is before it; ``None`` where nobody is asked
    confirmed     readers may see what is before it: ``written``, or ``durable`` with SYNC_FLUSH,
                  and no more than is acknowledged
    dispatched    queues, index and timer know of every record before it

``acknowledged`` may lie within a record, as RocketMQ's slaves count bytes; all others lie where a
record ends. Each belongs to one thread: ``durable`` to the flusher, the others to the writer. They
only grow, but for `rewind`, which is for opening and truncating a log, and `begin_acknowledged`.
"""

from __future__ import annotations

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode


class Positions:
    """Five offsets of one log; moving one where it may not be is an AssertionError."""

    __slots__ = ("_acknowledged", "_dispatched", "_durable", "_sync", "_written")

    def __init__(self, flush: FlushMode) -> None:
        self._sync = flush is FlushMode.SYNC
        self._written = LogOffset(0)
        self._durable = LogOffset(0)
        self._dispatched = LogOffset(0)
        self._acknowledged: LogOffset | None = None

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
    def acknowledged(self) -> LogOffset | None:
        """Everything before it is in every log that counts; ``None`` if only this one does."""
        return self._acknowledged

    @acknowledged.setter
    def acknowledged(self, to: LogOffset) -> None:
        assert self._acknowledged is not None
        assert self._acknowledged <= to <= self._written
        self._acknowledged = to

    def begin_acknowledged(self, to: LogOffset | None) -> None:
        """Count acknowledgements anew, as at a change of roles; what was shown stays so."""
        assert to is None or to <= self._written
        self._acknowledged = None if to is None else max(to, self._dispatched)

    @property
    def confirmed(self) -> LogOffset:
        """Nothing at or behind it is shown to readers."""
        local = self._durable if self._sync else self._written
        acknowledged = self._acknowledged
        return local if acknowledged is None or local < acknowledged else acknowledged

    @property
    def published(self) -> LogOffset:
        """Nothing at or behind it is shown to readers of the files, whatever happens to us."""
        durable, acknowledged = self._durable, self._acknowledged
        return durable if acknowledged is None or durable < acknowledged else acknowledged

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
        if self._acknowledged is not None:
            self._acknowledged = min(self._acknowledged, to)
        wanted = self._dispatched if dispatched is None else dispatched
        self._dispatched = min(wanted, to)
