"""The bodies of the records by which tables travel in the log: JSON, 256 KiB at the most.

A record has entries of any table, each as it is from then on, so that to apply one twice does no
harm, and the last one about a thing counts:

    {"do":"tables",
     "topics":[{"topicName":"orders",…}],  "topics_gone":["old"],  "topics_deleted":[["old",4096]],
     "groups":[{"groupName":"billing",…}], "groups_gone":[…], "forbidden":[["billing","orders",4]],
     "places":[["billing","orders",[0,17,1,4],[1]]],       queue and offset, -1 for none; reset ones
     "orders":[["orders","billing",0,{…}]],  "modes":[{…}],  "delays":{"1":100},
     "locks":[["billing","orders","broker-a",3,"10.0.0.7@4711"]],
     "spent":[["orders",3,4096]],    queues whose messages have all expired, and their next offset
     "first_offset":8192,            where the leader's log begins
     "auth":[["inner","…"]],         users and rights, sealed: see ``sealed_users``
     "topics_version":{…}, …}

A snapshot is all of them, in parts: ``"snapshot":[7,0,false]`` is the first part of the seventh,
and not its last. What no part of it has is not there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec

from rocketpipe.broker.replication.tables.sealed_users import SealedUsers
from rocketpipe.broker.tables.lock_journal import LockJournal, Owned
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.model.body import Int32, Int64
from rocketpipe.model.topic import DataVersion

#: What a replica takes over in one go, while nobody else has their turn.
MAX_BODY_BYTES: Final = 256 << 10
#: Entries that are written down before others have their turn.
ENTRIES_AT_ONCE: Final = 5000
#: A topic may have more queues than one entry should.
_PLACES_AN_ENTRY: Final = 4096
#: What a record has beside its entries.
_FRAME_BYTES: Final = 1024

KIND: Final = "tables"


class TableRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a record says; entries of their own kinds are read one by one."""

    do: str
    snapshot: tuple[int, int, bool] | None = None
    topics: list[msgspec.Raw] = []
    topics_gone: list[str] = []
    topics_deleted: list[tuple[str, Int64]] = []
    topics_version: DataVersion | None = None
    groups: list[msgspec.Raw] = []
    groups_gone: list[str] = []
    forbidden: list[tuple[str, str, Int32]] = []
    groups_version: DataVersion | None = None
    places: list[tuple[str, str, list[Int64], list[Int32]]] = []
    offsets_version: DataVersion | None = None
    delays: dict[Int32, Int64] | None = None
    delays_version: DataVersion | None = None
    orders: list[msgspec.Raw] = []
    modes: list[msgspec.Raw] = []
    locks: list[tuple[str, str, str, Int32, str | None]] = []
    spent: list[tuple[str, Int32, Int64]] = []
    #: Versions before this field do not tell.
    first_offset: Int64 | None = None
    auth: list[tuple[str, str]] = []
    #: Of the last part of a snapshot: it had all users and rights. Who has none does not say so.
    auth_all: bool = False


class _Kind(msgspec.Struct, frozen=True):
    do: str


_decoder: Final = msgspec.json.Decoder(TableRecord)


def read_record(body: bytes) -> TableRecord | None:
    """Read a record; None for one of a kind that a later version may have.

    Raises:
        msgspec.MsgspecError: It is damaged.
    """
    if msgspec.json.decode(body, type=_Kind).do != KIND:
        return None
    return _decoder.decode(body)


class _Bodies:
    """Entries become bodies, as many in each as have room."""

    def __init__(self, most: int, snapshot: int | None = None) -> None:
        self._most = most - _FRAME_BYTES
        self._snapshot = snapshot
        self._part = 0
        self._size = 0
        self._entries: defaultdict[str, list[msgspec.Raw]] = defaultdict(list)
        self._whole: dict[str, object] = {}
        self.done: list[bytes] = []

    def add(self, kind: str, entry: object) -> None:
        try:
            raw = msgspec.json.encode(entry)
        except UnicodeEncodeError:
            return  # a peer made it up, and it could not be saved either
        if self._size and self._size + len(raw) > self._most:
            self.close()
        self._entries[kind].append(msgspec.Raw(raw))
        self._size += len(raw) + 1

    def set(self, kind: str, value: object) -> None:
        """What is small, and in one body as a whole."""
        self._whole[kind] = value

    def close(self, *, last: bool = False) -> None:
        """Begin a new body, if there is something in this one."""
        if not (self._size or self._whole or last):
            return
        body: dict[str, Any] = {"do": KIND}
        if self._snapshot is not None:
            body["snapshot"] = (self._snapshot, self._part, last)
            self._part += 1
        self.done.append(msgspec.json.encode({**body, **self._whole, **self._entries}))
        self._entries.clear()
        self._whole.clear()
        self._size = 0

    def take(self) -> list[bytes]:
        done, self.done = self.done, []
        return done


@dataclass(frozen=True, slots=True)
class Changed:
    """What changed since it was last asked, written down."""

    bodies: list[bytes]
    topics: set[str]
    owned: set[Owned]
    #: It could not be passed on, and is to come again.
    put_back: Callable[[], None]


class TableScribe:
    """Writes down what tables have: what changed, or all of it."""

    def __init__(
        self,
        tables: Tables,
        owners: LockJournal,
        *,
        most: int = MAX_BODY_BYTES,
        spent: Callable[[], Iterable[tuple[str, int, int]]] = tuple,
        first_offset: Callable[[], int] = int,
        users: SealedUsers | None = None,
    ) -> None:
        """Make no body longer than ``most``, unless a single entry is.

        ``spent`` gives queues of which the log has nothing left: who gets it now learns of them
        from a snapshot alone, and would give their offsets again. ``first_offset`` gives where the
        log begins.
        """
        self._tables = tables
        self._users = users
        self._spent = spent
        self._first_offset = first_offset
        self._owners = owners
        self._most = most
        #: What was written down last of what may change without an entry.
        self._stated: dict[str, object] = {}

    def watch(self, wanted: bool = True) -> None:
        """Note from now on what changes, or no more."""
        tables = self._tables
        for table in (tables.topics, tables.groups, tables.offsets, tables.delays):
            table.watch(wanted)
        for other in (tables.orders, tables.modes, self._owners):
            other.watch(wanted)
        if self._users is not None:
            self._users.watch(wanted)

    @property
    def has_settings(self) -> bool:
        """Whether topics, groups, request modes, users or rights changed."""
        tables, users = self._tables, self._users
        changed = tables.topics.has_news or tables.groups.has_news or tables.modes.has_news
        return changed or (users is not None and users.has_news)

    @property
    def rounds(self) -> int:
        """How often `changes` gives something, if nothing more changes."""
        tables = self._tables
        most = max(tables.offsets.news, tables.orders.news, self._owners.news)
        return 1 + most // ENTRIES_AT_ONCE

    def changes(self) -> Changed:
        """What changed, or as much of it as is quickly written."""
        tables, owners = self._tables, self._owners
        topics, groups = tables.topics.take_news(), tables.groups.take_news()
        modes, locks = tables.modes.take_news(), owners.take_news(ENTRIES_AT_ONCE)
        places = tables.offsets.take_news(ENTRIES_AT_ONCE)
        orders, delays = tables.orders.take_news(ENTRIES_AT_ONCE), tables.delays.take_news()
        users = self._users.take_news() if self._users is not None else {}
        before = self._stated

        def put_back() -> None:
            tables.topics.put_news_back(topics)
            tables.groups.put_news_back(groups)
            tables.modes.put_news_back(modes)
            tables.offsets.put_news_back(places)
            tables.orders.put_news_back(orders)
            tables.delays.put_news_back(delays)
            owners.put_news_back(locks)
            if self._users is not None:
                self._users.put_news_back(users)
            self._stated = before

        bodies = _Bodies(self._most)
        self._state(bodies, written=before)
        self._topics(bodies, topics)
        self._groups(bodies, groups)
        self._modes(bodies, modes)
        self._locks(bodies, locks)
        self._auth(bodies, users)
        if delays:
            self._delays(bodies)
        if places:
            self._offsets_version(bodies)
            queues: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
            for group, topic, queue_id in places:
                queues[group, topic].append(queue_id)
            for (group, topic), queue_ids in queues.items():
                self._places(bodies, group, topic, queue_ids)
        self._orders(bodies, orders)
        bodies.close()
        return Changed(bodies.take(), topics, locks, put_back)

    def snapshot(self, number: int) -> Iterator[list[bytes]]:
        """All that there is, some bodies at a time: between them others may have their turn.

        What changes meanwhile may be in it or not, and is among the next changes.
        """
        self.watch()
        tables, owners = self._tables, self._owners
        bodies = _Bodies(self._most, number)
        self._offsets_version(bodies)
        for pairs in _some(tables.offsets.pairs(), ENTRIES_AT_ONCE // 10):
            for group, topic in pairs:
                self._places(bodies, group, topic, list(tables.offsets.places(group, topic)))
            yield bodies.take()
        for orders in _some(tables.orders.keys(), ENTRIES_AT_ONCE):
            self._orders(bodies, orders)
            yield bodies.take()
        for locks in _some(owners.owned(), ENTRIES_AT_ONCE):
            self._locks(bodies, locks)
            yield bodies.take()
        for names in _some(tables.topics.all(), ENTRIES_AT_ONCE):
            self._topics(bodies, names)
            yield bodies.take()
        for name, at in tables.topics.deletions().items():
            bodies.add("topics_deleted", (name, at))
        spent = iter(self._spent())
        while queues := list(islice(spent, ENTRIES_AT_ONCE)):
            for queue in queues:
                bodies.add("spent", queue)
            yield bodies.take()
        every = dict.fromkeys([*tables.groups.all(), *tables.groups.forbidden_groups()])
        for names in _some(every, ENTRIES_AT_ONCE):
            self._groups(bodies, names)
            yield bodies.take()
        self._modes(bodies, tables.modes.keys())
        if self._users is not None:
            for what, known in self._users.all_names().items():
                for some in _some(known, ENTRIES_AT_ONCE // 10):
                    self._auth(bodies, {what: set(some)})
                    yield bodies.take()
            bodies.set("auth_all", True)
        self._delays(bodies)
        self._state(bodies, written={})
        bodies.close(last=True)
        yield bodies.take()

    # Entries of each table

    def _state(self, bodies: _Bodies, written: Mapping[str, object]) -> None:
        self._stated = {
            "topics_version": self._tables.topics.version,
            "groups_version": self._tables.groups.version,
            "first_offset": self._first_offset(),
        }
        for kind, value in self._stated.items():
            if written.get(kind) != value:
                bodies.set(kind, value)

    def _topics(self, bodies: _Bodies, names: Iterable[str]) -> None:
        table = self._tables.topics
        for name in names:
            settings = table.get(name)
            if (deleted_to := table.deleted_to(name)) > 0:
                bodies.add("topics_deleted", (name, deleted_to))
            if settings is None:
                bodies.add("topics_gone", name)
            else:
                bodies.add("topics", settings)

    def _groups(self, bodies: _Bodies, names: Iterable[str]) -> None:
        table = self._tables.groups
        for name in names:
            settings = table.get(name)
            if settings is None:
                bodies.add("groups_gone", name)
            else:
                bodies.add("groups", settings)
            bodies.add("forbidden", (name, "", 0))
            for topic, bits in table.forbidden_of(name).items():
                bodies.add("forbidden", (name, topic, bits))

    def _modes(self, bodies: _Bodies, keys: Iterable[tuple[str, str]]) -> None:
        for topic, group in keys:
            if (mode := self._tables.modes.get(topic, group)) is not None:
                bodies.add("modes", mode)

    def _auth(self, bodies: _Bodies, names: dict[str, set[str]]) -> None:
        if self._users is not None:
            for entry in self._users.entries(names):
                bodies.add("auth", entry)

    def _delays(self, bodies: _Bodies) -> None:
        table = self._tables.delays
        table.renew_version(self._tables.now_ms)
        bodies.set("delays", table.all())
        bodies.set("delays_version", table.version)

    def _offsets_version(self, bodies: _Bodies) -> None:
        self._tables.offsets.renew_version(self._tables.now_ms)
        bodies.set("offsets_version", self._tables.offsets.version)

    def _orders(self, bodies: _Bodies, keys: Iterable[tuple[str, str, int]]) -> None:
        for key in keys:
            bodies.add("orders", (*key, self._tables.orders.get(*key)))

    def _locks(self, bodies: _Bodies, keys: Iterable[tuple[str, Any]]) -> None:
        for group, queue in keys:
            owner = self._owners.owner((group, queue))
            bodies.add("locks", (group, queue.topic, queue.broker_name, queue.queue_id, owner))

    def _places(self, bodies: _Bodies, group: str, topic: str, queue_ids: list[int]) -> None:
        table = self._tables.offsets
        if not table.can_be_kept(group, topic):
            return  # a peer made it up, and it is not saved either
        places, resets = table.places(group, topic), table.resets
        for some in _some(queue_ids, _PLACES_AN_ENTRY):
            flat = [number for each in some for number in (each, places.get(each, -1))]
            pending = [each for each in some if (group, topic, each) in resets] if resets else []
            bodies.add("places", (group, topic, flat, pending))


def _some(keys: Iterable[Any], most: int) -> Iterator[list[Any]]:
    every = list(keys)
    for at in range(0, len(every), most):
        yield every[at : at + most]
