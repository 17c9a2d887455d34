"""What follows from records of the log, many at a time: queue entries and keys, as values.

    record of …                     queue entry    key index    timer
    an ordinary message             yes            yes          –
    a half message (its own topic)  yes            yes          –
    prepared, by its flags          –              yes          –
    rolled back, by its flags       –              –            –
    rmq_sys_wheel_timer             yes            yes          yes
    SCHEDULE_TOPIC_XXXX             its tag code is when it falls due, not its tag

Nothing is read or written here. The dispatcher brings what comes out to its files. `derive` takes
records as the appender tells of them, `derive_bytes` as they lie in the log. Both have compiled
twins; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from rocketpipe import compiled
from rocketpipe.errors import RecordError
from rocketpipe.model.flags import TRANSACTION_BITS, Transaction
from rocketpipe.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.hot import split, tag_code
from rocketpipe.record.layout import SEAL_BYTES
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.index.entries import INDEX_KEY, key_hashes
from rocketpipe.store.log.puts import Appended
from rocketpipe.store.log.records import check_record, is_sealed, value_of
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
        self.entries: bytes | bytearray = bytearray()


class Derivation(NamedTuple):
    """What to add to queues and index, whom the timer asks about, and what can then be read."""

    #: How many there were.
    records: int
    runs: list[QueueRun]
    #: As ``index.entries`` has them.
    keys: bytes
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


def known_record(
    record: bytes,
    at: LogOffset,
    topic_of: Callable[[bytes], str],
    check: Callable[[str, int], None],
) -> Appended:
    """Check a record of the log, and give of it what the appender would have told.

    ``topic_of`` reads a topic's name, ``check`` refuses a queue that cannot be.

    Raises:
        RecordCorrupt: It is not as it was written.
    """
    try:
        head, _, topic_at, topic_end, properties_at, end = check_record(record, at)
        topic = topic_of(record[topic_at:topic_end])
        if is_queued(head[7]):
            check(topic, head[3])
    except RecordError as error:
        raise RecordCorrupt(at, error.reason) from error
    except ValueError as error:
        raise RecordCorrupt(at, str(error)) from error
    if is_sealed(record):
        end -= SEAL_BYTES
    return Appended(
        at, len(record), head[5], head[10], topic, head[3], head[7], record[properties_at:end]
    )


def derive(
    records: Sequence[Appended], level_delays_ms: Sequence[int], index_tags: bool
) -> Derivation:
    """Give what follows from records of the log, in its order."""
    # This runs once per message, like the appender: few calls, and no object where a tuple does.
    open_runs: dict[tuple[str, int], QueueRun] = {}
    runs: list[QueueRun] = []
    keys: list[bytes] = []
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
                keys.append(INDEX_KEY.pack(number, at, stored_ms))
        if topic == TIMER_TOPIC or properties.find(_DELIVERED) >= 0:
            timed.append(record)
    return Derivation(len(records), runs, b"".join(keys), timed, arrivals)


def derive_bytes(
    data: bytes,
    at: int,
    topics: Mapping[bytes, str],
    level_delays_ms: Sequence[int],
    index_tags: bool,
    wanted: Collection[str] | None,
) -> Derivation | None:
    """Give what follows from whole records that lie in the log from ``at`` on, one by one.

    They are as they were written. None if one is of another topic than these. Arrivals are made of
    the topics that are ``wanted``, or of all.
    """
    records = []
    place = 0
    while place < len(data):
        head, _, topic_at, topic_end, properties_at, end = split(data, place, len(data))
        topic = topics.get(data[topic_at:topic_end])
        if topic is None:
            return None
        properties = data[properties_at : end - SEAL_BYTES * is_sealed(data[place:end])]
        where = LogOffset(at + place), head[0], QueueOffset(head[5]), head[10]
        records.append(Appended(*where, topic, head[3], head[7], properties))
        place = end
    derived = derive(records, level_delays_ms, index_tags)
    if wanted is None:
        return derived
    return derived._replace(arrivals=[each for each in derived.arrivals if each[0] in wanted])


compiled.take_over(globals(), "rocketpipe.store.derived._derivation")
