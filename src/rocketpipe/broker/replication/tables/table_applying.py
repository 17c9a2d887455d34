"""What records of the table log say, taken over by the tables of a replica."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from rocketpipe.broker.replication.tables.sealed_users import SealedUsers, SeenUsers
from rocketpipe.broker.replication.tables.table_records import TableRecord, read_record
from rocketpipe.broker.tables.lock_journal import LockJournal, Owned
from rocketpipe.broker.tables.order import OrderedPop
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.errors import InvalidName
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.requests.clients import RequestMode
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

T = TypeVar("T")

_OrderEntry = tuple[str, str, int, OrderedPop | None]
_orders: Final = msgspec.json.Decoder(_OrderEntry)
_topics: Final = msgspec.json.Decoder(TopicSettings)
_groups: Final = msgspec.json.Decoder(GroupSettings)
_modes: Final = msgspec.json.Decoder(RequestMode)


class _Snapshot:
    """What the parts of a snapshot had so far."""

    def __init__(self, number: int, began: QueueOffset) -> None:
        self.number = number
        self.began = began
        self.next_part = 0
        self.topics: set[str] = set()
        self.deleted: set[str] = set()
        self.groups: set[str] = set()
        self.forbidden: set[str] = set()
        self.places: dict[tuple[str, str], set[int]] = {}
        self.orders: set[tuple[str, str, int]] = set()
        self.modes: set[tuple[str, str]] = set()
        self.locks: set[Owned] = set()
        self.auth = SeenUsers()


class TableApplier:
    """Applies records in the order of the log.

    A record that cannot be read is passed over, and so is an entry: what it said comes again with
    the next snapshot.
    """

    def __init__(
        self,
        tables: Tables,
        owners: LockJournal,
        begin_queue: Callable[[str, int, QueueOffset], None],
        keep_from: Callable[[LogOffset], None],
        users: SealedUsers | None = None,
    ) -> None:
        """``begin_queue`` has a queue that is not known here begin behind what has expired.

        ``keep_from`` has the log kept from where the leader's begins.
        """
        self._tables = tables
        self._owners = owners
        self._begin_queue = begin_queue
        self._keep_from = keep_from
        self._users = users
        #: Whether queues were begun that may not be on the disk yet.
        self.has_begun_queues = False
        self._snapshot: _Snapshot | None = None
        self._warnings = LogBudget()
        #: Deleted topics whose queues are to be cut off, and up to where of the log.
        self.to_cut: dict[str, int] = {}
        #: Records that could not be read.
        self.passed_over = 0

    @property
    def unfinished_from(self) -> QueueOffset | None:
        """Where a snapshot began whose last part has not come: a start has to begin there again."""
        return None if self._snapshot is None else self._snapshot.began

    def drop_unfinished(self) -> None:
        """Do without the rest of a snapshot: what it had was right, and another follows."""
        self._snapshot = None

    def apply(self, body: bytes, at: QueueOffset) -> None:
        """Take over what the record at this offset of the queue says."""
        try:
            record = read_record(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            self._warn("cannot be read", at, error)
            return
        if record is None:
            self._warn("is of a kind that this version does not know", at, "a newer leader's")
            return
        snapshot = self._part(record, at)
        self._take_topics(record, snapshot)
        self._take_groups(record, snapshot)
        self._take_places(record, snapshot)
        self._take_rest(record, snapshot)
        if self._users is not None and record.auth:
            self._users.apply(record.auth, None if snapshot is None else snapshot.auth)
        if snapshot is not None and record.snapshot is not None and record.snapshot[2]:
            self._finish(snapshot)
            if self._users is not None and record.auth_all:
                self._users.keep_only(snapshot.auth)
            self._snapshot = None

    def _part(self, record: TableRecord, at: QueueOffset) -> _Snapshot | None:
        """The snapshot that a record is the next part of."""
        if record.snapshot is None:
            return None
        number, part, _ = record.snapshot
        if part == 0:
            self._snapshot = _Snapshot(number, at)
        snapshot = self._snapshot
        if snapshot is None or (snapshot.number, snapshot.next_part) != (number, part):
            self._snapshot = None  # a part is missing: nobody knows what it had
            return None
        snapshot.next_part += 1
        return snapshot

    def _take_topics(self, record: TableRecord, snapshot: _Snapshot | None) -> None:
        table, offsets = self._tables.topics, self._tables.offsets
        put = list(self._read(record.topics, _topics))
        deleted = {name: at for name, at in record.topics_deleted if at > 0}
        for name, at in deleted.items():
            is_news = table.deleted_to(name) != at
            if is_news or name in record.topics_gone:
                self.to_cut[name] = at
                offsets.forget_topic(name)
        if put or deleted or record.topics_gone or record.topics_version is not None:
            version = record.topics_version or table.version
            table.replicate(put, record.topics_gone, deleted, version)
        if snapshot is not None:
            snapshot.topics.update(settings.name for settings in put)
            snapshot.deleted.update(deleted)

    def _take_groups(self, record: TableRecord, snapshot: _Snapshot | None) -> None:
        table = self._tables.groups
        put = list(self._read(record.groups, _groups))
        if put or record.groups_gone or record.forbidden or record.groups_version is not None:
            version = record.groups_version or table.version
            table.replicate(put, record.groups_gone, record.forbidden, version)
        if snapshot is not None:
            snapshot.groups.update(settings.name for settings in put)
            snapshot.forbidden.update(name for name, topic, _ in record.forbidden if topic)

    def _take_places(self, record: TableRecord, snapshot: _Snapshot | None) -> None:
        table = self._tables.offsets
        for group, topic, flat, resets in record.places:
            places = dict(zip(flat[::2], flat[1::2], strict=False))
            table.replicate(group, topic, places, resets)
            if snapshot is not None:
                snapshot.places.setdefault((group, topic), set()).update(places)
        if record.offsets_version is not None:
            table.take_version(record.offsets_version)

    def _take_rest(self, record: TableRecord, snapshot: _Snapshot | None) -> None:
        tables = self._tables
        if record.delays is not None:
            version = record.delays_version or tables.delays.version
            tables.delays.replicate(record.delays, version)
        for topic, group, queue_id, pop in self._read(record.orders, _orders):
            tables.orders.replicate((topic, group, queue_id), pop)
            if snapshot is not None:
                snapshot.orders.add((topic, group, queue_id))
        if modes := list(self._read(record.modes, _modes)):
            tables.modes.replicate(modes)
            if snapshot is not None:
                snapshot.modes.update((mode.topic, mode.consumer_group) for mode in modes)
        for group, topic, broker, queue_id, owner in record.locks:
            queue = MessageQueue(topic=topic, broker_name=broker, queue_id=queue_id)
            self._owners.replicate((group, queue), owner)
            if snapshot is not None:
                snapshot.locks.add((group, queue))
        if record.first_offset is not None:
            self._keep_from(LogOffset(record.first_offset))
        for topic, queue_id, following in record.spent:
            try:
                self._begin_queue(topic, queue_id, QueueOffset(following))
                self.has_begun_queues = True
            except InvalidName as error:
                self._warn("has a queue that there cannot be", None, error)

    def _finish(self, snapshot: _Snapshot) -> None:
        """Forget what no part of a snapshot had."""
        tables = self._tables
        tables.topics.keep_only(snapshot.topics, snapshot.deleted)
        tables.groups.keep_only(snapshot.groups, snapshot.forbidden)
        tables.offsets.keep_only(snapshot.places)
        for key in set(tables.orders.keys()) - snapshot.orders:
            tables.orders.replicate(key, None)
        if gone := set(tables.modes.keys()) - snapshot.modes:
            tables.modes.replicate((), gone)
        self._owners.keep_only(snapshot.locks)

    def _read(self, entries: Iterable[msgspec.Raw], decoder: Any) -> Iterator[Any]:
        for entry in entries:
            try:
                yield decoder.decode(entry)
            except (msgspec.MsgspecError, RecursionError) as error:
                self._warn("has an entry that cannot be read", None, error)

    def _warn(self, what: str, at: QueueOffset | None, reason: object) -> None:
        self.passed_over += 1
        if self._warnings.allows():
            log.warning(
                "a table record %s, and is passed over: the next snapshot has what it said; "
                "have all replicas of one version offset=%s reason=%s%s",
                what,
                at,
                reason,
                self._warnings.suppressed(),
            )
