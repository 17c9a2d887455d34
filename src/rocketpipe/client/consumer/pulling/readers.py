"""The queues that a pull consumer reads: one fetching task each, and what is done of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from rocketpipe.client.consumer.group.offsets import OffsetStore
from rocketpipe.client.consumer.group.start import Beginnings
from rocketpipe.client.consumer.pulling.loop import PullLoop
from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer, ReadAhead
from rocketpipe.client.session import Session
from rocketpipe.errors import QueueNotOurs, RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

_warnings = LogBudget()


class Readers:
    """Claims queues for a pull consumer, and releases them."""

    def __init__(
        self,
        session: Session,
        offsets: OffsetStore,
        beginnings: Beginnings,
        buffer: FetchBuffer,
        loop: PullLoop,
        *,
        auto_commit: bool,
    ) -> None:
        self._session = session
        self._offsets = offsets
        self._beginnings = beginnings
        self._buffer = buffer
        self._loop = loop
        self._auto_commit = auto_commit
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}

    async def claim(self, queue: MessageQueue) -> bool:
        """Begin to read a queue where the group stopped.

        Raises:
            RocketPipeError: If it cannot be told where that is.
        """
        if queue in self._buffer.places:
            return True
        self._offsets.forget(queue)  # somebody else has read it since
        start = await self._beginnings.of(queue)
        if queue not in self._buffer.places:
            self._run(self._buffer.open(queue, start))
        return True

    async def release(self, queue: MessageQueue) -> bool:
        """Stop reading a queue; what is done of it is saved for whoever reads it next."""
        task = self._tasks.pop(queue, None)
        place = self._buffer.remove(queue)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if place is not None and self._auto_commit:
            self._note(place)
            await self._save([queue])
        self._offsets.forget(queue)
        return True

    async def release_all(self) -> None:
        """Stop reading."""
        for queue in tuple(self._buffer.places):
            await self.release(queue)

    def place(self, queue: MessageQueue) -> ReadAhead:
        """What is known of a queue.

        Raises:
            QueueNotOurs: If it is not read here.
        """
        place = self._buffer.places.get(queue)
        if place is None:
            raise QueueNotOurs(queue.topic, queue.broker_name, queue.queue_id)
        return place

    def go_on_from(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """Read a queue from here on, unless it was released meanwhile; all before it is done."""
        if queue in self._buffer.places:
            self._buffer.seek(queue, offset)
            self._run_anew(queue)

    def fetch_again(self, queue: MessageQueue) -> None:
        """Fetch once more what is in hand of a queue: something else is wanted of it now."""
        if queue in self._buffer.places:
            self._buffer.drop(queue)
            self._run_anew(queue)

    # What is done

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Save these offsets, or all that was handed out.

        Raises:
            QueueNotOurs: If a queue is not read here.
            RocketPipeError: If something could not be saved.
        """
        if offsets is None:
            for place in self._buffer:
                place.settle()
                self._note(place)
            await self._offsets.persist(self._buffer.places)
            return
        for queue in offsets:
            self.place(queue)
        for queue, offset in offsets.items():
            self._offsets.update(queue, QueueOffset(offset), increase_only=False)
        await self._offsets.persist(offsets)

    async def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """What is saved for any queue.

        Raises:
            RocketPipeError: If it cannot be told.
        """
        saved = await self._offsets.read(queue)
        if queue not in self._buffer.places:
            self._offsets.forget(queue)
        return saved

    async def save_done(self) -> None:
        """Save what is done; what cannot be saved now is tried again the next time."""
        for place in self._buffer:
            self._note(place)
        await self._save(self._buffer.places)

    def _note(self, place: ReadAhead) -> None:
        # Whoever went back on purpose wants the group to do so too.
        self._offsets.update(place.queue, place.done, increase_only=False)

    async def _save(self, queues: Iterable[MessageQueue]) -> None:
        try:
            await self._offsets.persist(tuple(queues))
        except RocketPipeError as error:
            if _warnings.allows(error):
                log.warning("offsets not saved reason=%s%s", error, _warnings.suppressed())

    def _run_anew(self, queue: MessageQueue) -> None:
        # The pull that is under way may wait at the old place for a long time.
        task = self._tasks.pop(queue, None)
        if task is not None:
            task.cancel()
        self._run(self._buffer.places[queue])

    def _run(self, place: ReadAhead) -> None:
        queue = place.queue
        name = f"pulls of {queue.topic}/{queue.broker_name}/{queue.queue_id}"
        task = self._tasks[queue] = asyncio.create_task(self._loop.run(place), name=name)
        task.add_done_callback(_report)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a queue is not read any more task=%s", task.get_name(), exc_info=error)
