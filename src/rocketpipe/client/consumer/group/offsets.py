"""How far a group has come in its queues: kept at the broker, or in a file of this machine.

Members note progress in memory as they go and save it from time to time. What was noted only grows
unless somebody means it to go back; an offset that was frozen, because an operator or the broker
put it where it is, stays until the queue is forgotten.

    clustering      BrokerOffsets   the group's offsets, whoever reads the queue next
    broadcasting    FileOffsets     this machine's own, as every member reads everything

The file is RocketMQ's ``offsets.json``, with its previous version beside it:

    {"offsetTable":{{"brokerName":"a","queueId":0,"topic":"t"}:5}}

Who uses it has ``offsets.json.lock`` locked: a second member that went by the same file would take
the first one's progress for its own, and never see what lies between.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

from rocketpipe.client.session import Session
from rocketpipe.errors import InvalidName, OffsetsTaken, RequestRejected
from rocketpipe.model.names import check_group
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import (
    QueryConsumerOffset,
    QueueOffsets,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)
from rocketpipe.store.files.disk import Disk, DiskError, DiskFile
from rocketpipe.store.files.snapshot import Snapshot

log = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT")

SAVE_TIMEOUT_MS: Final = 5000
#: So many offsets of a group are on their way to brokers at a time.
AT_ONCE: Final = 32


class OffsetStore(Protocol):
    """Where the offsets of one group are kept."""

    async def read(self, queue: MessageQueue) -> QueueOffset | None:
        """What is saved for a queue; None if nothing ever was.

        It is noted in memory, unless something is noted there already.

        Raises:
            RocketPipeError: If it cannot be told: that is not the same as None.
        """
        ...

    def update(
        self, queue: MessageQueue, offset: QueueOffset, *, increase_only: bool = True
    ) -> None:
        """Note progress, in memory."""
        ...

    def noted(self, queue: MessageQueue) -> QueueOffset | None:
        """What is in memory for a queue; nobody is asked."""
        ...

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Save what changed of these queues, all that can be saved.

        Raises:
            RocketPipeError: The first of those that could not be saved; they stay to be saved.
        """
        ...

    def forget(self, queue: MessageQueue) -> None:
        """Drop what is in memory for a queue that is not read here any more."""
        ...

    def freeze(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """Note this offset; those who still work on earlier messages cannot move it any more."""
        ...


@dataclass(slots=True)
class _Mark:
    offset: QueueOffset
    saved: QueueOffset | None = None
    frozen: bool = False


class _NotedOffsets:
    """What both stores note in memory of each queue. It holds no more queues than are read here."""

    def __init__(self) -> None:
        self._marks: dict[MessageQueue, _Mark] = {}

    def update(
        self, queue: MessageQueue, offset: QueueOffset, *, increase_only: bool = True
    ) -> None:
        """Note progress, in memory."""
        mark = self._marks.get(queue)
        if mark is None:
            self._marks[queue] = _Mark(offset)
        elif not mark.frozen and (offset > mark.offset or not increase_only):
            mark.offset = offset

    def noted(self, queue: MessageQueue) -> QueueOffset | None:
        """What is in memory for a queue; nobody is asked."""
        mark = self._marks.get(queue)
        return None if mark is None else mark.offset

    def forget(self, queue: MessageQueue) -> None:
        """Drop what is in memory for a queue that is not read here any more."""
        self._marks.pop(queue, None)

    def freeze(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """Note this offset; those who still work on earlier messages cannot move it any more."""
        mark = self._marks.setdefault(queue, _Mark(offset))
        mark.offset = offset
        mark.frozen = True

    def _found(self, queue: MessageQueue, offset: QueueOffset) -> None:
        self._marks.setdefault(queue, _Mark(offset)).saved = offset

    def _unsaved(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        return {
            queue: mark.offset
            for queue in queues
            if (mark := self._marks.get(queue)) is not None and mark.offset != mark.saved
        }

    def _saved(self, queue: MessageQueue, offset: QueueOffset) -> None:
        mark = self._marks.get(queue)
        if mark is not None:
            mark.saved = offset


class BrokerOffsets(_NotedOffsets):
    """A group's offsets at the brokers that hold the queues."""

    def __init__(self, session: Session, group: str, *, exact: bool = False) -> None:
        """``exact`` has only what was saved count, also in young queues; see ``start``."""
        super().__init__()
        self._exact = exact
        self._session = session
        self._group = group

    async def read(self, queue: MessageQueue) -> QueueOffset | None:
        """What the group's offset of a queue is at its broker, if it has one there.

        Raises:
            NoRoute: If the broker of the queue is not known.
            ConnectionLost: If it is out of reach.
            CallTimeout: If it does not answer in time.
            RequestRejected: If it refuses to say.
        """
        request = QueryConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False if self._exact else None,
            broker_name=queue.broker_name,
        )
        try:
            reply = await self._session.leaders.ask_anybody(
                queue, request, self._session.timeout_ms
            )
        except RequestRejected as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        if reply.offset < 0:
            return None
        self._found(queue, reply.offset)
        return reply.offset

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Tell each broker what changed of these queues, whether or not another one fails.

        Raises:
            NoRoute: If the broker of a queue is not known.
            ConnectionLost: If one is out of reach.
            CallTimeout: If one does not answer in time.
            RequestRejected: If one refuses.
        """
        unsaved = list(self._unsaved(queues).items())
        failures: list[BaseException] = []
        for at in range(0, len(unsaved), AT_ONCE):
            results = await asyncio.gather(
                *(self._save(queue, offset) for queue, offset in unsaved[at : at + AT_ONCE]),
                return_exceptions=True,
            )
            failures += [result for result in results if result is not None]
        if failures:
            raise failures[0]

    async def _save(self, queue: MessageQueue, offset: QueueOffset) -> None:
        request = UpdateConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            broker_name=queue.broker_name,
        )
        # RocketMQ's clients want no answer here; with one, what was lost is saved again.
        await self._session.leaders.ask_anybody(queue, request, SAVE_TIMEOUT_MS)
        self._saved(queue, offset)


class FileOffsets(_NotedOffsets):
    """Offsets in a file; RocketMQ's clients read it, and we read theirs.

    A member goes by it inside ``async with``: the file is its own then.
    """

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        super().__init__()
        self._disk = disk or Disk()
        self._directory = path.parent
        self._snapshot = Snapshot(self._disk, path)
        self._table: dict[MessageQueue, QueueOffset] | None = None
        self._saving = asyncio.Lock()
        self._lock: DiskFile | None = None

    async def __aenter__(self) -> Self:
        """Take the file; what it says is read anew, as others may have had it in between.

        Raises:
            OffsetsTaken: If another member has it, of this process or another.
            DiskError: If the disk refuses.
        """
        self._lock = await asyncio.to_thread(self._take)
        self._table = None
        return self

    async def __aexit__(self, *exc: object) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    async def read(self, queue: MessageQueue) -> QueueOffset | None:
        """What is saved for a queue, if anything is.

        Raises:
            SnapshotDamaged: If neither the file nor its previous version can be read: mend it, or
                delete both to begin anew.
            DiskError: If the disk refuses.
        """
        offset = (await self._loaded()).get(queue)
        if offset is None or offset < 0:
            return None
        self._found(queue, offset)
        return offset

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Replace the file, if anything changed of these queues.

        Raises:
            SnapshotDamaged: If what is there cannot be read.
            DiskError: If the disk refuses; the last version is still there.
        """
        async with self._saving:
            unsaved = self._unsaved(queues)
            if not unsaved:
                return
            table = {**await self._loaded(), **unsaved}
            text = fastjson.write(QueueOffsets(offsets=table))
            # On another thread: a disk may take its time to say that it has it.
            await asyncio.to_thread(self._write, text)
            self._table = table
            for queue, offset in unsaved.items():
                self._saved(queue, offset)

    async def _loaded(self) -> Mapping[MessageQueue, QueueOffset]:
        if self._table is None:
            found = await asyncio.to_thread(self._load)
            self._table = {} if found is None else dict(found.offsets)
        return self._table

    def _take(self) -> DiskFile:
        # Not the file itself: that is another one after each save.
        path = self._snapshot.path.with_name(self._snapshot.path.name + ".lock")
        self._disk.make_directory(self._directory)
        try:
            file = self._disk.create(path)
        except DiskError as error:
            if error.errno != errno.EEXIST:
                raise
            file = self._disk.open(path)
        try:
            if not file.lock():
                raise OffsetsTaken(self._snapshot.path)
        except BaseException:
            file.close()
            raise
        return file

    def _load(self) -> QueueOffsets | None:
        return self._snapshot.load(lambda text: fastjson.read(text, QueueOffsets))

    def _write(self, text: bytes) -> None:
        self._disk.make_directory(self._directory)
        self._snapshot.save(text)


def offsets_path(client_id: str, group: str, root: Path | None = None) -> Path:
    """Where RocketMQ's clients keep the offsets of a broadcast group: under the home directory.

    Raises:
        InvalidName: If the id or the group cannot be the name of a directory.
    """
    check_group(group)
    if not client_id.strip(".") or any(letter in '/\\\0<>:"|?*' for letter in client_id):
        raise InvalidName("client id", client_id, "cannot be the name of a directory")
    return (root or Path.home() / ".rocketmq_offsets") / client_id / group / "offsets.json"


async def offset_at(session: Session, queue: MessageQueue, at_ms: int) -> QueueOffset:
    """The offset of the first message that was stored at a moment, or after it.

    Raises:
        NoRoute: If nobody has the queue.
        ConnectionLost: If the broker is out of reach.
        RequestRejected: If it has no such queue.
    """
    request = SearchOffsetByTimestamp(
        topic=queue.topic,
        queue_id=queue.queue_id,
        timestamp=at_ms,
        broker_name=queue.broker_name,
    )
    return (await session.leaders.ask_anybody(queue, request, session.timeout_ms)).offset
