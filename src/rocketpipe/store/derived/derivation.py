"""What follows from records of the log, many at a time: queue entries and keys, as values.

    record of …                     queue entry    key index    timer
    an ordinary message             yes            yes          –
    a half message (its own topic)  yes            yes          –
    prepared, by its flags          –              yes          –
    rolled back, by its flags       –              –            –
    rmq_sys_wheel_timer             yes            yes          yes
    SCHEDULE_TOPIC_XXXX             its tag code is when it falls due, not its tag

Nothing is read or written here. The dispatcher brings what comes out to its files. `derive` has a
compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rocketpipe import compiled
from rocketpipe.model.flags import TRANSACTION_BITS, Transaction
from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.hot import tag_code
from rocketpipe.store.index.entries import key_hashes
from rocketpipe.store.index.key_index import IndexKey
from rocketpipe.store.log.puts import Appended
from rocketpipe.store.log.records import value_of
from rocketpipe.store.queues.entries import queue_entry

_PREPARED: Final = int(Transaction.PREPARED)
_ROLLED_BACK: Final = int(Transaction.ROLLED_BACK)
_DELIVERED: Final = b"TIMER_DEQUEUE_MS\x01"

#: Topic, queue id, queue offset, tag code, when it was stored, properties as encoded.
Arrival = tuple[str, int, QueueOffset, int, int, bytes]


class QueueRun:
    """Entries of one queue that follow each other, and where the record of the first one is."""

    __slots__ = ("entries", "first", "log_offset", "next", "queue_id", "topic")

    def __init__(self, topic: str, queue_id: int, first: int, log_offset: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.first = QueueOffset(first)
        self.next = first
        self.log_offset = LogOffset(log_offset)
        self.entries = bytearray()


class Derivation(NamedTuple):
    """What to add to queues and index, whom the timer asks about, and what can then be read."""

    runs: list[QueueRun]
    keys: list[IndexKey]
    timed: list[Appended]
    arrivals: list[Arrival]


def is_queued(sys_flag: int) -> bool:
    """Whether a record with these flags is in a queue: neither prepared nor rolled back."""
    return not sys_flag & _PREPARED  # of the bits of a transaction, rolled back has it too


def is_indexed(sys_flag: int) -> bool:
    """Whether a record with these flags can be found by its keys."""
    return sys_flag & TRANSACTION_BITS != _ROLLED_BACK


def queue_code(
    topic: str, properties: bytes, stored_ms: int, level_delays_ms: Sequence[int]
) -> int:
    """What a queue entry has beside place and size: hash of the tag, or when it falls due."""
    if topic == SCHEDULE_TOPIC:
        level = value_of(properties, b"DELAY\x01")
        if level.isdigit() and int(level) > 0 and level_delays_ms:
            return stored_ms + level_delays_ms[min(int(level), len(level_delays_ms)) - 1]
    return tag_code(properties)


def derive(
    records: Sequence[Appended], level_delays_ms: Sequence[int], index_tags: bool
) -> Derivation:
    """Give what follows from records of the log, in its order."""
    # This runs once per message, like the appender: few calls, and no object where a tuple does.
    open_runs: dict[tuple[str, int], QueueRun] = {}
    runs: list[QueueRun] = []
    keys: list[IndexKey] = []
    timed: list[Appended] = []
    arrivals: list[Arrival] = []
    for record in records:
        at, size, offset, stored_ms, topic, queue_id, sys_flag, properties = record
        if not sys_flag & _PREPARED:
            if topic == SCHEDULE_TOPIC:
                code = queue_code(topic, properties, stored_ms, level_delays_ms)
            else:
                code = tag_code(properties)
            run = open_runs.get((topic, queue_id))
            if run is None or run.next != offset:
                run = open_runs[topic, queue_id] = QueueRun(topic, queue_id, offset, at)
                runs.append(run)
            run.entries += queue_entry(at, size, code)
            run.next += 1
            arrivals.append((topic, queue_id, offset, code, stored_ms, properties))
        if sys_flag & TRANSACTION_BITS != _ROLLED_BACK:
            for number in key_hashes(topic, properties, index_tags):
                keys.append((number, at, stored_ms))
        if topic == TIMER_TOPIC or properties.find(_DELIVERED) >= 0:
            timed.append(record)
    return Derivation(runs, keys, timed, arrivals)


compiled.take_over(globals(), "rocketpipe.store.derived._derivation")
