"""From a part of the plan to rows: the one way, used by batches and streams, inside tasks.

A task holds what it decodes, `log_reading.READ_BYTES` of records or one longer record, and the
columns made of it; through a broker also the answers that came meanwhile, no more than that again.
Inflated bodies come on top: a batch with more than `BATCH_BYTES` of them is split.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from rocketpipe.pipeline.body_decode import decoded_columns
from rocketpipe.pipeline.byte_runs import Mask
from rocketpipe.pipeline.filters import Wanted
from rocketpipe.pipeline.gaps import Gap, MessagesGone
from rocketpipe.pipeline.log_decode import DamagedRecord, Records
from rocketpipe.pipeline.options import ReadOptions
from rocketpipe.pipeline.ranges import Part, QueueRange
from rocketpipe.pipeline.rows import SCHEMA, UnreadableMessage, arrow_schema

log = logging.getLogger(__name__)

BATCH_BYTES: Final = 32 << 20
"""More of what was compressed is not handed over at once, unless one body is longer."""


def read_part(
    part: Part, options: ReadOptions, schema: StructType, wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    """The rows of a part that are wanted, as batches with just the schema's columns.

    Raises:
        MessagesGone: If messages of the part are no more, and ``onGap`` is fail.
        UnreadableMessage: If a record is damaged, or its body does not inflate.
        LogNotFound: If the log cannot be seen from here.
        ConnectionLost: If a broker stays out of reach.
    """
    target = arrow_schema(schema)
    has_bodies = any(name == "body" or name not in SCHEMA.names for name in target.names)
    for queue_range, found in _found(part, options, wanted):
        if isinstance(found, Gap):
            if options.on_gap == "fail":
                raise MessagesGone(found)
            log.warning("messages are gone and skipped gap=%s", found)
            continue
        try:
            chosen = _chosen(found, wanted)
            for records in chosen.parted(BATCH_BYTES) if has_bodies else (chosen,):
                if records.count:
                    yield _batch(records, queue_range.queue.broker_name, target, options)
        except DamagedRecord as error:
            queue = queue_range.queue
            raise UnreadableMessage(
                queue.broker_name, queue.queue_id, error.queue_offset, error.reason
            ) from error


def _found(
    part: Part, options: ReadOptions, wanted: Wanted
) -> Iterator[tuple[QueueRange, Records | Gap]]:
    # Each imports much that the other does not need.
    if options.path is not None:
        from rocketpipe.pipeline.log_directory import LogDirectory
        from rocketpipe.pipeline.log_reading import read_log

        with LogDirectory(options.path) as directory:
            for queue_range in part.ranges:
                for found in read_log(directory, queue_range, wanted, options.batch_rows):
                    yield queue_range, found
    else:
        from rocketpipe.pipeline.broker_reading import read_brokers

        yield from read_brokers(part, options, wanted)


def _chosen(records: Records, wanted: Wanted) -> Records:
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
    records: Records, broker: str, target: pa.Schema, options: ReadOptions
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
        columns |= decoded_columns(body, options.decode, decoded)
    return pa.RecordBatch.from_arrays([columns[field.name] for field in target], schema=target)
