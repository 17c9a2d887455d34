"""Somebody who uses a store, goes on after each refusal, and takes down what it promised."""

from __future__ import annotations

from typing import Any, Final

from rocketpipe.errors import StoreError
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import StoreFull
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.state.health import StoreState
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.late_worker import LateWorker
from rocketpipe.testing.simulation.promises import Promises, Sent
from rocketpipe.testing.simulation.small_store import HOST, ROOT, StepClock, message, small_store

_TIMES_TO_OPEN: Final = 5


class StoreUser:
    """One store on one simulated disk, over all its lives; ``promises`` has what it owes."""

    def __init__(
        self, disk: SimDisk, flush: FlushMode, *, late: bool = False, **config: Any
    ) -> None:
        """With ``late`` the store has a worker beside it, which works when `work` says so."""
        self.disk = disk
        self.flush_mode = flush
        self.config = small_store(ROOT, flush, **config)
        self.clock = StepClock()
        self.promises = Promises(flush)
        #: What happened, in words: the place to look when a run fails.
        self.story: list[str] = []
        self._store: MessageStore | None = None
        self._late = late
        self._worker = LateWorker()
        self._waiting: dict[int, list[Sent]] = {}

    @property
    def store(self) -> MessageStore:
        """The store, which is open."""
        assert self._store is not None
        return self._store

    @property
    def is_open(self) -> bool:
        """Whether there is a store to use."""
        return self._store is not None

    def open(self) -> None:
        """Open the store, as often as it takes while the disk's faults last.

        Raises:
            StoreError: It cannot be opened although no fault strikes any more.
        """
        for _ in range(_TIMES_TO_OPEN):
            try:
                self._store = MessageStore.open(
                    self.config, disk=self.disk, clock=self.clock, store_host=HOST, threads=False
                )
            except StoreError as error:
                self.story.append(f"open: {error}")
                last = error
                self.disk.kill()  # the process that could not open it is gone
            else:
                self.story.append("opened")
                if self._late:
                    self._worker = self._store.rounds.worker = LateWorker()
                return
        raise last

    def check(self) -> None:
        """Compare the store, just opened, with what it promised.

        Raises:
            PromiseBroken: It did not keep that.
        """
        with self.disk.calm():
            self.store.dispatch()
            self.promises.check(self.store)

    def append(self, *sizes: int) -> None:
        """Append groups of these sizes."""
        puts = [[message(self.promises.next_number()) for _ in range(size)] for size in sizes]
        groups = [self.promises.sending(group) for group in puts]
        failed = self.store.state is StoreState.FAILED
        try:
            placed = self.store.append(puts)
        except StoreFull as error:
            self.story.append(f"append: {error}")
            for group in groups:
                self.promises.refused(group)
            return
        except StoreError as error:
            self.story.append(f"append: {error}")
            if self.store.state is not StoreState.FAILED:
                self.promises.broken.append(f"still {self.store.state} after {error}")
            return
        if failed:
            self.promises.broken.append("a store that had failed took an append")
        for group, places in zip(groups, placed, strict=True):
            self.promises.appended(group, places)
            if self.flush_mode is FlushMode.SYNC:
                self._await(group)

    def _await(self, group: list[Sent]) -> None:
        number = group[0].number
        self._waiting[number] = group

        def done(error: StoreError | None) -> None:
            if self._waiting.pop(number, None) is None:
                self.promises.broken.append(f"told twice of {number}")
            if error is None:
                self.promises.acked(group)

        self.store.when_durable(LogOffset(group[-1].end), done)

    def flush(self) -> None:
        """Sync what was appended; afterwards everybody has been told."""
        self.store.flush()
        self.promises.durable(int(self.store.positions.durable))
        if self._waiting:
            self.promises.broken.append(f"never told: {sorted(self._waiting)}")

    def dispatch(self) -> None:
        """Let the queues and the index grow."""
        try:
            self.store.dispatch()
        except StoreError as error:
            self.story.append(f"dispatch: {error}")

    def work(self) -> None:
        """Have the worker do one of the things that were handed to it."""
        if self._worker.work():
            self.story.append("worked")

    def wait(self, duration_ms: int) -> None:
        """Let time pass."""
        self.clock.leap(duration_ms)

    def read(self, topic: str, queue_id: int, offset: int, count: int) -> None:
        """Read from a queue, and ask for its end."""
        try:
            end = self.store.max_offset(topic, queue_id)
            self.promises.counted(self.store, topic, queue_id, end)
            at = QueueOffset(offset)
            result = self.store.read(topic, queue_id, at, max_count=count)
        except StoreError as error:
            self.story.append(f"read: {error}")
            return
        self.promises.shown(self.store, topic, queue_id, result.records)

    def delete(self, before: int) -> None:
        """Remove the segments that lie before an offset of the log."""
        self.promises.removed(before)
        try:
            self.store.delete_before(LogOffset(before))
        except StoreError as error:
            self.story.append(f"delete: {error}")

    def close(self) -> None:
        """Close in good order; a store that cannot is as good as killed."""
        failed = self.store.state is StoreState.FAILED
        try:
            self.store.close()
        except StoreError as error:
            self.story.append(f"close: {error}")
            failed = True
        if not failed:
            self.promises.closed()
            self._end("closed")
            self.disk.kill()
        else:
            self.kill()

    def kill(self) -> None:
        """End the process."""
        if any(path.parent.name == "commitlog" for path in self.disk.failed_syncs):
            # What a failed sync was to write is nowhere but in the page cache, and the next
            # opening is right not to trust that: the machine might as well have died.
            self.promises.lost_power()
        self._end("killed")
        self.disk.kill()

    def lose_power(self) -> None:
        """Cut the power; also after a `PowerCut` came out of the disk."""
        if self._store is not None:
            self.promises.durable(int(self._store.positions.durable))
        self.promises.lost_power()
        self._end("lost power")
        self.disk.crash()

    def _end(self, how: str) -> None:
        self.story.append(how)
        self._store = None
        self._waiting.clear()
        self.disk.failed_syncs.clear()
