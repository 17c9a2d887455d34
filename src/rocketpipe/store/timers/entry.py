"""One message that waits for its time, as the wheel keeps it, and what its record says of it.

An entry has 74 bytes, all numbers with the highest byte first, so that entries sort as bytes:

     0  8  when it is handed out, ms
     8  8  where the message stood in the log when it first waited: this is what it is known by
    16  1  0: it waits no longer; 1: it waits
    17  8  2⁶⁴ − 1 − offset of its record in the log
    25  4  size of the record
    29  8  queue offset of the record
    37  8  when it is due, ms; another time than the first if it was put off
    45  8  TIMER_OUT_MS
    53  8  when the record was stored, ms
    61  8  hash of real topic and unique key
    69  4  hash of the real topic
    73  1  1: nothing that is older tells of this message at that time

The first 16 bytes are the place of an entry. Of entries with one place only the first counts: that
the message waits no longer, or else the newest of its records.

A message may stand in the log more often than once: it is put again on the way, taken back, and
delivered. Such a record says by TIMER_ORIGIN which one it is about: when it is due and where it
first stood, and when it is handed out if it was put off, with a plus between them; of one that
takes back, as many as it takes back, with commas between them. That a message was put off is in no
record, and may be unknown after a restart: then it has the place of its due time.

RocketMQ keeps time in whole seconds: TIMER_OUT_MS is the second before the one in which a message
is due. The properties of the producer say when exactly, and that is when it is due here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.log.records import value_of

#: What TIMER_OUT_MS is rounded to.
PRECISION_MS: Final = 1000

ENTRY: Final = Struct(">QQBQIQQQQQiB")
ENTRY_BYTES: Final = ENTRY.size
PLACE: Final = Struct(">QQ")
PLACE_BYTES: Final = PLACE.size
#: Where an entry has whether it waits, its record, when that was stored, its key, whether it is
#: the first of its place.
KIND_AT: Final = 16
RECORD: Final = slice(17, 25)
STORED: Final = slice(53, 61)
KEY: Final = slice(61, 69)
FIRST_AT: Final = 73

_TOP: Final = (1 << 64) - 1
_ORIGIN: Final = re.compile(rb"([0-9]{1,19})\+([0-9]{1,19})(?:\+([0-9]{1,19}))?")


@dataclass(frozen=True, slots=True, order=True)
class Timed:
    """A message that waits: when it is due, and where it is in the log."""

    due_ms: int
    log_offset: LogOffset
    size: int
    queue_offset: QueueOffset
    out_ms: int
    #: Hash of real topic and unique key.
    key: int
    #: Hash of the real topic, as Apache's timer log has it.
    topic: int
    stored_ms: int
    #: Where it stood in the log when it first waited: what it is known by.
    origin: LogOffset
    #: When it is handed out, if that is not when it is due.
    at_ms: int

    @property
    def place(self) -> bytes:
        """What the wheel knows it by."""
        return PLACE.pack(self.at_ms, self.origin)

    @property
    def is_put_off(self) -> bool:
        """Whether it is handed out at another time than when it is due."""
        return self.at_ms != self.due_ms

    def entry(self, *, waits: bool = True, first: bool = True) -> bytes:
        """As bytes."""
        return ENTRY.pack(
            self.at_ms,
            self.origin,
            waits,
            _TOP - self.log_offset,
            self.size,
            self.queue_offset,
            self.due_ms,
            self.out_ms,
            self.stored_ms,
            self.key,
            self.topic,
            first,
        )

    @classmethod
    def of(cls, entry: bytes) -> Timed:
        """Read an entry."""
        at, origin, _, record, size, number, due, out, stored, key, topic, _ = ENTRY.unpack(entry)
        return cls(
            due,
            LogOffset(_TOP - record),
            size,
            QueueOffset(number),
            out,
            key,
            topic,
            stored,
            LogOffset(origin),
            at,
        )


def forgotten(place: bytes, key: int) -> bytes:
    """Give the entry that says that a message waits no longer."""
    at_ms, origin = PLACE.unpack(place)
    return ENTRY.pack(at_ms, origin, 0, 0, 0, 0, 0, 0, 0, key, 0, 0)


def record_bytes(log_offset: int) -> bytes:
    """What an entry has for a record at this offset: the larger, the older the record is."""
    return (_TOP - log_offset).to_bytes(8, "big")


def hashed(named: str) -> int:
    """Hash real topic and unique key, with a plus between them as TIMER_DEL_UNIQKEY has them."""
    digest = blake2b(named.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


class Origin(NamedTuple):
    """Which message a record is about: its place, and that which it has unless it was put off."""

    place: bytes
    when_due: bytes


def origin_text(messages: Iterable[Timed]) -> str:
    """What TIMER_ORIGIN says about messages."""
    return ",".join(
        f"{timed.due_ms}+{timed.origin}" + (f"+{timed.at_ms}" if timed.is_put_off else "")
        for timed in messages
    )


def origins_in(text: bytes) -> list[Origin]:
    """Read what TIMER_ORIGIN says; empty if that is nothing that was ever written there."""
    found = []
    for part in text.split(b","):
        match = _ORIGIN.fullmatch(part)
        if match is None:
            return []
        due, origin, at = int(match[1]), int(match[2]), int(match[3] or match[1])
        if max(due, origin, at) > _TOP:
            return []
        found.append(Origin(PLACE.pack(at, origin), PLACE.pack(due, origin)))
    return found


def out_ms(deliver_ms: int) -> int:
    """What TIMER_OUT_MS has to be for a message that is to be delivered at ``deliver_ms``."""
    return (deliver_ms - 1) // PRECISION_MS * PRECISION_MS


def due_ms(properties: bytes, out: int, stored_ms: int) -> int:
    """When a message of the timer topic is due, to the millisecond, and never too early."""
    latest = out + 2 * PRECISION_MS
    for name, unit_ms, base_ms in (
        (b"TIMER_DELAY_SEC\x01", 1000, stored_ms),
        (b"TIMER_DELAY_MS\x01", 1, stored_ms),
        (b"TIMER_DELIVER_MS\x01", 1, 0),
    ):
        text = value_of(properties, name)
        if text:
            exact = base_ms + int(text) * unit_ms if is_number(text) else 0
            # Of a message that was put again for the rest of its delay, the delay says nothing.
            return exact if out <= exact <= latest else out + PRECISION_MS
    return out + PRECISION_MS


def is_number(text: bytes) -> bool:
    """Whether a property is a number that fits into 64 bits."""
    return text.isdigit() and len(text) <= 18
