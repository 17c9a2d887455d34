"""The tables that outlive a broker, and when they are saved.

    config/topics.json              TopicTable
    config/subscriptionGroup.json   GroupTable
    config/consumerOffset.json      OffsetTable, and its journal where it is long
    config/delayOffset.json         DelayTable

What changed is saved once a second, so a broker that is killed forgets no more than that, and when
the broker stops. A table that did not change is left alone. Whoever makes a topic or a group is
answered when it is `settled`: it outlives a kill.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from rocketpipe.broker.tables.delays import DelaysFile, DelayTable
from rocketpipe.broker.tables.groups import GroupsFile, GroupTable
from rocketpipe.broker.tables.limits import TableLimits
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.offsets_keeper import OffsetsKeeper
from rocketpipe.broker.tables.table_file import TableFile
from rocketpipe.broker.tables.topics import TopicsFile, TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import group_of_retry, is_retry_topic
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.errors import QueueDamaged
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.snapshot import DAMAGED
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.queues.entries import QUEUE_ENTRY

log = logging.getLogger(__name__)

SAVE_EVERY_MS: Final = 1000


class Tables:
    """Four tables and their files. Load them before the broker serves, save them after."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        clock: Clock,
        *,
        default_topic_queues: int,
        auto_create_topics: bool = True,
        auto_create_groups: bool = True,
        limits: TableLimits | None = None,
    ) -> None:
        """Make the tables; ``directory`` is the store's ``config``."""
        self.topics = TopicTable(
            default_topic_queues, auto_create=auto_create_topics, limits=limits
        )
        self.groups = GroupTable(auto_create=auto_create_groups, limits=limits)
        self.offsets = OffsetTable()
        self.delays = DelayTable()
        self._clock = clock
        self._disk, self._directory = disk, directory
        self._offsets_name = "consumerOffset.json"
        self._topics_file = TableFile(disk, directory / "topics.json", TopicsFile)
        self._groups_file = TableFile(disk, directory / "subscriptionGroup.json", GroupsFile)
        self._offsets_file = OffsetsKeeper(
            disk, directory / "consumerOffset.json", self.offsets, clock
        )
        self._delays_file = TableFile(disk, directory / "delayOffset.json", DelaysFile)
        #: What was last saved, by a value that is another one after a change.
        self._saved: dict[str, object] = {}
        #: The groups that are on disk.
        self._kept_groups: frozenset[str] = frozenset()
        #: One at a time, or an older state of a table could replace a newer one.
        self._saving = asyncio.Lock()

    @property
    def now_ms(self) -> int:
        """The time by which versions of tables are stamped."""
        return self._clock.now_ms()

    def load(self) -> None:
        """Read what was saved; a file that is not there leaves its table as it is.

        Raises:
            DiskError: the disk refused.
        """
        if (topics := self._topics_file.load()) is not None:
            self.topics.load(topics)
        if (groups := self._groups_file.load()) is not None:
            self.groups.load(groups)
            self._kept_groups = frozenset(groups.groups)
        self._offsets_file.load()
        if (delays := self._delays_file.load()) is not None:
            self.delays.load(delays)

    def finish_deletions(self, store: MessageStore) -> None:
        """Have no queue and no offset of what was deleted, whatever the last run left of it.

        Raises:
            DiskError: A queue cannot be read.
            StoreFailed: That they are gone cannot be made durable.
        """
        topics = self.topics
        topics.finish_deleting(store.positions.written, self.now_ms)
        topics.forget_deleted(store.first_offset)
        gone = set(topics.deleted())
        for name in {topic for _, topic, *_ in self.offsets.all() if topic in gone}:
            self.offsets.forget_topic(name)
        removed = 0
        for name, queue_id in list(store.queues()):
            end = store.max_offset(name, queue_id)
            # Of all the others nothing is read: there may be many.
            if topics.was_deleted_since(name, 0) and store.min_offset(name, queue_id) < end:
                try:
                    removed += self._cut_off(store, name, queue_id)
                except QueueDamaged as damage:
                    store.derived.repairs.mend_now((name, queue_id), damage)
                    removed += self._cut_off(store, name, queue_id)
        if removed:
            store.sync_derived()  # before a topic of that name is made, and has new queues

    def _cut_off(self, store: MessageStore, name: str, queue_id: int) -> bool:
        """Do without a queue of a deleted topic, or with what is of that in the queue of a new one.

        That may be there again where the queue was written from the log.
        """
        queues, topics = store.derived.queues, self.topics
        last = QueueOffset(store.max_offset(name, queue_id) - 1)
        entry, queue = queues.entries(name, queue_id, last, 1), queues.queue(name, queue_id)
        if entry and topics.was_deleted_since(name, QUEUE_ENTRY.unpack(entry)[0]):
            queues.delete(name, queue_id)
            return True
        if queue is not None:
            queue.set_min(topics.deleted_to(name))
        return False

    def adopt(self, queues: Iterable[tuple[str, int]]) -> None:
        """Know every topic that the store has queues of: pairs of topic and queue id."""
        counts: dict[str, int] = {}
        for topic, queue_id in queues:
            counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        for topic, count in sorted(counts.items()):
            self.topics.adopt(topic, count, self._clock.now_ms())
        if self._groups_file.was_lost:
            self._adopt_groups()
        if self._was_set_aside(self._offsets_name):
            # Rather once more than never, until each of them has a place again.
            everyone = self._was_set_aside(self._groups_file.path.name)
            self.offsets.lost_groups = _Everyone() if everyone else frozenset(self.groups.all())
            log.error(
                "places of groups are lost: a group begins with the first message where it has "
                "none; remove %s%s* once all have",
                self._offsets_name,
                DAMAGED,
            )

    @property
    def topics_were_lost(self) -> bool:
        """Whether all that is known of topics is what the store has of them."""
        return self._topics_file.was_lost

    def _adopt_groups(self) -> None:
        """Know the groups that have a place, or something to consume again."""
        names = {place[0] for place in self.offsets.all()}
        names.update(group_of_retry(name) for name in self.topics.all() if is_retry_topic(name))
        for name in sorted(names):
            try:
                self.groups.update(GroupSettings(name=name), self._clock.now_ms())
            except RocketPipeError as error:
                log.warning("group left out: %s", error)

    def _was_set_aside(self, name: str) -> bool:
        """Whether a table was lost in this run or in one before, and nobody has seen to it yet."""
        try:
            names = self._disk.names(self._directory)
        except DiskError:
            return False
        return any(each.startswith((name + DAMAGED, f"{name}.bak{DAMAGED}")) for each in names)

    def save(self) -> None:
        """Save what changed since it was last saved; it survives a power cut then.

        Raises:
            DiskError: a file could not be written; its last version is still there.
        """
        changes = self.offsets.changes
        for write in self._writers("topics", "groups", "delays"):
            write()
        if self._offsets_file.is_behind or self._saved.get("offsets") != changes:
            self._offsets_file.save()
            self._saved["offsets"] = changes

    async def keep_saved(self, every_ms: int = SAVE_EVERY_MS) -> None:
        """Save what changed, again and again, on another thread, until cancelled.

        A save that fails is tried again with the next; the warning says what is at stake.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_offsets_whole(every_ms))
            try:
                while True:
                    await self._clock.sleep(every_ms)
                    await self._save_beside()
            except asyncio.CancelledError:
                self._offsets_file.stop_renewing()
                raise

    async def _keep_offsets_whole(self, every_ms: int) -> None:
        while True:
            await self._clock.sleep(every_ms)
            if self._offsets_file.wants_whole:
                await _beside(_try, self._offsets_file.renew)

    async def settled(self) -> None:
        """Wait until the topics and groups of this moment are on disk.

        If they cannot be saved, the warning says so, and they are saved with the next.
        """
        await self._save_beside("topics", "groups")

    async def group_kept(self, name: str) -> None:
        """Wait until a group is on disk, if it is not; all who wait share one save.

        Raises:
            DiskError: It could not be saved; it is with the next.
        """
        if name not in self._kept_groups:
            await self._save_beside("groups", guard=_insist)

    async def offsets_saved(self) -> None:
        """Wait until the offsets of this moment are on disk; all who wait share one save.

        Raises:
            DiskError: They could not be saved; they are with the next.
        """
        await self._save_beside("offsets", guard=_insist)

    async def _save_beside(
        self, *names: str, guard: Callable[[Callable[[], None]], None] | None = None
    ) -> None:
        """Save what changed, of these tables or of all, on another thread."""
        async with self._saving:
            for write in self._writers(*names):
                await _beside(guard or _try, write)

    def _writers(self, *names: str) -> list[Callable[[], None]]:
        """The saving of each table that changed, or of those of ``names`` that did.

        What they write is fixed when this returns.
        """
        now_ms = self._clock.now_ms()
        writers: list[Callable[[], None]] = []

        def if_changed(name: str, change: object, writer: Callable[[], Callable[[], None]]) -> None:
            if self._saved.get(name) != change and (not names or name in names):
                write = writer()

                def write_and_note() -> None:
                    write()
                    self._saved[name] = change

                writers.append(write_and_note)

        if_changed(
            "topics",
            self.topics.version,
            lambda: self._topics_file.writer(self.topics.to_file()),
        )
        if_changed(
            "groups",
            self.groups.version,
            self._groups_writer,
        )
        if_changed(
            "offsets",
            self.offsets.changes,
            self._offsets_file.writer,
        )
        if_changed(
            "delays",
            self.delays.changes,
            lambda: self._delays_file.writer(self.delays.to_file(now_ms)),
        )
        return writers

    def _groups_writer(self) -> Callable[[], None]:
        file = self.groups.to_file()
        write, names = self._groups_file.writer(file), frozenset(file.groups)

        def write_and_know() -> None:
            write()
            self._kept_groups = names

        return write_and_know


async def _beside(guard: Callable[[Callable[[], None]], None], write: Callable[[], None]) -> None:
    saving = asyncio.ensure_future(asyncio.to_thread(guard, write))
    try:
        await asyncio.shield(saving)
    except asyncio.CancelledError:
        await asyncio.wait([saving])  # or it could undo a later save
        raise


class _Everyone:
    """Has every group."""

    def __contains__(self, group: object) -> bool:
        return True


def _insist(write: Callable[[], None]) -> None:
    write()


def _try(write: Callable[[], None]) -> None:
    try:
        write()
    except RocketPipeError as error:
        log.warning("a table could not be saved, and is tried again: %s", error)
