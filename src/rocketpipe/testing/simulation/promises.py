"""What a store has promised to whoever used it, and whether it kept that.

`Promises` is told what was sent, acknowledged, shown and destroyed. After every reopening it reads
the whole store and names each promise that was broken:

    lost          acknowledged, and not there, although its mode promised that it would be
    vanished      shown to a reader with SYNC_FLUSH, and not there any more
    moved         there, but at another offset than was acknowledged
    altered       there, with other bytes
    twice         there more often than it was sent
    phantom       there, and never sent, or refused with the word that nothing was written
    gap           offsets of a queue are not dense, or not in the order of the log
    hole          lost in the midst of the log: what was sent later is there
    torn group    some of a group are there, the rest are not
    early         shown, or counted, before it was confirmed
    unfound       there, and not found by its key or its log offset

What was written but promised to nobody may be there or not; from then on it counts as what it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record import hot
from rocketpipe.record.layout import MAGIC_V1
from rocketpipe.store.config import FlushMode
from rocketpipe.store.errors import StoreError
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.store.message_store import MessageStore

Queue = tuple[str, int]

_ID_BYTES = 8
_READ_COUNT = 7  # odd and small, so that most queues take several reads


class PromiseBroken(AssertionError):
    """At least one promise was not kept; the message has them all."""


@dataclass(slots=True, eq=False)
class Sent:
    """One message on its way through the store."""

    number: int
    group: int
    put: Put
    key: str
    at: LogOffset | None = None
    end: int = 0
    queue_offset: QueueOffset | None = None
    acked: bool = False
    #: A reader had it, or was told of it by a queue's length.
    shown: bool = False
    #: The store said that it took nothing of it.
    refused: bool = False
    #: The store says that it is durable: from here on it stays.
    durable: bool = False

    @property
    def queue(self) -> Queue:
        return self.put.topic, self.put.queue_id


@dataclass(slots=True)
class _Found:
    """A record as a reader gets it."""

    number: int
    queue_offset: int
    at: int
    size: int
    record: bytes
    body: bytes


@dataclass(slots=True)
class Promises:
    """The ledger of one store, over all its crashes."""

    flush: FlushMode
    sent: dict[int, Sent] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    _group_sizes: dict[int, int] = field(default_factory=dict)
    _numbers: int = 0
    _power_lost: bool = False
    _first: int = 0  # what is before it in the log may be gone
    _queues: dict[Queue, int] = field(default_factory=dict)  # the next offset of each

    # While the store runs

    def sending(self, puts: Sequence[Put]) -> list[Sent]:
        """Note a group before it is appended; each body begins with a number of its own."""
        group_number = len(self._group_sizes)
        self._group_sizes[group_number] = len(puts)
        group = []
        for put in puts:
            number = int.from_bytes(put.body[:_ID_BYTES], "big")
            assert number not in self.sent
            key = key_of(number)
            assert key.encode() in put.properties
            self.sent[number] = sent = Sent(number, group_number, put, key)
            group.append(sent)
        return group

    def next_number(self) -> int:
        """A number that no message had yet, for `body_of` and `key_of`."""
        self._numbers += 1
        return self._numbers

    def refused(self, group: Iterable[Sent]) -> None:
        """The store says that it took nothing of the group, and is as before."""
        for sent in group:
            sent.refused = True

    def appended(self, group: Sequence[Sent], placed: Sequence[Appended]) -> None:
        """The store took the group; with ASYNC_FLUSH that acknowledges it."""
        if len(group) != len(placed):
            self.broken.append(f"{len(group)} messages were given {len(placed)} places")
        for sent, place in zip(group, placed, strict=False):
            sent.at, sent.end = place.log_offset, place.log_offset + place.size
            sent.queue_offset = place.queue_offset
            sent.acked = self.flush is FlushMode.ASYNC
            expected = self._queues.get(sent.queue, 0)
            if place.queue_offset != expected:
                self._break("gap", sent, f"offset {place.queue_offset} where {expected} is next")
            self._queues[sent.queue] = place.queue_offset + 1

    def acked(self, group: Iterable[Sent]) -> None:
        """The store says that the group is durable."""
        for sent in group:
            sent.acked = True

    def shown(self, store: MessageStore, topic: str, queue_id: int, records: bytes) -> None:
        """A reader was given these records."""
        confirmed = store.positions.confirmed
        for found in _split(records):
            sent = self.sent.get(found.number)
            if sent is None or sent.queue != (topic, queue_id):
                self.broken.append(f"phantom: {found.number} in {topic}/{queue_id}")
                continue
            self._compare(sent, found)
            if found.at + found.size > confirmed:
                self._break("early", sent, f"ends behind {confirmed}, which is confirmed")
            sent.shown = True

    def counted(self, store: MessageStore, topic: str, queue_id: int, end: int) -> None:
        """A reader was told that the queue ends at ``end``."""
        confirmed = store.positions.confirmed
        for sent in self.sent.values():
            offset = sent.queue_offset
            if sent.queue == (topic, queue_id) and offset is not None and offset < end:
                sent.shown = True
                if sent.end > confirmed:
                    self._break("early", sent, f"counted in an end of {end}")

    def removed(self, first: int) -> None:
        """Retention was asked to remove what is before ``first`` of the log."""
        self._first = max(self._first, first)

    # When it ends

    def durable(self, end: int) -> None:
        """The store says that its log is durable up to ``end``."""
        for sent in self.sent.values():
            if sent.at is not None and sent.end <= end:
                sent.durable = True

    def lost_power(self) -> None:
        """The machine died, now or before the next check: only what is durable stays.

        Without this call it is a process that died: what was acknowledged is in the page cache.
        """
        self._power_lost = True

    def closed(self) -> None:
        """The store was closed in good order: everything stays."""
        for sent in self.sent.values():
            if sent.at is not None:
                sent.durable = True

    # After a reopening

    def check(self, store: MessageStore) -> None:
        """Compare the store, opened again, with what it promised.

        Raises:
            PromiseBroken: It did not keep that.
        """
        first = int(store.first_offset)
        if first > self._first:
            self.broken.append(f"lost: the log begins at {first}, not at {self._first}")
        found: dict[int, _Found] = {}
        for queue in {sent.queue for sent in self.sent.values()}:
            for record in self._read_queue(store, *queue):
                if record.number in found:
                    self.broken.append(f"twice: {record.number}")
                found[record.number] = record
        last = max((record.at for record in found.values()), default=-1)
        for sent in list(self.sent.values()):
            self._settle(sent, found.get(sent.number), first, last)
        self._check_groups(first)
        for record in found.values():
            self._check_lookups(store, record)
        self._power_lost = False
        self.durable(int(store.positions.durable))
        self.raise_broken()

    def raise_broken(self) -> None:
        """Raise what has been found so far, if anything.

        Raises:
            PromiseBroken: There is something.
        """
        if self.broken:
            raise PromiseBroken("; ".join(self.broken))

    def _read_queue(self, store: MessageStore, topic: str, queue_id: int) -> list[_Found]:
        at, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        records: list[_Found] = []
        expected = int(at)
        before = -1
        while at < end:
            result = store.read(topic, queue_id, at, max_count=_READ_COUNT)
            if result.next_offset <= at or not result.records:
                self.broken.append(f"gap: {topic}/{queue_id} at {at} of {end}: {result.status}")
                break
            for record in _split(result.records):
                if record.queue_offset != expected or record.at <= before:
                    self.broken.append(
                        f"gap: {topic}/{queue_id} has {record.queue_offset} at {expected}"
                    )
                expected += 1
                before = record.at
                records.append(record)
            at = result.next_offset
        self._queues[topic, queue_id] = int(end)
        return records

    def _settle(self, sent: Sent, found: _Found | None, first: int, last: int) -> None:
        """Compare one message with what became of it, and let that be its state."""
        if found is None:
            gone_by_age = sent.at is not None and sent.at < max(first, self._first)
            if self._owed(sent) and not gone_by_age:
                self._break("vanished" if sent.shown else "lost", sent)
            elif sent.at is not None and sent.at < last and not gone_by_age:
                self._break("hole", sent, f"while {last} is there")
            if not gone_by_age:
                del self.sent[sent.number]
            return
        if sent.refused:
            self._break("phantom", sent, "the store had said that it took nothing")
        self._compare(sent, found)
        sent.at, sent.end = LogOffset(found.at), found.at + found.size
        sent.queue_offset = QueueOffset(found.queue_offset)
        sent.acked = True

    def _owed(self, sent: Sent) -> bool:
        if sent.durable:
            return True
        if self.flush is FlushMode.SYNC:
            return sent.acked or sent.shown
        return sent.acked and not self._power_lost

    def _compare(self, sent: Sent, found: _Found) -> None:
        places = (sent.at, sent.queue_offset)
        if sent.at is not None and places != (found.at, found.queue_offset):
            self._break("moved", sent, f"to {found.at}, offset {found.queue_offset}")
        properties = sent.put.properties
        if found.body != sent.put.body or properties not in found.record:
            self._break("altered", sent)
        if not hot.seal_holds(found.record):
            self._break("altered", sent, "its checksum is that of something else")

    def _check_groups(self, first: int) -> None:
        there: Counter[int] = Counter()
        aged: set[int] = set()
        for sent in self.sent.values():
            there[sent.group] += 1
            if sent.at is not None and sent.at < max(first, self._first):
                aged.add(sent.group)
        for group, count in there.items():
            if count != self._group_sizes[group] and group not in aged:
                size = self._group_sizes[group]
                self.broken.append(f"torn group: {count} of the {size} of group {group}")

    def _check_lookups(self, store: MessageStore, found: _Found) -> None:
        sent = self.sent.get(found.number)
        if sent is None:
            return
        hits = list(store.find_by_key(sent.put.topic, sent.key, 0, 1 << 62))
        if found.at not in hits:
            self._break("unfound", sent, f"by its key: {hits}")
        try:
            if store.record_at(LogOffset(found.at)) != found.record:
                self._break("unfound", sent, "its log offset has another record")
        except StoreError as error:
            self._break("unfound", sent, str(error))

    def _break(self, promise: str, sent: Sent, detail: str = "") -> None:
        where = f"{sent.put.topic:.12}/{sent.put.queue_id}@{sent.queue_offset} at {sent.at}"
        self.broken.append(f"{promise}: {sent.number} in {where} {detail}".rstrip())


def body_of(number: int, padding: bytes) -> bytes:
    """A body that says which message it is."""
    return number.to_bytes(_ID_BYTES, "big") + padding


def key_of(number: int) -> str:
    """The key of a message, to be among its properties as ``KEYS``."""
    return f"key-{number}"


def _split(records: bytes) -> list[_Found]:
    found = []
    at = 0
    while at < len(records):
        head, body, topic, _, _, end = hot.split(records, at, len(records))
        magic_bytes = 1 if head[1] == MAGIC_V1 else 2
        content = records[body : topic - magic_bytes]
        number = int.from_bytes(content[:_ID_BYTES], "big")
        found.append(_Found(number, head[5], head[6], end - at, records[at:end], content))
        at = end
    return found
