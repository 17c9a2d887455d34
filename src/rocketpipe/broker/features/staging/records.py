"""The records by which staged sends are kept in the log; ``delivery.staging`` says what for.

A part is a batch with properties that say what it belongs to:

    STAGE  APP  BATCH  PART          as its writer named and numbered them
    REAL_TOPIC  REAL_QID  STAGE_SYS  where its messages go, and their sysFlag

A record of the ledger is JSON, with its kind in ``do``. Neither has a unique key, so that they are
not found among users' messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from rocketpipe.broker.features.staging.ledger import AppEntry
from rocketpipe.broker.features.staging.stages import Batch
from rocketpipe.errors import RecordError
from rocketpipe.model import properties
from rocketpipe.model.body import Int64
from rocketpipe.model.names import STAGING_TOPIC
from rocketpipe.record.codec import RecordView
from rocketpipe.store.log.puts import Put

STAGES_QUEUE: Final = 0
LEDGER_QUEUE: Final = 1

_STAGE: Final = "STAGE"
_APP: Final = "APP"
_BATCH: Final = "BATCH"
_PART: Final = "PART"
_SYS_FLAG: Final = "STAGE_SYS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some messages for one queue, and what they are part of."""

    batch: Batch
    stage: str
    number: int
    topic: str
    queue_id: int
    #: Of each of its messages.
    sys_flag: int
    born_ms: int
    born_host: bytes
    #: A batch, as ``record.batch`` reads it.
    body: bytes


def part_put(part: Part) -> Put:
    """The record that keeps a part."""
    app, batch = part.batch
    text = properties.encode_bytes(
        {
            _STAGE: part.stage,
            _APP: app,
            _BATCH: str(batch),
            _PART: str(part.number),
            properties.REAL_TOPIC: part.topic,
            properties.REAL_QUEUE_ID: str(part.queue_id),
            _SYS_FLAG: str(part.sys_flag),
        }
    )
    return Put(
        topic=STAGING_TOPIC,
        queue_id=STAGES_QUEUE,
        body=part.body,
        properties=text,
        flag=0,
        sys_flag=0,
        born_ms=part.born_ms,
        born_host=part.born_host,
    )


def part_of(record: RecordView) -> Part:
    """Read the record of a part.

    Raises:
        RecordError: If it is none.
    """
    given = record.properties
    try:
        return Part(
            batch=(given[_APP], int(given[_BATCH])),
            stage=given[_STAGE],
            number=int(given[_PART]),
            topic=given[properties.REAL_TOPIC],
            queue_id=int(given[properties.REAL_QUEUE_ID]),
            sys_flag=int(given[_SYS_FLAG]),
            born_ms=record.born_ms,
            born_host=record.born_host.pack(),
            body=record.stored_body,
        )
    except (KeyError, ValueError) as error:
        raise RecordError(f"no part of a stage: {error}") from error


class Committed(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="commit"):
    """A batch, and what shows with it."""

    app: str
    batch: Int64
    stages: dict[str, int]
    #: Who else has some of it, if somebody has: see ``protocol.requests.staging``.
    plan: str | None = None
    #: What it holds, in its writer's words.
    content: str | None = None


class Delivered(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="delivered"):
    """So many parts of a commit are in their topics."""

    app: str
    batch: Int64
    parts: int


class Dropped(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="dropped"):
    """Stages that nobody can commit any more; their names are free."""

    stages: tuple[str, ...]


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="prepared"):
    """Stages that are kept until their home has decided."""

    app: str
    batch: Int64
    stages: dict[str, int]
    home: str
    token: str


class Settled(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="settled"):
    """What is left of a plan, once some brokers are known to have shown their share."""

    app: str
    batch: Int64
    plan: str | None = None


class Lapsed(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="lapsed"):
    """Preparations that somebody let go of: no commit may go by them."""

    tokens: tuple[str, ...]


class OpenCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit whose parts are being moved, and how far that has come."""

    app: str
    batch: Int64
    stages: dict[str, int]
    moved: int


class Summary(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="summary"):
    """All that was committed before."""

    apps: tuple[AppEntry, ...]
    open: tuple[OpenCommit, ...] = ()
    #: The first staged part that is alive, by its offset in its queue.
    stages_from: int
    #: Tokens of preparations.
    lapsed: tuple[str, ...] = ()


LedgerRecord = Committed | Delivered | Dropped | Prepared | Settled | Lapsed | Summary

_decoder: Final = msgspec.json.Decoder(LedgerRecord)


def ledger_put(own: Callable[[bytes], Put], record: LedgerRecord) -> Put:
    """A record of the ledger, made by ``own`` from its body."""
    return own(msgspec.json.encode(record))


def read_ledger(body: bytes) -> LedgerRecord:
    """Read a record of the ledger.

    Raises:
        msgspec.MsgspecError: If it is none.
    """
    found: LedgerRecord = _decoder.decode(body)
    return found
