"""Queues, index and timer become durable in rounds, and nobody waits for the disk meanwhile.

A round begins with a position up to which all of them know the log, and that is noted in the
checkpoint when the last file is synced. It goes portion by portion:

    tend    what a portion has to sync is written, and handed to the worker
    worker  the log first, then the files: they must not tell of records that a power cut takes
    tend    the portion is noted, and the next one begun

Without a thread for the worker a portion is a queue, and as many are done at once as a turn lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketpipe.clock import Clock
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.derived.derived_files import DerivedFiles
from rocketpipe.store.errors import StoreClosed, StoreFailed
from rocketpipe.store.files.background_sync import PendingSync, Steps, Wait, Work, Worker
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.log.flusher import Flusher
from rocketpipe.store.state.checkpoint import Checkpoint
from rocketpipe.store.state.positions import Positions

#: A round begins so long after the one before it began, and each turn of it lasts so long.
_ROUND_MS: Final = 5000
_TURN_MS: Final = 20
#: How many queues a worker is given at a time: each has a file open meanwhile, or two.
_PORTION: Final = 100


class DerivedSync:
    """Makes derived files durable, one round at a time."""

    def __init__(
        self,
        derived: DerivedFiles,
        positions: Positions,
        checkpoint: Checkpoint,
        flusher: Flusher,
        clock: Clock,
        on_failure: Callable[[str], StoreFailed],
    ) -> None:
        """Take what is to be synced, and who syncs the log before it."""
        self._derived = derived
        self._positions = positions
        self._checkpoint = checkpoint
        self._flusher = flusher
        self._clock = clock
        self._on_failure = on_failure
        #: Who waits for the disk; a thread of its own where the store has threads.
        self.worker = Worker()
        #: What stopped the last round, until one is complete.
        self.trouble: Exception | None = None
        self._began_ms = clock.monotonic_ms()
        self._in_round = False
        #: Where the round began, and when the record before that was stored, if that is known.
        self._to = LogOffset(0)
        self._stored_ms = 0
        self._number = self._complete = 0
        self._first_portion = False
        self._under_way: tuple[Work, PendingSync, bool] | None = None

    @property
    def is_due(self) -> bool:
        """Whether `tend` would sync something now."""
        if self._in_round or self.trouble is not None:
            return True
        if self._clock.monotonic_ms() - self._began_ms < _ROUND_MS:
            return False
        return self._positions.dispatched != self._to

    def tend(self) -> None:
        """Sync portions of the files for as long as a turn may last, if a round is due.

        Raises:
            DiskError: Something may not be durable, now or in the portion that was under way.
            StoreFailed: The log is not.
        """
        if not self._noted() or not self.is_due:
            return
        began_ms = self._clock.monotonic_ms()
        while True:
            self._go_on()
            if not self._noted() or not self._in_round:
                return
            if self._clock.monotonic_ms() - began_ms >= _TURN_MS:
                return

    def syncing(self) -> Steps[None]:
        """Make everything durable that is dispatched now.

        Raises:
            StoreFailed: That cannot be done, now or any more.
            DiskError: There is no room for it; trying again is safe.
        """
        try:
            yield from self._whole_round()
        except DiskError as error:
            if error.passing:
                raise
            raise self._on_failure(str(error)) from error

    def _whole_round(self) -> Steps[None]:
        wanted, old_trouble = self._number + 1, self.trouble
        while self._complete < wanted:
            # Between two steps `tend` may have gone on with it, or given it up.
            if self._noted() and self._complete < wanted:
                if self.trouble is not None and self.trouble is not old_trouble:
                    raise self.trouble
                self._go_on()
            if self._under_way is not None and not self._under_way[0].done:
                yield self._under_way[0].wait

    def sync(self) -> None:
        """Make everything durable at once, and ready for an opening that need not look at it.

        Raises:
            StoreFailed: That cannot be done, now or any more.
        """
        try:
            self._settle()
            self._covered(self._sync_all)()
        except DiskError as error:
            raise self._on_failure(str(error)) from error

    def _sync_all(self) -> None:
        if self._in_round:
            self._derived.queues.sync()
        self._begin()
        self._derived.timer.sync()
        self._derived.index.sync(closing=True)
        self._derived.queues.sync()
        self._end()

    def done(self, portion: PendingSync) -> Steps[None]:
        """Have a portion of something else done, in its turn.

        Raises:
            DiskError: It may not be durable.
            StoreFailed: The log is not.
        """
        work = self.worker.do(self._covered(portion.wait))
        try:
            while not work.done:
                yield work.wait
        finally:
            # Whoever gives up half way: what became of it has to be known.
            work.wait()
            if work.error is None:
                portion.note()
            else:
                portion.undo()
        if work.error is not None:
            raise work.error

    def stop(self) -> None:
        """Wait for what is under way, note it, and let no other thread do anything any more."""
        self.worker.stop()
        try:
            self._settle()
        except StoreFailed:
            pass  # whoever waited for the log was told
        except DiskError as error:
            if not error.passing:
                self._on_failure(str(error))

    def abandon(self) -> None:
        """Let everything go as it is; what is under way is waited for, as nobody can stop it."""
        self.worker.drop()
        if self._under_way is not None and self._under_way[0].done:
            self._under_way[1].undo()
            self._under_way = None

    def _settle(self) -> None:
        if self._under_way is not None:
            self._under_way[0].wait()
            self._noted()

    def _go_on(self) -> None:
        """Hand out the next portion, the first of a new round if none is begun."""
        assert self._under_way is None
        if not self._in_round:
            self._begin()
        parts: list[PendingSync] = []
        try:
            if self._first_portion:
                timer = self._derived.timer.begin_sync(aside=self.worker.aside)
                parts += [timer, self._derived.index.begin_sync()]
            queues, is_last = self._derived.queues.begin_sync(_PORTION if self.worker.aside else 1)
            parts.append(queues)
        except Exception as error:
            PendingSync.of(parts).undo()
            self._give_up(error)
            raise
        self._first_portion = False
        portion = PendingSync.of(parts)
        self._under_way = self.worker.do(self._covered(portion.wait)), portion, is_last

    def _covered(self, wait: Wait) -> Wait:
        """Sync the log before what follows from it."""
        upto = self._positions.dispatched

        def log_first() -> None:
            if self._positions.durable < upto:
                self._flusher.flush_once()
            if self._flusher.failure is not None:
                raise StoreFailed(self._flusher.failure.reason)
            if self._positions.durable < upto:
                raise StoreClosed
            wait()

        return log_first

    def _noted(self) -> bool:
        """Take note of what was under way; False while it still is."""
        if self._under_way is None:
            return True
        work, portion, is_last = self._under_way
        if not work.done:
            return False
        self._under_way = None
        if work.error is not None:
            portion.undo()
            self._give_up(work.error)
            raise work.error
        portion.note()
        if is_last:
            self._end()
        return True

    def _begin(self) -> None:
        written, _, stored_ms = self._flusher.tail
        self._began_ms = self._clock.monotonic_ms()
        self._number += 1
        self._to = self._positions.dispatched
        # RocketMQ takes the times in the checkpoint for complete: rather none than one too late.
        self._stored_ms = stored_ms if self._to == written else 0
        self._in_round = self._first_portion = True

    def _end(self) -> None:
        self._in_round = False
        self.trouble = None
        self._complete = self._number
        if self._derived.synced_to >= self._to:
            self._checkpoint.derived(self._to, self._stored_ms)
        else:
            self._to = LogOffset(-1)  # a file was dropped meanwhile: the next round has it all

    def _give_up(self, trouble: Exception) -> None:
        """Begin anew with the next turn: what this round has synced need not be synced again."""
        self._derived.queues.give_up_round()
        self._in_round = False
        self.trouble = trouble
