"""What a condition of Arrow's asks of rows, as far as it saves reading them.

An expression cannot be taken apart, but Arrow can be asked whether rows of which something is known
may fulfil it: that is how it leaves out files of a dataset. So columns are asked about one by one:
"may a row of this queue be meant?", "may one stored before this moment?", and where the answer
changes is found by halving. What Arrow cannot tell is read, and looked at then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from rocketpipe.pipeline.columns.rows import SCHEMA
from rocketpipe.pipeline.planning.filters import ALL, RowFilter, Span
from rocketpipe.pipeline.planning.ranges import QueueRange

_FORMAT: Final = ds.IpcFileFormat()
_STORED: Final = SCHEMA.field("store_timestamp").type
#: Times that are asked about: the years that are shown, in milliseconds.
_MOMENTS_MS: Final[Span] = (0, 253_402_300_800_000)
#: Of which a condition leaves everything.
_ANY: Final[Span] = (-1 << 62, ALL[1])
#: Of a moment that is not shown nothing is known, but that it may be any.
_UNSHOWN: Final = pc.field("store_timestamp").is_null()


def columns_of(condition: pc.Expression, schema: pa.Schema) -> list[str]:
    """The columns that a condition looks at."""
    return [name for name in schema.names if not _can_do_without(name, condition, schema)]


def narrowed(
    wanted: RowFilter, condition: pc.Expression, schema: pa.Schema, ranges: Sequence[QueueRange]
) -> tuple[RowFilter, list[QueueRange]]:
    """What of some ranges can be needed if this condition is to hold too."""
    if not ranges:
        return wanted, []
    asked = set(columns_of(condition, schema))
    offsets = min(each.start for each in ranges), max(each.end for each in ranges) + 1
    if asked & {"topic", "broker", "queue_id"}:
        ranges = [each for each in ranges if _may_hold(condition, schema, _of_queue(each))]
    if "queue_offset" in asked:
        span = _span(lambda known: _may_hold(condition, schema, known), _offset, offsets)
        wanted = replace(wanted, offsets=_overlap(wanted.offsets, span))
    if "store_timestamp" in asked and not _may_hold(condition, schema, _UNSHOWN):
        span = _span(lambda known: _may_hold(condition, schema, known), _moment, _MOMENTS_MS)
        wanted = replace(wanted, stored_ms=_overlap(wanted.stored_ms, span))
    return wanted, [cut for each in ranges if (cut := wanted.cut(each)).count > 0]


#: What is known of rows whose value is below a number, or not.
_Known = Callable[[int, bool], pc.Expression]


def _offset(number: int, is_below: bool) -> pc.Expression:
    field = pc.field("queue_offset")
    return field < number if is_below else field >= number


def _moment(number: int, is_below: bool) -> pc.Expression:
    field, at = pc.field("store_timestamp"), pa.scalar(number * 1000, _STORED)
    return field < at if is_below else field >= at


def _span(may_hold: Callable[[pc.Expression], bool], known: _Known, ends: Span) -> Span:
    """The least run of numbers outside of which, as Arrow knows, no row fulfils a condition."""
    low, high = ends
    first = _turn(low, high, lambda number: may_hold(known(number, True)))
    after = _turn(low, high, lambda number: not may_hold(known(number, False)))
    # The first number of which anything below may be meant is one too high, unless none is.
    return (first - 1 if first > low else _ANY[0]), (after if after < high else _ANY[1])


def _turn(low: int, high: int, is_behind: Callable[[int], bool]) -> int:
    """The first number that is behind; the highest if none is."""
    while low < high:
        middle = (low + high) // 2
        if is_behind(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _overlap(known: Span | None, span: Span) -> Span:
    first, after = known or _ANY
    first = max(first, span[0])
    return first, max(first, min(after, span[1]))


def _of_queue(part: QueueRange) -> pc.Expression:
    queue = part.queue
    return (
        (pc.field("topic") == queue.topic)
        & (pc.field("broker") == queue.broker_name)
        & (pc.field("queue_id") == queue.queue_id)
    )


def _may_hold(condition: pc.Expression, schema: pa.Schema, known: pc.Expression) -> bool:
    """Whether Arrow does not rule out that such rows fulfil the condition."""
    nowhere = fs.LocalFileSystem()  # of which no file is opened
    whole = pa.schema([*schema, *(field for field in SCHEMA if field.name not in schema.names)])
    fragment = _FORMAT.make_fragment("", nowhere, partition_expression=known)
    dataset = ds.FileSystemDataset([fragment], whole, _FORMAT, nowhere)
    return any(True for _ in dataset.get_fragments(filter=condition))


def _can_do_without(name: str, condition: pc.Expression, schema: pa.Schema) -> bool:
    others = pa.schema([field for field in schema if field.name != name])
    try:
        ds.Scanner.from_batches(iter(()), schema=others, filter=condition)
    except (pa.ArrowInvalid, KeyError):
        return False
    return True
