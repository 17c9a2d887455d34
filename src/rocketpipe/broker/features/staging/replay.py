"""What the log says of staged sends, in the order in which it happened.

Parts and ledger lie in two queues. What a part was followed by (its commit, its end) lies behind it
in the log, so whoever reads both from the first part that was alive at the last summary on, one
record after the other as they were written, sees what the broker saw that wrote them.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterator
from typing import Final

import msgspec

from rocketpipe.broker.features.staging.book import StageBook
from rocketpipe.broker.features.staging.records import (
    LEDGER_QUEUE,
    STAGES_QUEUE,
    LedgerRecord,
    Summary,
    part_of,
    read_ledger,
)
from rocketpipe.broker.features.staging.stages import Place
from rocketpipe.errors import RecordError
from rocketpipe.model.names import STAGING_TOPIC
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.store.errors import RecordCorrupt
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

_READ_BYTES: Final = 8 << 20
_READ_COUNT: Final = 1024


def replay(store: MessageStore, book: StageBook, now_ms: int) -> None:
    """Bring an empty book to where the last run left it.

    Raises:
        DiskError: The log cannot be read.
    """
    ledger_from, stages_from = _beginning(store)
    both = (
        _records(store, LEDGER_QUEUE, ledger_from),
        _records(store, STAGES_QUEUE, stages_from),
    )
    for view in heapq.merge(*both, key=lambda view: view.log_offset):
        if view.queue_id == LEDGER_QUEUE:
            record = _ledger_of(view)
            if record is not None:
                book.apply(record, view.log_offset, now_ms)
        else:
            _take_part(book, view, now_ms)
    for batch, commit in tuple(book.commits.items()):
        if commit.places is None:
            log.error(
                "committed messages are not in the log application=%s batch=%d reason=%s",
                *batch,
                book.stages.missing(batch, commit.stages),
            )
            del book.commits[batch]


def _take_part(book: StageBook, view: RecordView, now_ms: int) -> None:
    try:
        part = part_of(view)
    except RecordError as error:
        log.warning("a staged part cannot be read at=%d: %s", view.log_offset, error)
        return
    place = Place(view.log_offset, view.size, view.queue_offset)
    book.stages.add(part.stage, part.batch, part.number, place, now_ms, part.topic)


def _beginning(store: MessageStore) -> tuple[QueueOffset, QueueOffset]:
    """From where to read ledger and parts: by the last summary, or else all there is."""
    first = store.min_offset(STAGING_TOPIC, LEDGER_QUEUE)
    end = store.max_offset(STAGING_TOPIC, LEDGER_QUEUE)
    stages_from = QueueOffset(0)
    needed = None
    while end > first:
        start = QueueOffset(max(first, end - _READ_COUNT))
        for view in reversed(list(_records(store, LEDGER_QUEUE, start, end))):
            if needed is None:
                record = _ledger_of(view)
                if not isinstance(record, Summary):
                    continue
                stages_from = QueueOffset(record.stages_from)
                part = next(_records(store, STAGES_QUEUE, stages_from), None)
                needed = view.log_offset if part is None else min(part.log_offset, view.log_offset)
            if view.log_offset <= needed:
                return view.queue_offset, stages_from
        end = start
    return first, stages_from


def _records(
    store: MessageStore, queue_id: int, start: QueueOffset, end: QueueOffset | None = None
) -> Iterator[RecordView]:
    at = max(start, store.min_offset(STAGING_TOPIC, queue_id))
    stop = store.max_offset(STAGING_TOPIC, queue_id) if end is None else end
    while at < stop:
        try:
            found = store.read(
                STAGING_TOPIC,
                queue_id,
                at,
                max_count=min(_READ_COUNT, stop - at),
                max_bytes=_READ_BYTES,
            )
        except RecordCorrupt as error:
            log.error("a record of staged sends is damaged, and passed over reason=%s", error)
            at = QueueOffset(at + 1)
            continue
        yield from view_records(found.records)
        if found.next_offset <= at:
            break
        at = found.next_offset


def _ledger_of(view: RecordView) -> LedgerRecord | None:
    try:
        return read_ledger(view.stored_body)
    except msgspec.MsgspecError as error:
        log.warning("a record of the ledger cannot be read at=%d: %s", view.log_offset, error)
        return None
