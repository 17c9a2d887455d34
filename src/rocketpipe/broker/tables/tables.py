"""The tables that outlive a broker, and when they are saved.

    config/topics.json              TopicTable
    config/subscriptionGroup.json   GroupTable
    config/consumerOffset.json      OffsetTable, and its journal where it is long
    config/delayOffset.json         DelayTable
    config/consumerOrderInfo.json   OrderTable
    config/messageRequestMode.json  RequestModeTable

What changed is saved once a second, so a broker that is killed forgets no more than that, and when
the broker stops. A table that did not change is left alone. Whoever makes a topic or a group is
answered when it is `settled`: it outlives a kill, and where there are replicas they have it too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from rocketpipe.broker.tables.delays import DelaysFile, DelayTable
from rocketpipe.broker.tables.deletions import cut_off, forget_places, queues_in_use
from rocketpipe.broker.tables.groups import GroupsFile, GroupTable
from rocketpipe.broker.tables.limits import TableLimits
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.offsets_keeper import OffsetsKeeper
from rocketpipe.broker.tables.order import OrderFile, OrderTable
from rocketpipe.broker.tables.request_modes import RequestModeTable
from rocketpipe.broker.tables.table_file import TableFile
from rocketpipe.broker.tables.topics import TopicsFile, TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import group_of_retry, is_retry_topic
from rocketpipe.protocol.requests.clients import RequestModes
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.snapshot import DAMAGED
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)
#: What fails is tried again each second, and said once a minute.
_failures = LogBudget(lines=1)

SAVE_EVERY_MS: Final = 1000

#: How a write is run: what it raises is a warning, or the caller's.
Guard: TypeAlias = Callable[[Callable[[], None]], None]


class Replicas(Protocol):
    """Those who have the tables too, in a group of brokers that takes over from each other."""

    async def settled(self) -> None:
        """Wait until they have the topics, groups and request modes of this moment.

        Raises:
            RequestRejected: Whether they have them is not known.
        """
        ...

    async def offsets_settled(self) -> None:
        """Wait until they have the places of groups of this moment.

        Raises:
            RequestRejected: Whether they have them is not known.
        """
        ...


class Tables:
    """The tables and their files. Load them before the broker serves, save them after."""

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
        self.orders = OrderTable()
        self.modes = RequestModeTable()
        #: Who sees to it that replicas have the tables too; None where there are none.
        self.replicas: Replicas | None = None
        self._clock = clock
        self._disk, self._directory = disk, directory
        self._offsets_name = "consumerOffset.json"
        self._topics_file = TableFile(disk, directory / "topics.json", TopicsFile)
        self._groups_file = TableFile(disk, directory / "subscriptionGroup.json", GroupsFile)
        self._offsets_file = OffsetsKeeper(
            disk, directory / "consumerOffset.json", self.offsets, clock
        )
        self._delays_file = TableFile(disk, directory / "delayOffset.json", DelaysFile)
        self._orders_file = TableFile(disk, directory / "consumerOrderInfo.json", OrderFile)
        self._modes_file = TableFile(disk, directory / "messageRequestMode.json", RequestModes)
        #: What was last saved, by a value that is another one after a change.
        self._saved: dict[str, object] = {"orders": 0, "modes": 0}
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
        if (orders := self._orders_file.load()) is not None:
            self.orders.load(orders)
        if (modes := self._modes_file.load()) is not None:
            self.modes.load(modes)

    def reconcile(self, store: MessageStore) -> None:
        """Have tables and queues agree, before this broker serves as the one that leads.

        What the last run was about to delete is deleted; topics that only the store knows are known
        from then on.

        Raises:
            DiskError: A queue cannot be read.
            StoreFailed: That queues are gone cannot be made durable.
        """
        self.finish_deletions(store)
        self.adopt(queues_in_use(store, every=self._topics_file.was_lost))

    def finish_deletions(self, store: MessageStore) -> None:
        """Have no queue and no offset of what was deleted, whatever the last run left of it.

        Raises:
            DiskError: A queue cannot be read.
            StoreFailed: That they are gone cannot be made durable.
        """
        self.topics.finish_deleting(store.positions.written, self.now_ms)
        self.topics.forget_deleted(store.first_offset)
        forget_places(self.topics, self.offsets)
        if cut_off(store, self.topics):
            store.sync_derived()  # before a topic of that name is made, and has new queues

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
        for write in self._writers("topics", "groups", "delays", "orders", "modes"):
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
        """Wait until the topics and groups of this moment are on disk, and at the replicas.

        If they cannot be saved, the warning says so, and they are saved with the next.

        Raises:
            RequestRejected: It is not known whether the replicas have them.
        """
        await self._kept("topics", "groups", guard=_try)

    async def group_kept(self, name: str) -> None:
        """Wait until a group is on disk, if it is not; all who wait share one save.

        Raises:
            DiskError: It could not be saved; it is with the next.
            RequestRejected: It is not known whether the replicas have it.
        """
        await self._kept("groups", on_disk=name in self._kept_groups)

    async def offsets_saved(self) -> None:
        """Wait until the offsets of this moment are on disk; all who wait share one save.

        Raises:
            DiskError: They could not be saved; they are with the next.
            RequestRejected: It is not known whether the replicas have them.
        """
        await self._kept("offsets")

    async def modes_saved(self) -> None:
        """Wait until the request modes of this moment are on disk, and at the replicas.

        Raises:
            DiskError: They could not be saved; they are with the next.
            RequestRejected: It is not known whether the replicas have them.
        """
        await self._kept("modes")

    async def all_saved(self) -> None:
        """Wait until everything of this moment is on disk.

        Raises:
            DiskError: It could not be saved; it is with the next.
        """
        await self._save_beside(guard=_insist)

    async def _kept(self, *names: str, on_disk: bool = False, guard: Guard | None = None) -> None:
        """Wait until these tables are on disk, if they are not, and at the replicas."""
        if not on_disk:
            await self._save_beside(*names, guard=guard or _insist)
        if self.replicas is not None:
            of_places = "offsets" in names
            await (self.replicas.offsets_settled if of_places else self.replicas.settled)()

    async def _save_beside(self, *names: str, guard: Guard | None = None) -> None:
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
            (self.topics.version, self.topics.replicated),
            lambda: self._topics_file.writer(self.topics.to_file()),
        )
        if_changed(
            "groups",
            (self.groups.version, self.groups.replicated),
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
        if_changed(
            "orders",
            self.orders.changes,
            lambda: self._orders_file.writer(self.orders.to_file(now_ms)),
        )
        if_changed(
            "modes",
            self.modes.changes,
            lambda: self._modes_file.writer(self.modes.to_file()),
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
        if _failures.allows():
            log.warning(
                "a table could not be saved, and is tried again: %s%s",
                error,
                _failures.suppressed(),
            )
