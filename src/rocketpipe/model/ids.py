"""The ids and handles by which messages are named, as the text that travels.

    offset id       upper-case hex of: IP (4 or 16), port (4), log offset (8)
    unique key      upper-case hex of: IP (4 or 16), process id (2), loader (4),
                    ms since the month began (4), counter (2)
    receipt handle  start offset, pop time, invisible ms, revive queue, retry kind, broker, queue,
                    queue offset [, log offset], separated by blanks
    recall handle   base64url of: "v1", topic, broker, delivery time, unique key, likewise

An offset id says where a message is stored. A unique key is made by the producer; other clients
fill the bytes between IP and counter as they like, so nothing relies on them. A receipt handle
acknowledges one popped message; without its queue offset it stands for all popped at once.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import IntEnum
from itertools import count, islice
from struct import Struct
from typing import Final

from rocketpipe.errors import InvalidName
from rocketpipe.model import names
from rocketpipe.model.host import Host
from rocketpipe.model.offsets import LogOffset

_OFFSET: Final = Struct(">q")
_IDENTITY: Final = Struct(">HI")
_UNIQUE_TAIL: Final = Struct(">HIIH")
#: A clock that was set back by less than this is taken to stand still.
_CLOCK_STEP_MS: Final = 1_000_000
_MAX_HANDLE: Final = 1024
_MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class OffsetId:
    """Where a message is stored: at which broker, and where in its log."""

    host: Host
    log_offset: LogOffset

    @classmethod
    def parse(cls, text: str) -> OffsetId:
        """Read an offset id of 32 or 56 hex digits.

        Raises:
            InvalidName: If it is none.
        """
        raw = _unhex("offset id", text)
        host = Host.unpack(raw[:-8])
        # The ids that producers give are as long, and have other things where the port is.
        if not 0 <= host.port <= _MAX_PORT:
            reason = "names no port of a broker: is it an id that a producer gave?"
            raise InvalidName("offset id", text, reason)
        return cls(host, LogOffset(_OFFSET.unpack_from(raw, len(raw) - 8)[0]))

    def __str__(self) -> str:
        return offset_id(self.host.pack(), self.log_offset)


def offset_id(store_host: bytes, log_offset: int) -> str:
    """Write the offset id of a message from its packed host, 8 or 20 bytes."""
    return f"{store_host.hex().upper()}{log_offset & 0xFFFFFFFFFFFFFFFF:016X}"


class UniqueKeys:
    """Makes unique keys for one process, each 32 hex digits, or 56 where its address is IPv6.

    Keys of a process differ as long as it makes no more than 65,536 in a millisecond.
    """

    def __init__(self, ip: bytes, process_id: int, loader: int, zone: tzinfo | None = None) -> None:
        """Name the process: ``loader`` is any 32 bits, Java's hash of the loading class loader.

        The month begins in ``zone``, or in the system's local time.
        """
        assert len(ip) in (4, 16)
        identity = _IDENTITY.pack(process_id & 0xFFFF, loader & 0xFFFFFFFF)
        self._prefix = (ip + identity).hex().upper()
        self._zone = zone
        self._counter = count()
        self._month_ms = 0
        self._next_month_ms = 0
        #: What all keys of one millisecond begin with, and which one that is.
        self._stem = ""
        self._stem_ms = -1

    def next(self, now_ms: int) -> str:
        """Give the next key."""
        if now_ms != self._stem_ms:
            self._stem = self._stem_of(now_ms)
            self._stem_ms = now_ms
        return f"{self._stem}{next(self._counter) & 0xFFFF:04X}"

    def take(self, count: int, now_ms: int) -> list[str]:
        """Give the next so many keys, as ``next`` would one by one."""
        if now_ms != self._stem_ms:
            self._stem = self._stem_of(now_ms)
            self._stem_ms = now_ms
        stem = self._stem
        return [f"{stem}{number & 0xFFFF:04X}" for number in islice(self._counter, count)]

    def _stem_of(self, now_ms: int) -> str:
        if now_ms >= self._next_month_ms:
            self._month_ms, self._next_month_ms = _month_around(now_ms, self._zone)
        since = now_ms - self._month_ms
        if -_CLOCK_STEP_MS < since < 0:
            since = 0
        return f"{self._prefix}{since & 0xFFFFFFFF:08X}"


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """What a unique key says about its making, if a Java client or this one made it."""

    ip: bytes
    process_id: int
    loader: int
    made_ms: int
    counter: int

    @classmethod
    def parse(cls, text: str, now_ms: int, zone: tzinfo | None = None) -> UniqueKey:
        """Read a unique key; it is taken to be of the current month, or else of the last one.

        Raises:
            InvalidName: If it is not 32 or 56 hex digits.
        """
        raw = _unhex("unique key", text)
        process_id, loader, since_ms, counter = _UNIQUE_TAIL.unpack_from(raw, len(raw) - 12)
        month_ms, _ = _month_around(now_ms, zone)
        if month_ms + since_ms >= now_ms:
            month_ms, _ = _month_around(month_ms - 1, zone)
        return cls(raw[:-12], process_id, loader, month_ms + since_ms, counter)


class RetryKind(IntEnum):
    """Whether a popped message came from its topic or from a retry topic, and of which form."""

    NORMAL = 0
    RETRY_V1 = 1
    RETRY_V2 = 2

    @classmethod
    def of(cls, topic: str) -> RetryKind:
        """Tell from the name of the topic that was popped."""
        if names.is_pop_retry_v2(topic):
            return cls.RETRY_V2
        return cls.RETRY_V1 if names.is_retry_topic(topic) else cls.NORMAL

    def topic(self, topic: str, group: str) -> str:
        """Name the topic that was popped, given the one that was asked for."""
        if self is RetryKind.RETRY_V1:
            return names.pop_retry_topic(topic, group)
        if self is RetryKind.RETRY_V2:
            return names.pop_retry_topic_v2(topic, group)
        return topic


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptHandle:
    """What a consumer gives back to acknowledge a popped message, or to hide it for longer."""

    #: The revive queue of messages popped in order, which are not revived.
    ORDERED_REVIVE_QUEUE = 999

    start_offset: int
    pop_ms: int
    invisible_ms: int
    revive_queue_id: int
    retry: RetryKind
    broker: str
    queue_id: int
    queue_offset: int | None = None
    log_offset: int | None = None

    @classmethod
    def parse(cls, text: str) -> ReceiptHandle:
        """Read a handle of 7, 8 or 9 fields.

        Raises:
            InvalidName: If it has other fields than those.
        """
        kind = "receipt handle"
        fields = _short(kind, text).split(" ")
        if not 7 <= len(fields) <= 9:
            raise InvalidName(kind, text, f"has {len(fields)} fields, not 7 to 9")
        if not fields[5]:
            raise InvalidName(kind, text, "names no broker")
        if fields[4] not in ("0", "1", "2"):
            raise InvalidName(kind, text, f"{fields[4]!r} is not a kind of retry")
        last = [_number(kind, text, field, 64) for field in fields[7:]]
        return cls(
            start_offset=_number(kind, text, fields[0], 64),
            pop_ms=_number(kind, text, fields[1], 64),
            invisible_ms=_number(kind, text, fields[2], 64),
            revive_queue_id=_number(kind, text, fields[3], 32),
            retry=RetryKind(int(fields[4])),
            broker=fields[5],
            queue_id=_number(kind, text, fields[6], 32),
            queue_offset=last[0] if last else None,
            log_offset=last[1] if len(last) > 1 else None,
        )

    @property
    def visible_at_ms(self) -> int:
        """When the message shows again unless it is acknowledged."""
        return self.pop_ms + self.invisible_ms

    @property
    def is_ordered(self) -> bool:
        """Whether the message was popped in order."""
        return self.revive_queue_id == self.ORDERED_REVIVE_QUEUE

    def __str__(self) -> str:
        text = (
            f"{self.start_offset} {self.pop_ms} {self.invisible_ms} {self.revive_queue_id} "
            f"{int(self.retry)} {self.broker} {self.queue_id}"
        )
        for field in (self.queue_offset, self.log_offset):
            if field is None:
                break
            text += f" {field}"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallHandle:
    """What a producer gives back to take a delayed message back before it shows."""

    topic: str
    broker: str
    deliver_ms: int
    unique_key: str

    @classmethod
    def parse(cls, text: str) -> RecallHandle:
        """Read a handle.

        Raises:
            InvalidName: If it is not base64 of the five parts.
        """
        kind = "recall handle"
        padded = _short(kind, text) + "=" * (-len(text) % 4)
        try:
            # Alphabet and padding are checked: the plain call skips what it does not know.
            raw = base64.b64decode(padded.encode("ascii"), b"-_", validate=True).decode("utf-8")
        except (binascii.Error, UnicodeError):
            raise InvalidName(kind, text, "is not base64 of text") from None
        parts = raw.split(" ")
        if len(parts) != 5 or parts[0] != "v1" or not all(parts):
            raise InvalidName(kind, text, "does not hold v1, topic, broker, time and key")
        return cls(
            topic=parts[1],
            broker=parts[2],
            deliver_ms=_number(kind, text, parts[3], 64),
            unique_key=parts[4],
        )

    def __str__(self) -> str:
        raw = f"v1 {self.topic} {self.broker} {self.deliver_ms} {self.unique_key}"
        return base64.urlsafe_b64encode(raw.encode("utf-8")).decode("ascii")


def _month_around(now_ms: int, zone: tzinfo | None) -> tuple[int, int]:
    """When the month of a moment began, and when the next one does."""
    day = datetime.fromtimestamp(now_ms / 1000, zone)
    begin = day.replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
    after = (begin + timedelta(days=32)).replace(day=1)
    return int(begin.timestamp() * 1000), int(after.timestamp() * 1000)


def _unhex(kind: str, text: str) -> bytes:
    if len(text) not in (32, 56):
        raise InvalidName(kind, text[:64], f"has {len(text)} characters, not 32 or 56")
    try:
        raw = binascii.unhexlify(text)
    except (binascii.Error, ValueError):
        raise InvalidName(kind, text, "has characters that are not hex digits") from None
    return raw


def _short(kind: str, text: str) -> str:
    if len(text) > _MAX_HANDLE:
        raise InvalidName(kind, text[:64] + "…", f"has {len(text)} characters")
    return text


def _number(kind: str, text: str, field: str, bits: int) -> int:
    digits = field.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 19:
        number = int(field)
        if -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            return number
    raise InvalidName(kind, text, f"{field!r} is not a whole number of {bits} bits")
