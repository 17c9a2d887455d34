"""What clients tell about a message's way: the body of a trace message.

A record is its type and its fields, joined by 0x01 and ended by 0x02; records follow each other.
What is missing is written as ``null``.

    Pub             time, region, group, topic, id, tags, keys, store host, body length, cost ms,
                    kind, offset id, success [, client host]
    SubBefore       time, region, group, request, id, retries, keys
    SubAfter        request, id, cost ms, success, keys, outcome [, time, group]
    EndTransaction  time, region, group, topic, id, tags, keys, store host, kind, transaction id,
                    state, from a check
    Recall          time, region, group, topic, id, success

Old clients wrote fewer fields: Pub without the offset id, SubAfter without the outcome. Some wrote
the client host, which nobody does now. Types that are not known are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from rocketpipe.errors import PropertiesError, RecordError
from rocketpipe.model.properties import split_keys

_FIELD_END: Final = "\x01"
_RECORD_END: Final = "\x02"
_NULL: Final = "null"


class TracedKind(IntEnum):
    """What kind of message was sent."""

    NORMAL = 0
    HALF = 1
    COMMITTED = 2
    DELAYED = 3
    ORDERED = 4


class Outcome(IntEnum):
    """How the consumer's handler ended."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURNED_NULL = 3
    FAILED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A producer sent a message."""

    time_ms: int
    region: str | None
    group: str | None
    topic: str | None
    message_id: str | None
    tags: str | None
    keys: str | None
    store_host: str | None
    body_bytes: int
    cost_ms: int
    kind: TracedKind = TracedKind.NORMAL
    offset_id: str | None = None
    success: bool = True
    client_host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consuming:
    """A consumer is about to handle a message."""

    time_ms: int
    region: str | None
    group: str | None
    request_id: str | None
    message_id: str | None
    retries: int
    keys: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """A consumer has handled a message; through a cloud's channel, time and group stay unsaid."""

    request_id: str | None
    message_id: str | None
    cost_ms: int
    success: bool
    keys: str | None
    outcome: Outcome = Outcome.SUCCESS
    time_ms: int | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """A producer said how a transaction ends."""

    time_ms: int
    region: str | None
    group: str | None
    topic: str | None
    message_id: str | None
    tags: str | None
    keys: str | None
    store_host: str | None
    kind: TracedKind
    transaction_id: str | None
    #: ``COMMIT_MESSAGE``, ``ROLLBACK_MESSAGE`` or ``UNKNOW``.
    state: str
    from_check: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A producer took a delayed message back."""

    time_ms: int
    region: str | None
    group: str | None
    topic: str | None
    message_id: str | None
    success: bool


TraceRecord: TypeAlias = Published | Consuming | Consumed | TransactionEnded | Recalled


def encode(records: Iterable[TraceRecord]) -> str:
    """Write trace records as the body of one trace message.

    Raises:
        PropertiesError: If a text has 0x01 or 0x02 in it, which would make it two.
    """
    return "".join(_encode(record) for record in records)


def decode(text: str) -> list[TraceRecord]:
    """Read the body of a trace message.

    Raises:
        RecordError: If a record of a known type lacks fields, or one is not what it has to be;
            the position counts characters.
    """
    found: list[TraceRecord] = []
    at = 0
    for line in text.split(_RECORD_END):
        # As in Java, empty fields at the end are as good as missing.
        name, *fields = line.rstrip(_FIELD_END).split(_FIELD_END)
        read = _READERS.get(name)
        if read is not None:
            found.append(read(_Fields(name, fields, at)))
        at += len(line) + 1
    return found


def lookup_keys(records: Iterable[TraceRecord]) -> tuple[str, ...]:
    """Give the keys of the trace message that carries these: message ids and users' keys, once."""
    keys: dict[str, None] = {}
    for record in records:
        if record.message_id:
            keys[record.message_id] = None
        if not isinstance(record, Recalled) and record.keys:
            keys.update(dict.fromkeys(split_keys(record.keys)))
    return tuple(keys)


def _encode(record: TraceRecord) -> str:
    values: tuple[object, ...]
    match record:
        case Published():
            values = ("Pub", record.time_ms, record.region, record.group, record.topic)
            values += (record.message_id, record.tags, record.keys, record.store_host)
            values += (record.body_bytes, record.cost_ms, int(record.kind))
            values += (record.offset_id, record.success)
            values += (record.client_host,) if record.client_host is not None else ()
        case Consuming():
            values = ("SubBefore", record.time_ms, record.region, record.group, record.request_id)
            values += (record.message_id, record.retries, record.keys)
        case Consumed():
            values = ("SubAfter", record.request_id, record.message_id, record.cost_ms)
            values += (record.success, record.keys, int(record.outcome))
            # Without time and group the last separator still stands.
            values += ("",) if record.time_ms is None else (record.time_ms, record.group)
        case TransactionEnded():
            values = ("EndTransaction", record.time_ms, record.region, record.group, record.topic)
            values += (record.message_id, record.tags, record.keys, record.store_host)
            values += (int(record.kind), record.transaction_id, record.state, record.from_check)
        case Recalled():
            values = ("Recall", record.time_ms, record.region, record.group, record.topic)
            values += (record.message_id, record.success)
    return _FIELD_END.join(map(_text, values)) + _RECORD_END


def _text(value: object) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if _FIELD_END in text or _RECORD_END in text:
        raise PropertiesError(f"trace field {text[:60]!r}: 0x01 and 0x02 separate fields")
    return text


class _Fields:
    """The fields of one record behind its type, counted from 0, and where the record starts."""

    def __init__(self, kind: str, fields: list[str], at: int) -> None:
        self._kind = kind
        self._fields = fields
        self._at = at

    def __len__(self) -> int:
        return len(self._fields)

    def text(self, index: int) -> str | None:
        found = self._field(index)
        return None if found == _NULL else found

    def word(self, index: int) -> str:
        return self._field(index)

    def number(self, index: int) -> int:
        found = self._field(index)
        digits = found.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            raise RecordError(f"{self._kind}: {found[:60]!r} is not a whole number", self._at)
        return int(found)

    def truth(self, index: int) -> bool:
        return self._field(index).lower() == "true"

    def kind(self, index: int) -> TracedKind:
        return TracedKind(self._choice(index, TracedKind))

    def outcome(self, index: int) -> Outcome:
        return Outcome(self._choice(index, Outcome))

    def _choice(self, index: int, choices: type[IntEnum]) -> int:
        number = self.number(index)
        if number not in list(choices):
            raise RecordError(f"{self._kind}: {number} is no {choices.__name__}", self._at)
        return number

    def _field(self, index: int) -> str:
        if index >= len(self._fields):
            raise RecordError(
                f"{self._kind}: {len(self._fields)} fields, too few to be one", self._at
            )
        return self._fields[index]


def _published(fields: _Fields) -> Published:
    with_offset_id = len(fields) >= 13
    success_at = 12 if with_offset_id else 11
    return Published(
        time_ms=fields.number(0),
        region=fields.text(1),
        group=fields.text(2),
        topic=fields.text(3),
        message_id=fields.text(4),
        tags=fields.text(5),
        keys=fields.text(6),
        store_host=fields.text(7),
        body_bytes=fields.number(8),
        cost_ms=fields.number(9),
        kind=fields.kind(10),
        offset_id=fields.text(11) if with_offset_id else None,
        success=fields.truth(success_at) if len(fields) > success_at else True,
        client_host=fields.text(13) if len(fields) >= 14 else None,
    )


def _consuming(fields: _Fields) -> Consuming:
    return Consuming(
        time_ms=fields.number(0),
        region=fields.text(1),
        group=fields.text(2),
        request_id=fields.text(3),
        message_id=fields.text(4),
        retries=fields.number(5),
        # Empty keys are the last field, and so as good as missing.
        keys=fields.text(6) if len(fields) > 6 else None,
    )


def _consumed(fields: _Fields) -> Consumed:
    return Consumed(
        request_id=fields.text(0),
        message_id=fields.text(1),
        cost_ms=fields.number(2),
        success=fields.truth(3),
        keys=fields.text(4) if len(fields) > 4 else None,
        outcome=fields.outcome(5) if len(fields) > 5 else Outcome.SUCCESS,
        time_ms=fields.number(6) if len(fields) > 7 else None,
        group=fields.text(7) if len(fields) > 7 else None,
    )


def _transaction_ended(fields: _Fields) -> TransactionEnded:
    return TransactionEnded(
        time_ms=fields.number(0),
        region=fields.text(1),
        group=fields.text(2),
        topic=fields.text(3),
        message_id=fields.text(4),
        tags=fields.text(5),
        keys=fields.text(6),
        store_host=fields.text(7),
        kind=fields.kind(8),
        transaction_id=fields.text(9),
        state=fields.word(10),
        from_check=fields.truth(11),
    )


def _recalled(fields: _Fields) -> Recalled:
    return Recalled(
        time_ms=fields.number(0),
        region=fields.text(1),
        group=fields.text(2),
        topic=fields.text(3),
        message_id=fields.text(4),
        success=fields.truth(5),
    )


_READERS: Final[dict[str, Callable[[_Fields], TraceRecord]]] = {
    "Pub": _published,
    "SubBefore": _consuming,
    "SubAfter": _consumed,
    "EndTransaction": _transaction_ended,
    "Recall": _recalled,
}
