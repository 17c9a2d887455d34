"""What follows from the log and was found damaged, made anew from it.

    a file of a queue    put right entry by entry; see ``queue_repair``
    the key index        from the damaged file on, indexed again; what is appended meanwhile is
                         indexed when its turn comes

Who asks for what is damaged is told to ask again, and everything else goes on: the work is done in
steps, by whoever said that it would. Where nobody did, as while a store is opened, it is done at
once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.derived.dispatcher import Dispatcher
from rocketpipe.store.errors import IndexDamaged, QueueDamaged, UnderRepair
from rocketpipe.store.files.background_sync import Steps, run_steps_blocking
from rocketpipe.store.files.disk import DiskError
from rocketpipe.store.index.key_index import KeyIndex
from rocketpipe.store.log.commit_log import WALK_BYTES, CommitLog
from rocketpipe.store.queues.queue_repair import FileRepair
from rocketpipe.store.queues.queue_set import QueueSet
from rocketpipe.store.queues.queue_sums import Queue
from rocketpipe.store.state.positions import Positions

log = logging.getLogger(__name__)


class Repairs:
    """Knows what is damaged, and puts it right."""

    def __init__(
        self,
        commit_log: CommitLog,
        positions: Positions,
        queues: QueueSet,
        index: KeyIndex,
        dispatcher: Dispatcher,
    ) -> None:
        """Take the log, and what follows from it."""
        self._log = commit_log
        self._positions = positions
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._damaged: dict[Queue, None] = {}
        self._under_way = False
        #: Set by whoever carries out `running`, and called when there is something to do.
        self.wake: Callable[[], None] | None = None
        #: How often something was found damaged.
        self.found = 0
        queues.on_damage = self.note
        dispatcher.mend_queue = self.mend_now

    @property
    def is_due(self) -> bool:
        """Whether something waits to be put right."""
        return bool(self._damaged) or self._index.rebuilding

    def note(self, queue: Queue, damage: QueueDamaged) -> None:
        """Take note of a damaged queue; it is put right by `running`."""
        if queue not in self._damaged:
            self.found += 1
            self._damaged[queue] = None
            log.error(
                "queue is damaged, and is put right from the log topic=%s queue_id=%d reason=%s",
                *queue,
                damage,
            )
        if self.wake is not None:
            self.wake()

    def mend(self, queue: Queue, damage: QueueDamaged) -> None:
        """Have a queue put right: it is when this returns, or will be.

        Raises:
            UnderRepair: Somebody does it beside everything else.
            DiskError: The log cannot be read, or the queue not be written.
        """
        self.note(queue, damage)
        if self.wake is not None:
            raise UnderRepair(f"queue {queue[1]} of topic {queue[0]}")
        run_steps_blocking(self.running())

    def mend_now(self, queue: Queue, damage: QueueDamaged) -> None:
        """Put a queue right before anything else is done.

        Raises:
            DiskError: The log cannot be read, or the queue not be written.
        """
        self.note(queue, damage)
        run_steps_blocking(self._queue_steps(queue))

    def index_damaged(self, damage: IndexDamaged) -> None:
        """Have the key index made anew from a damaged file on: it is when this returns, or will be.

        Raises:
            UnderRepair: Somebody does it beside everything else.
            DiskError: The log cannot be read, or the index not be written.
        """
        self.found += 1
        log.error("index file is damaged, and made anew from the log reason=%s", damage)
        drop_index(self._index, damage, self._log.first_offset)
        self._index.rebuilding = True
        if self.wake is None:
            run_steps_blocking(self.running())
        else:
            self.wake()
            self.check_index()

    def check_index(self) -> None:
        """Let the key index be asked, or say why not.

        Raises:
            UnderRepair: It is being made anew.
        """
        if self._index.rebuilding:
            raise UnderRepair("the key index")

    def running(self) -> Steps[None]:
        """Put right all that is damaged; while that is under way already there is nothing to do.

        Raises:
            DiskError: The log cannot be read, or a file not be written. What is left to do is done
                when this is carried out again.
        """
        if self._under_way:
            return
        self._under_way = True
        try:
            while self._damaged:
                yield from self._queue_steps(next(iter(self._damaged)))
            yield from self._index_steps()
        finally:
            self._under_way = False

    def _queue_steps(self, queue: Queue) -> Steps[None]:
        entries = self._queues.queue(*queue)
        for file in entries.files.damaged if entries is not None else ():
            assert entries is not None
            repair = FileRepair(
                self._log, self._positions, self._dispatcher.queued, queue, entries, file
            )
            changed = yield from repair.steps()
            self._queues.unsynced.add(queue)
            log.warning(
                "queue was written again from the log topic=%s queue_id=%d from=%d entries=%d "
                "wrong=%d",
                *queue,
                file.base,
                file.count,
                changed,
            )
        self._damaged.pop(queue, None)

    def _index_steps(self) -> Steps[None]:
        while self._index.rebuilding:
            yield self._bring
            if self._dispatcher.index_again():
                self._index.rebuilding = False
                log.warning("key index was written again from the log")

    def _bring(self) -> None:
        """Have the next part of the log in memory; that it may be gone is found out later."""
        try:
            self._log.run.read(self._index.holds_to, WALK_BYTES)
        except DiskError:
            pass


def drop_index(index: KeyIndex, damage: IndexDamaged, log_first: LogOffset) -> LogOffset:
    """Do without a damaged index file and all behind it; gives where in the log to go on.

    Raises:
        DiskError: A file cannot be removed.
    """
    while True:
        try:
            return index.drop_from(damage.path, log_first)
        except IndexDamaged as further:
            damage = further
