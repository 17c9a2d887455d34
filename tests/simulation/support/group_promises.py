"""What a group of replicas has promised to its clients, and whether it kept that.

    lost            acknowledged, and not in a log that may be the leader's
    early           acknowledged, and a member of the in-sync set does not have it
    shown early     shown to a reader, and a member of the in-sync set does not have it
    not in sync     a member of a new set lacks something acknowledged
    taken back      shown to a reader, and another reader was shown something else there, or less
    two leaders     sends of one epoch were acknowledged by two brokers
    moved, twice    in the log, at another place than was acknowledged, or more than once
    reused, gap     offsets of a queue that two messages have, or none
    cut             a replica did without something acknowledged that it had
    divergence      two logs differ when all is well
    length          one of them ends before the other

Modes A and B promise only the last six: an acknowledged record may go with its leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rocketpipe.record import hot
from rocketpipe.record.layout import BLANK_MAGIC
from rocketpipe.store.message_store import MessageStore

ID_BYTES = 8

#: What those have in their logs, from an offset on and so long, that are in sync.
Members = Callable[[int, int], Iterable[tuple[int, bytes]]]


@dataclass(frozen=True, slots=True)
class Acked:
    """A message that its producer was told of."""

    number: int
    at: int
    queue_id: int
    queue_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Record:
    """A message as a log has it."""

    at: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    number: int


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass(slots=True)
class GroupPromises:
    """The ledger of one group; what is found broken is kept until somebody looks."""

    topic: str
    #: Whether an acknowledgement means that every in-sync member has it.
    waits: bool
    acked: dict[int, Acked] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    #: What readers were shown so far, anywhere.
    shown: bytearray = field(default_factory=bytearray)
    epochs: dict[int, int] = field(default_factory=dict)
    #: Bytes of an acknowledged record, by its offset.
    bytes_at: dict[int, bytes] = field(default_factory=dict)

    def breaks(self, what: str) -> None:
        self.broken.append(what)

    def acknowledged(self, acked: Acked, record: bytes, by: int, members: Members) -> None:
        """A leader is about to say that a message is stored."""
        other = self.epochs.setdefault(acked.epoch, by)
        if other != by:
            self.breaks(f"two leaders: {other} and {by} acknowledge in epoch {acked.epoch}")
        if not self.waits:
            self.acked[acked.number] = acked
            return
        before = self.bytes_at.setdefault(acked.at, record)
        if before != record:
            self.breaks(f"lost: something else was acknowledged at {acked.at} before")
        self.acked[acked.number] = acked
        for id_, has in members(acked.at, len(record)):
            if has != record:
                self.breaks(
                    f"early: {acked.number} at {acked.at} is acknowledged by {by} in epoch "
                    f"{acked.epoch}, and {id_}, which is in sync, does not have it"
                )

    @property
    def last(self) -> Acked | None:
        """The acknowledged message that is furthest behind in the log."""
        return max(self.acked.values(), key=lambda each: each.at, default=None)

    def set_changed(self, why: str, members: Members) -> None:
        """The in-sync set is another."""
        last = self.last
        if not self.waits or last is None:
            return
        record = self.bytes_at[last.at]
        for id_, has in members(last.at, len(record)):
            if has != record:
                self.breaks(f"not in sync: after {why} {id_} is in the set without {last}")

    def saw(self, id_: int, at: int, data: bytes, members: Members) -> None:
        """A reader of a replica may see these bytes of its log from now on."""
        if not self.waits:
            return
        shown = self.shown
        known = bytes(shown[at : at + len(data)])
        if data[: len(known)] != known:
            self.breaks(f"taken back: {id_} shows something else between {at} and {at + len(data)}")
        if at + len(data) > len(shown):
            shown[at:] = data
            for member, has in members(at, len(data)):
                if has != data:
                    self.breaks(
                        f"shown early: {id_} shows {at} to {at + len(data)}, and {member}, which "
                        "is in sync, does not have it"
                    )

    def serves(self, id_: int, epoch: int, store: MessageStore) -> None:
        """A replica leads, and answers from now on."""
        if not self.waits:
            return
        if store.positions.dispatched < len(self.shown):
            self.breaks(
                f"taken back: {id_} leads in epoch {epoch} and shows {store.positions.dispatched} "
                f"where {len(self.shown)} was shown"
            )
        log = log_bytes(store)
        for acked in self.acked.values():
            record = self.bytes_at[acked.at]
            if log[acked.at : acked.at + len(record)] != record:
                self.breaks(f"lost: {id_} leads in epoch {epoch} without {acked}")
                return

    def cuts(self, id_: int, to: int, has: Callable[[int, int], bytes]) -> None:
        """A replica, which ``has`` these bytes, is about to do without the end of its log."""
        for at, record in self.bytes_at.items():
            if at >= to and has(at, len(record)) == record:
                self.breaks(f"cut: {id_} does without what was acknowledged at {at}, from {to} on")

    # When all is well again

    def check_end(self, logs: dict[int, bytes], leader: int) -> None:
        """Compare all logs with each other and with what was acknowledged."""
        log = logs[leader]
        for id_, other in logs.items():
            if len(other) != len(log):
                self.breaks(f"length: {id_} has {len(other)} bytes, the leader {len(log)}")
            elif other != log:
                at = next(i for i, (a, b) in enumerate(zip(other, log, strict=True)) if a != b)
                self.breaks(f"divergence: {id_} and the leader {leader} differ at {at}")
        next_offsets: dict[tuple[str, int], int] = {}
        found: dict[int, Record] = {}
        for record in records_of(log):
            queue = (record.topic, record.queue_id)
            wanted = next_offsets.get(queue, 0)
            if record.queue_offset != wanted:
                kind = "reused" if record.queue_offset < wanted else "gap"
                self.breaks(f"{kind}: {record} where {wanted} is next")
            next_offsets[queue] = record.queue_offset + 1
            if record.topic == self.topic:
                if record.number in found:
                    self.breaks(f"twice: {record}")
                found[record.number] = record
        if not self.waits:
            return
        for acked in self.acked.values():
            there = found.get(acked.number)
            if there is None:
                self.breaks(f"lost: {acked}")
            elif (there.at, there.queue_id, there.queue_offset) != (
                (acked.at, acked.queue_id, acked.queue_offset)
            ):
                self.breaks(f"moved: {acked} is {there}")
        if log[: len(self.shown)] != self.shown:
            self.breaks("taken back: the log is not what readers were shown")

    def raise_broken(self) -> None:
        if self.broken:
            raise Broken("; ".join(self.broken))


def log_bytes(store: MessageStore, start: int = 0, end: int | None = None) -> bytes:
    """The log of a store, or a part of it."""
    at, end = start, int(store.positions.written if end is None else end)
    pieces = []
    while at < end:
        piece = store.raw_at(at, end - at)  # type: ignore[arg-type]
        assert piece
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def records_of(log: bytes) -> Iterable[Record]:
    """Each message of a log that begins at 0."""
    at = 0
    while at < len(log):
        size = int.from_bytes(log[at : at + 4], "big")
        magic = int.from_bytes(log[at + 4 : at + 8], "big", signed=True)
        if magic != BLANK_MAGIC:
            head, body, topic, _, _, _ = hot.split(log, at, len(log))
            name_bytes = log[topic - 1]
            yield Record(
                at=at,
                size=size,
                topic=log[topic : topic + name_bytes].decode(),
                queue_id=head[3],
                queue_offset=head[5],
                number=int.from_bytes(log[body : body + ID_BYTES], "big"),
            )
        at += size
