"""From a part of the plan to rows: the one way, used by batches and streams, inside tasks.

A task holds what it decodes, `log_reading.READ_BYTES` of records or one longer record, and the
columns made of it; through a broker also the answers that came meanwhile, no more than that again.
Inflated bodies come on top: a batch with more than `BATCH_BYTES` of them is split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.columns.bad_messages import Unreadable, settle
from rocketpipe.pipeline.columns.bodies import decoded_columns
from rocketpipe.pipeline.columns.byte_runs import Mask
from rocketpipe.pipeline.columns.records import DamagedRecord, Records
from rocketpipe.pipeline.columns.rows import ERROR_COLUMN, SCHEMA
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.pipeline.planning.gaps import Gap, missing
from rocketpipe.pipeline.planning.ranges import QueueRange, ReadPartition

if TYPE_CHECKING:
    from rocketpipe.pipeline.log.sweep import PlainRecords

#: More of what was compressed is not handed over at once, unless one body is longer.
BATCH_BYTES: Final = 32 << 20


def read_part(
    part: ReadPartition, options: ReadOptions, target: pa.Schema, wanted: RowFilter
) -> Iterator[pa.RecordBatch]:
    """The rows of a part that are wanted, as batches with just the schema's columns.

    Raises:
        MessagesGone: If messages of the part are no more, and ``onGap`` is fail.
        UnreadableMessage: If a record is damaged, or its body does not inflate, and
            ``onBadMessage`` is fail.
        LogNotFound: If the log cannot be seen from here.
        ConnectionLost: If a broker stays out of reach.
        RegistryError: If the schema registry cannot be asked what an id means.
    """
    if options.path is not None:
        yield from _read_logs(part, options, target, wanted)
        return
    from rocketpipe.pipeline.broker.reading import read_brokers

    yield from _settled(read_brokers(part, options, wanted), target, options, wanted)


def _settled(
    each: Iterator[tuple[QueueRange, Records | Gap | Unreadable]],
    target: pa.Schema,
    options: ReadOptions,
    wanted: RowFilter,
) -> Iterator[pa.RecordBatch]:
    """The rows of what was found; what is missing or bad goes as the options say."""
    for queue_range, found in each:
        if isinstance(found, Gap):
            missing(found, options.on_gap)
        elif isinstance(found, Unreadable):
            settle(found, options.on_bad_message, options.quarantine)
            if options.on_bad_message == "null" and wanted.keys is None:
                yield _stub(found, target)
        else:
            yield from _rows(_chosen(found, wanted), queue_range.queue, target, options)


def _rows(
    records: Records, queue: MessageQueue, target: pa.Schema, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """The batches of some records; those of them that cannot be read go as the options say."""
    has_bodies = _has_bodies(target)
    done = 0
    try:
        for some in records.parted(BATCH_BYTES) if has_bodies else (records,):
            if some.count:
                batch = _batch(some, queue.broker_name, target, options)
                done += some.count
                yield batch
        return
    except DamagedRecord as error:
        damaged = error
    if damaged.is_ours:
        raise Unreadable(queue, damaged.queue_offset, damaged.reason).error from damaged
    # Some were handed over already; of the rest it is now found out which are bad.
    rest = records.take(np.arange(done, records.count))
    nameless = rest.unreadable_topics() if "topic" in target.names else {}
    if nameless:
        for bad in _each_bad(rest, nameless, queue):
            settle(bad, options.on_bad_message, options.quarantine)
            if options.on_bad_message == "null":
                yield _stub(bad, target)
        rest = rest.take(np.setdiff1d(np.arange(rest.count), list(nameless)))
    lost = rest.unreadable_bodies() if has_bodies and rest.count else {}
    if not (nameless or lost):
        raise Unreadable(queue, damaged.queue_offset, damaged.reason).error from damaged
    for bad in _each_bad(rest, lost, queue):
        settle(bad, options.on_bad_message, options.quarantine)
    if options.on_bad_message == "null":
        rest = rest.without_bodies(lost)
    elif lost:
        rest = rest.take(np.setdiff1d(np.arange(rest.count), list(lost)))
    for some in rest.parted(BATCH_BYTES) if has_bodies else (rest,):
        if some.count:
            yield _batch(some, queue.broker_name, target, options)


def _each_bad(
    records: Records, reasons: Mapping[int, str], queue: MessageQueue
) -> Iterator[Unreadable]:
    offsets = records.queue_offsets
    for row, reason in reasons.items():
        yield Unreadable(queue, int(offsets[row]), reason, records.raw(row))


def _stub(bad: Unreadable, target: pa.Schema) -> pa.RecordBatch:
    """A row with what is known of a message of which nothing can be read."""
    known = {
        "topic": bad.queue.topic,
        "broker": bad.queue.broker_name,
        "queue_id": bad.queue.queue_id,
        "queue_offset": bad.queue_offset,
        ERROR_COLUMN: bad.reason,
    }
    arrays = [pa.array([known.get(field.name)], field.type) for field in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _read_logs(
    part: ReadPartition, options: ReadOptions, target: pa.Schema, wanted: RowFilter
) -> Iterator[pa.RecordBatch]:
    # What reads through brokers imports much that this does not need, and the other way round.
    from rocketpipe.pipeline.log.directory import LogDirectory
    from rocketpipe.pipeline.log.places import asks_places_only, read_places
    from rocketpipe.pipeline.log.reading import read_log, read_together
    from rocketpipe.pipeline.log.stores import store_of
    from rocketpipe.pipeline.log.sweep import Sweep

    assert options.path is not None
    columns = {name if name in SCHEMA.names else "body" for name in target.names}
    # In the order of their queues, so those of a broker do not always follow each other.
    by_broker = sorted(part.ranges, key=lambda each: each.queue.broker_name)
    for broker, ranges in groupby(by_broker, key=lambda each: each.queue.broker_name):
        with LogDirectory(store_of(options.path, options.broker_name, broker)) as directory:
            if asks_places_only(target, options, wanted):
                yield from read_places(directory, ranges, target, options)
                continue
            sweep = Sweep(directory, columns)
            for some in together(_cut(ranges, options.batch_rows), options.batch_rows):
                plain = sweep.read(some) if _wants_all(some, wanted) else None
                if plain is not None:
                    batches = [_batch(records, broker, target, options) for records in plain]
                    yield batches[0] if len(batches) == 1 else pa.concat_batches(batches)
                    continue
                if len(some) > 1:
                    records = read_together(directory, some, wanted)
                    whole = _whole(records, broker, target, options, wanted)
                    if whole is not None:
                        yield from whole
                        continue
                for queue_range in some:
                    found = read_log(directory, queue_range, wanted, options.batch_rows)
                    each = ((queue_range, one) for one in found)
                    yield from _settled(each, target, options, wanted)


def _cut(ranges: Iterable[QueueRange], batch_rows: int) -> Iterator[QueueRange]:
    """The same ranges, none of them longer than a batch."""
    for each in ranges:
        for start in range(each.start, each.end, batch_rows):
            end = min(start + batch_rows, each.end)
            yield QueueRange(each.queue, QueueOffset(start), QueueOffset(end))


def _wants_all(ranges: Iterable[QueueRange], wanted: RowFilter) -> bool:
    """Whether every message of these ranges is wanted, which their places tell."""
    is_any = wanted.tags is None and wanted.keys is None and wanted.stored_ms is None
    return is_any and all(wanted.cut(each) == each for each in ranges)


def together(ranges: Iterable[QueueRange], batch_rows: int) -> Iterator[list[QueueRange]]:
    """Ranges that follow each other and together fill one batch; each long one alone."""
    held: list[QueueRange] = []
    count = 0
    for each in ranges:
        if held and count + each.count > batch_rows:
            yield held
            held, count = [], 0
        held.append(each)
        count += each.count
    if held:
        yield held


def _whole(
    records: Records | None,
    broker: str,
    target: pa.Schema,
    options: ReadOptions,
    wanted: RowFilter,
) -> list[pa.RecordBatch] | None:
    """Records of several queues as one batch, or none; None if they take more, or some are bad."""
    if records is None:
        return None
    try:
        records = _chosen(records, wanted)
        if not records.count:
            return []
        if _has_bodies(target):
            records, *more = islice(records.parted(BATCH_BYTES), 2)
            if more:
                return None
        return [_batch(records, broker, target, options)]
    except DamagedRecord:
        return None


def _has_bodies(target: pa.Schema) -> bool:
    return any(name == "body" or name not in SCHEMA.names for name in target.names)


def _chosen(records: Records, wanted: RowFilter) -> Records:
    """Those of the records that are wanted."""
    if not records.count:
        return records
    masks: list[Mask] = []
    if wanted.offsets is not None:
        first, after = wanted.offsets
        masks.append((records.queue_offsets >= first) & (records.queue_offsets < after))
    if wanted.stored_ms is not None:
        first, after = wanted.stored_ms
        masks.append((records.stored_ms >= first) & (records.stored_ms < after))
    if wanted.tags is not None:
        masks.append(_is_one_of(records.column("tags", ""), wanted.tags))
    if wanted.keys is not None:
        keys = records.column("keys", "")
        rows = np.asarray(pc.list_parent_indices(keys))[_is_one_of(keys.flatten(), wanted.keys)]
        has_key = np.zeros(records.count, np.bool_)
        has_key[rows] = True
        masks.append(has_key)
    if not masks:
        return records
    kept = np.logical_and.reduce(masks)
    return records if kept.all() else records.take(np.flatnonzero(kept))


def _is_one_of(values: pa.Array, names: frozenset[str]) -> Mask:
    found = pc.is_in(values, value_set=pa.array(sorted(names), pa.string()))
    return np.asarray(found.cast(pa.uint8())).astype(np.bool_)


def _batch(
    records: Records | PlainRecords, broker: str, target: pa.Schema, options: ReadOptions
) -> pa.RecordBatch:
    decoded = [field for field in target if field.name not in SCHEMA.names]
    columns = {
        field.name: records.column(field.name, broker)
        for field in target
        if field.name in SCHEMA.names
    }
    if decoded:
        body = columns.get("body")
        body = records.column("body", broker) if body is None else body
        columns |= decoded_columns(
            body,
            options.body_schema or options.decode,
            decoded,
            zone=options.zone,
            lost=records.lost,
        )
    return pa.RecordBatch.from_arrays([columns[field.name] for field in target], schema=target)
