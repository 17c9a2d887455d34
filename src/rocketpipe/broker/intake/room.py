"""Room in a message for what brokers add to it later, in any of its lives.

A record's properties have at most 32,767 bytes, and a record fits into one file of the log. What
is stored to the brim could not be delivered, decided or tried again later. So a send leaves free:

    any message                 1,088    where it came from and goes to when it is tried again or
                                         becomes a dead letter, when it was popped, what ties a
                                         group together, the checksum, what Java's consumers note
    … that waits for its time     256    when it was to be delivered, and was, and where it waited
    … that is a half message      384    the same, as it may be committed with a delay; how often
                                         its producer was asked, where its first copy is

What goes to a retry topic has had that room, and needs no more than the store does.

A store may have messages that were taken without it: by Apache's brokers, or before there was such
a rule. `Room.fitted` makes room in them by leaving out what only brokers wrote and nobody needs to
deliver the message, so that none is held up, or forgotten, for want of a few bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice
from typing import Final

from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.names import (
    HALF_TOPIC,
    MAX_GROUP,
    MAX_RETRY_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.frame import MAX_FRAME_BYTES
from rocketpipe.record import checksum
from rocketpipe.record.layout import (
    HEADS,
    HOST_BITS,
    MAX_PROPERTIES_BYTES,
    MAX_RECORD_BYTES,
    SEAL_BYTES,
)
from rocketpipe.store.log.batch_mark import MARK_BYTES, strip_mark
from rocketpipe.store.log.commit_log import FILLER_BYTES
from rocketpipe.store.log.puts import Put

log = logging.getLogger(__name__)

#: Kept free in the properties of any message.
PLAIN_ROOM: Final = 1088
#: … and in those of one that waits for its level or its moment.
WAITING_ROOM: Final = 256
#: … and in those of a half message.
HALF_ROOM: Final = WAITING_ROOM + 128
#: What the store adds to a record of a group.
STORED_ROOM: Final = SEAL_BYTES + MARK_BYTES
#: A pull's answer has a record behind its header, and is a frame of so many bytes at most.
_ANSWER_BYTES: Final = 4096
#: What a record has beside body, topic and properties, whatever its hosts: the lengths included.
_AROUND_BYTES: Final = HEADS[HOST_BITS].size + 4


def _taken(name: str, most: int) -> int:
    """The bytes of a property with a value of at most so many."""
    return len(name) + most + 2


_INT, _LONG, _MOMENT, _OFFSET_ID = 11, 20, 16, 56
_RETRIED: Final = sum(
    (
        _taken(properties.RETRY_TOPIC, MAX_RETRY_TOPIC),
        _taken(properties.ORIGIN_MESSAGE_ID, _OFFSET_ID),
        _taken(properties.WAIT, len("false")),
        _taken(properties.DELAY, _INT),
        _taken(properties.REAL_TOPIC, MAX_RETRY_TOPIC),
        _taken(properties.REAL_QUEUE_ID, _INT),
        _taken(properties.FIRST_POP_TIME, _MOMENT),
        _taken(properties.ORIGIN_GROUP, MAX_GROUP),
        # What consumers leave in a message that they send to their retry topic themselves.
        _taken(properties.RECONSUME_TIME, _INT),
        _taken(properties.MAX_RECONSUME_TIMES, _INT),
        _taken(properties.MIN_OFFSET, _LONG),
        _taken(properties.MAX_OFFSET, _LONG),
        _taken(properties.CONSUME_START_TIME, _MOMENT),
    )
)
_DELIVERED: Final = sum(
    (
        _taken(properties.TIMER_ENQUEUE_MS, _MOMENT),
        _taken(properties.TIMER_DEQUEUE_MS, _MOMENT),
        _taken(properties.TIMER_ROLL_TIMES, _INT),
        _taken(properties.TIMER_DELIVER_MS, _MOMENT),
        # Of a level that is waited for by the clock.
        _taken(properties.TIMER_OUT_MS, _MOMENT),
        _taken(properties.TIMER_DELAY_LEVEL, 2),
        _taken(properties.TIMER_ORIGIN, 2 * _MOMENT + _LONG + 2),
    )
)
_ASKED: Final = sum(
    (
        _taken(properties.TRANSACTION_CHECK_TIMES, _INT),
        _taken(properties.TRANSACTION_PREPARED_QUEUE_OFFSET, _LONG),
    )
)
assert _RETRIED + STORED_ROOM <= PLAIN_ROOM
assert _DELIVERED <= WAITING_ROOM
assert _DELIVERED + _ASKED <= HALF_ROOM

#: Written by brokers and clients for who looks at a message, the least missed first.
_SPARE: Final = (
    properties.CONSUME_START_TIME,
    properties.MIN_OFFSET,
    properties.MAX_OFFSET,
    properties.TIMER_ENQUEUE_MS,
    properties.CLUSTER,
    properties.TRACE_ON,
    properties.MSG_REGION,
    properties.WAIT,
    properties.TRANSACTION_ID,
    properties.FIRST_POP_TIME,
)
#: What else nobody needs of a message that is where it was to go.
_SPARE_ARRIVED: Final = (
    properties.TRANSACTION_CHECK_TIMES,
    properties.DELAY,
    properties.REAL_QUEUE_ID,
    properties.REAL_TOPIC,
    properties.PRODUCER_GROUP,
    properties.TRANSACTION_PREPARED,
    properties.DLQ_ORIGIN_MESSAGE_ID,
    properties.DLQ_ORIGIN_TOPIC,
    properties.ORIGIN_MESSAGE_ID,
    properties.RETRY_TOPIC,
)
#: By which a message is found, and known to have been delivered: or it would come again for ever.
_NEEDED: Final = frozenset(
    (
        properties.UNIQ_KEY,
        properties.TIMER_ORIGIN,
        properties.TIMER_DEQUEUE_MS,
        properties.TIMER_OUT_MS,
    )
)

#: So many names of what is left out are said.
_MOST_TOLD: Final = 40


class Room:
    """Knows how much a message may have, and makes room in those that have too much."""

    def __init__(self, segment_bytes: int) -> None:
        """``segment_bytes`` is the size of the log's files: a record fits into one."""
        self._most_stored = min(segment_bytes - FILLER_BYTES, MAX_RECORD_BYTES)
        self._most_sent = min(self._most_stored, MAX_FRAME_BYTES - _ANSWER_BYTES)
        #: With any properties and any topic a body of so many bytes is short enough.
        self.any_body_bytes: Final = max(
            0, self._most_sent - _AROUND_BYTES - MAX_RETRY_TOPIC - MAX_PROPERTIES_BYTES
        )

    def check(self, put: Put, *, retried: bool = False) -> None:
        """Refuse a message, as it is about to be stored, that leaves no room for what comes later.

        What is ``retried`` was sent to a retry topic, and has had its room.

        Raises:
            RequestRejected: It does not.
        """
        room = STORED_ROOM if retried else PLAIN_ROOM
        if put.topic in (SCHEDULE_TOPIC, TIMER_TOPIC) and not retried:
            room += WAITING_ROOM
        elif put.topic == HALF_TOPIC:
            room += HALF_ROOM
        size = len(put.properties)
        if size + room > MAX_PROPERTIES_BYTES:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the properties are {size} bytes with what the broker adds at once, and "
                f"{MAX_PROPERTIES_BYTES - room} are the most for such a message: of "
                f"{MAX_PROPERTIES_BYTES} it keeps a room of {room} free for what it adds later, "
                "as at a retry; shorten them, or move some into the body",
            )
        size = _record_bytes(put)
        if size + room > self._most_sent:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the message is {size} bytes as it is stored, and {self._most_sent - room} are "
                "the most: it fits into one frame and one file of the log "
                f"(mapedFileSizeCommitLog), with a room of {room} for what the broker adds later; "
                "shorten it",
            )

    def fitted(self, put: Put, *, grouped: bool = False, arrived: bool = False) -> Put | None:
        """The message with as little left out as has to be for the store to take it.

        What is ``grouped`` is stored together with others; what has ``arrived`` is in the topic
        that it was sent to. None if it does not fit without all that can be left out.
        """
        if not self._excess(put, grouped=grouped):
            return put
        put = put._replace(properties=_bare(put.properties))
        spare = (*_SPARE, *_SPARE_ARRIVED) if arrived else _SPARE
        left_out = []
        for name in spare:
            if not self._excess(put, grouped=grouped):
                break
            shorter = properties.edited(put.properties, {name: None})
            if len(shorter) < len(put.properties):
                left_out.append(name)
                put = put._replace(properties=shorter)
        if self._excess(put, grouped=grouped):
            return None
        _tell(put, left_out)
        return put

    def squeezed(self, put: Put, *, grouped: bool = False) -> Put:
        """The message as `fitted` gives it; if that is not enough, without its longest properties.

        For the last place a message goes to: it is not to be kept from there by what it says.
        """
        found = self.fitted(put, grouped=grouped, arrived=True)
        if found is not None:
            return found
        text = _bare(put.properties)
        spare = dict.fromkeys((*_SPARE, *_SPARE_ARRIVED))
        put = put._replace(properties=properties.edited(text, spare))
        left_out = list(spare)
        said = properties.decode_bytes(put.properties)
        if self._excess(put, grouped=grouped):
            put = put._replace(properties=_read_ones(put.properties))
        longest = sorted(said.keys() - _NEEDED, key=lambda name: (-len(said[name]), name))
        while longest and (excess := self._excess(put, grouped=grouped)):
            count = 0
            for name in longest:
                if excess <= 0:
                    break
                excess -= len(f"{name}\x01{said[name]}\x02".encode("utf-8", "replace"))
                count += 1
            gone, longest = longest[:count], longest[count:]
            left_out += gone
            put = put._replace(properties=properties.edited(put.properties, dict.fromkeys(gone)))
        # If none is left, it is the body that is too long.
        _tell(put, left_out)
        return put

    def _excess(self, put: Put, *, grouped: bool) -> int:
        """By how many bytes a message is too long to be stored; 0 if it is not."""
        # What does not end in a separator gets one.
        added = 1 + (STORED_ROOM if grouped else SEAL_BYTES)
        size, whole = len(put.properties) + added, _record_bytes(put) + added
        excess = max(0, size - MAX_PROPERTIES_BYTES, whole - self._most_stored)
        if excess and b"#" in put.properties:
            # What the store wrote into it before is not kept.
            excess -= len(put.properties) - len(_bare(put.properties))
        return max(0, excess)


def _bare(text: bytes) -> bytes:
    """Properties without what the store adds to them."""
    return strip_mark(checksum.strip(text))


def _read_ones(text: bytes) -> bytes:
    """Properties without what nobody reads as one."""
    pieces = text.split(b"\x02")
    return b"".join(piece + b"\x02" for piece in pieces if all(piece.partition(b"\x01")))


def _record_bytes(put: Put) -> int:
    """How long a record is at most without what the store adds."""
    return _AROUND_BYTES + len(put.topic.encode()) + len(put.body) + len(put.properties)


def _tell(put: Put, left_out: Iterable[str]) -> None:
    said = properties.decode_bytes(put.properties)
    log.warning(
        "message has no room for what is added to it, and goes on without some of its properties "
        "topic=%s key=%s left_out=%s",
        put.topic,
        said.get(properties.UNIQ_KEY, ""),
        ",".join(name[:60] for name in islice(left_out, _MOST_TOLD)),
    )
