"""Half messages and what decides them, as records that RocketMQ's brokers read too.

    RMQ_SYS_TRANS_HALF_TOPIC       the message with TRAN_MSG, PGROUP, REAL_TOPIC and REAL_QID
    … put again for a check        the same with TRANSACTION_CHECK_TIMES, and with
                                   TRAN_PREPARED_QUEUE_OFFSET, where its first copy is
    RMQ_SYS_TRANS_OP_HALF_TOPIC    tag d; body ``17,18,``: these offsets of the half topic are done
    its own topic and queue        the message, with the bits of a committed one, and the place of
                                   its half message in the log
    TRANS_CHECK_MAX_TIME_TOPIC     what nobody decided, as its half message was

What is put again makes the copy before it done, as a decision does: so the half messages that wait
are those whose offset no op message names, whoever reads the two topics.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rocketpipe.model import properties
from rocketpipe.model.flags import Transaction, with_transaction
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.names import CHECK_MAX_TIME_TOPIC, HALF_OP_TOPIC, HALF_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record import checksum
from rocketpipe.record.codec import RecordView
from rocketpipe.store.log.batch_mark import strip_mark
from rocketpipe.store.log.puts import Appended, Put

#: Half messages are in this queue, and so is what decides them.
QUEUE: Final = 0
_DONE_TAG: Final = "d"
_MOST_DIGITS: Final = 18


@dataclass(slots=True)
class Half:
    """A half message that waits for its producer's word: where its newest copy is, and its past."""

    offset: QueueOffset
    log_offset: LogOffset
    #: Where its first copy is in the queue: the same for all of them.
    origin: QueueOffset
    key: str
    born_ms: int
    stored_ms: int
    checks: int
    #: For how long its producer wants not to be asked, if it said so.
    immunity_ms: int | None
    #: Whether another run left it, which may have been one of Apache's brokers.
    inherited: bool = False
    #: The topic that it is for.
    topic: str = ""
    #: When this run first looked at it, on the monotonic clock, and how old it was then.
    seen_ms: int | None = None
    age_ms: int = 0

    @classmethod
    def of(cls, record: RecordView) -> Half:
        """What a record of the half topic says."""
        said = record.properties
        immunity_s = _number(said.get(properties.CHECK_IMMUNITY_SECONDS))
        origin = _number(said.get(properties.TRANSACTION_PREPARED_QUEUE_OFFSET))
        return cls(
            offset=record.queue_offset,
            log_offset=record.log_offset,
            origin=record.queue_offset if origin is None else QueueOffset(origin),
            key=said.get(properties.UNIQ_KEY, ""),
            topic=sys.intern(said.get(properties.REAL_TOPIC, "")),
            born_ms=record.born_ms,
            stored_ms=record.stored_ms,
            checks=_number(said.get(properties.TRANSACTION_CHECK_TIMES)) or 0,
            immunity_ms=None if immunity_s is None else 1000 * immunity_s,
        )

    @property
    def is_first(self) -> bool:
        """Whether it is as its producer sent it."""
        return self.offset == self.origin and not self.checks

    @property
    def began_ms(self) -> int:
        """When it was new, by the clocks of then."""
        # Of a copy only the producer knows, and its clock may be ahead.
        return self.stored_ms if self.is_first else min(self.born_ms, self.stored_ms)

    def spared_ms(self, timeout_ms: int) -> int:
        """For how long its producer is not asked about it."""
        return timeout_ms if self.immunity_ms is None else self.immunity_ms


def half_of(put: Put, unique_key: str, group: str) -> Put:
    """A message as it waits for its producer's decision; ``group`` is who may be asked."""
    changes = {
        properties.TRANSACTION_ID: unique_key,
        properties.REAL_TOPIC: put.topic,
        properties.REAL_QUEUE_ID: str(put.queue_id),
        # What brokers note down when they put it again is for them to say.
        properties.TRANSACTION_CHECK_TIMES: None,
        properties.TRANSACTION_PREPARED_QUEUE_OFFSET: None,
    }
    if properties.PRODUCER_GROUP not in properties.decode_bytes(put.properties):
        changes[properties.PRODUCER_GROUP] = group
    text = properties.edited(put.properties, changes)
    return put._replace(
        topic=HALF_TOPIC,
        queue_id=QUEUE,
        properties=text,
        sys_flag=with_transaction(put.sys_flag, Transaction.NONE),
    )


def committed(half: RecordView) -> Put | None:
    """The message for its own topic and queue; None if it does not say which."""
    topic = half.properties.get(properties.REAL_TOPIC)
    queue_id = _number(half.properties.get(properties.REAL_QUEUE_ID))
    if not topic or queue_id is None:
        return None
    return as_stored(half)._replace(
        topic=topic,
        queue_id=queue_id,
        sys_flag=with_transaction(half.sys_flag, Transaction.COMMITTED),
        prepared_offset=half.log_offset,
    )


def asked_again(half: RecordView, known: Half) -> Put:
    """The half message once more, for one more check."""
    put = as_stored(half)
    changes = {
        properties.TRANSACTION_CHECK_TIMES: str(known.checks + 1),
        properties.TRANSACTION_PREPARED_QUEUE_OFFSET: str(known.origin),
    }
    return put._replace(properties=properties.edited(put.properties, changes))


def given_up(half: RecordView) -> Put:
    """The half message for the topic of those that nobody decided."""
    return as_stored(half)._replace(topic=CHECK_MAX_TIME_TOPIC)


def resumed(given_up: RecordView) -> Put:
    """A message that was given up as the half message that it was at first."""
    put = as_stored(given_up)
    changes: dict[str, str | None] = {
        properties.TRANSACTION_CHECK_TIMES: None,
        properties.TRANSACTION_PREPARED_QUEUE_OFFSET: None,
    }
    return put._replace(topic=HALF_TOPIC, properties=properties.edited(put.properties, changes))


def as_stored(half: RecordView) -> Put:
    """The message as it was put before the store added something to it."""
    return Put.copy_of(
        half,
        topic=half.topic,
        queue_id=QUEUE,
        properties=strip_mark(checksum.strip(half.raw_properties)),
    )


def done(offsets: Iterable[QueueOffset], unique_key: str, now_ms: int, host: bytes) -> Put:
    """The op message by which half messages at these offsets wait no longer."""
    named = {properties.TAGS: _DONE_TAG, properties.UNIQ_KEY: unique_key}
    return Put(
        topic=HALF_OP_TOPIC,
        queue_id=QUEUE,
        body="".join(f"{offset}," for offset in offsets).encode(),
        properties=properties.encode_bytes(named),
        flag=0,
        sys_flag=0,
        born_ms=now_ms,
        born_host=host,
    )


def offsets_done(op: RecordView) -> Iterator[QueueOffset]:
    """Which half messages an op message names; what is no number is passed over."""
    if op.tags == _DONE_TAG:
        for text in op.body.decode("latin-1").split(","):
            offset = _number(text)
            if offset is not None:
                yield QueueOffset(offset)


def as_asked(half: Put, placed: Appended, store_host: bytes) -> StoredMessage:
    """A half message as its producer is shown it: with the topic and queue that it will have."""
    said = properties.decode_bytes(half.properties)
    return StoredMessage(
        topic=said.get(properties.REAL_TOPIC, ""),
        queue_id=_number(said.get(properties.REAL_QUEUE_ID)) or 0,
        body=half.body,
        raw_properties=half.properties,
        queue_offset=placed.queue_offset,
        log_offset=placed.log_offset,
        flag=half.flag,
        sys_flag=half.sys_flag,
        born_ms=half.born_ms,
        born_host=Host.unpack(half.born_host),
        stored_ms=placed.stored_ms,
        store_host=Host.unpack(store_host),
        reconsume_times=half.reconsume_times,
    )


def _number(text: str | None) -> int | None:
    if text and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    return None
