"""Whether a table has what its topic has: each message once, as it was sent.

    report = verify("lake/orders")
    assert report.is_equal, report.findings

What a table must have is known without it: from where it began (`rocketpipe.tables.spans`) to the
end of its last batch (the checkpoint). Both sides are read once, by tasks, and compared by digests
(`rocketpipe.tables.comparing`); only where these differ, rows are looked at one by one.

Messages that the topic has no more cannot be compared: of these it is seen that each is there once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.open_offsets import open_offsets
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.planning.offset_reader import Ends, OffsetReader, QueuesUnreachable
from rocketpipe.pipeline.planning.ranges import QueueRange, ReadPartition, plan, to_measure
from rocketpipe.pipeline.session import SparkPlace
from rocketpipe.tables.comparing import (
    EXPECTED,
    LOST,
    ROW_SCHEMA,
    STORED,
    STORED_BAD,
    SUM_SCHEMA,
    UNKNOWN,
    Bounds,
    Comparison,
    Pair,
    Part,
    PlaceRange,
    StoredRows,
)
from rocketpipe.tables.decoding import Decoding
from rocketpipe.tables.differences import FINDING_SCHEMA, Differences, Finding, joined
from rocketpipe.tables.errors import CheckpointMismatch, VerifyFailed
from rocketpipe.tables.following import Watch, persistently, session_of
from rocketpipe.tables.spans import Queue, Spans
from rocketpipe.tables.table import FollowedTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: About so many buckets there are at most: what the driver holds of them is some megabytes.
_MOST_BUCKETS: Final = 16_384
_LEAST_SHIFT: Final = 10
#: How many findings a report names.
MOST_FINDINGS: Final = 1_000
#: How many files that cannot be read it names.
_MOST_FILES: Final = 20


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was compared, and what is wrong."""

    topic: str
    #: Rows of the table, and bad rows, that were looked at.
    rows: int
    bad_rows: int
    #: Messages of the topic that they were compared with.
    messages: int
    #: Offsets that the topic has no more: each was seen to be there once.
    older: int
    #: Rows older than the topic, of a table that does not know where it began.
    unknown: int
    #: Messages that the table has not come to yet.
    behind: int
    #: By kind, with how many offsets something is wrong.
    wrong: Mapping[str, int]
    findings: Sequence[Finding]
    #: Files of the table that cannot be read.
    lost_files: Sequence[str]
    #: Messages that aged out before they were followed, and were left out (``--on-gap skip``).
    skipped: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether nothing is wrong."""
        return not self.lost_files and not any(self.wrong.values())


def verify(
    place: str | Path,
    *,
    name_server: str | None = None,
    store: str | Path | None = None,
    broker_name: str | None = None,
    spark: SparkSession | None = None,
    spark_place: SparkPlace | None = None,
    watch: Watch | None = None,
) -> VerifyReport:
    """Compare a table with its topic, message by message; it may be followed meanwhile.

    The topic is read where the table reads it, or at ``name_server``, or from the log of ``store``.
    ``watch(spark)`` is a block in which the work is done, for who shows how far it is.

    Raises:
        NotATable: If the directory is something else.
        CheckpointMismatch: If table and checkpoint do not belong together.
        HalfReplayed: If a replay of its bad rows was cut off.
        HalfRebuilt: If a rebuild of it was.
        UnknownTopic: If its topic is no more.
        QueuesUnreachable: If a broker that has some of it is away.
        VerifyFailed: If the comparison itself fails.
    """
    table = FollowedTable.open(place)
    table.check_whole()
    where = elsewhere(table, name_server, store, broker_name)
    options = ReadOptions.parse(source_of(where))
    is_written = table.directory.writer() is not None
    stored = table.rows.stored()
    if not is_written:
        table.checkpoint.check(str(table.directory), table.spec.id, stored.last_batch)
    comparing = _Plan.of(table, stored.last_batch, options)
    parts: list[Part] = [*comparing.parts]
    parts += [StoredRows(each, is_ahead=stored.is_growing) for each in stored.parts]
    bad_sinks = [table.bad_rows]
    if table.has_replayed:
        bad_sinks.append(table.replayed)
    for sink in bad_sinks:
        bad = sink.stored()
        is_ahead = bad.is_growing or _number(bad.last_batch) > _number(stored.last_batch)
        parts += [StoredRows(each, is_bad=True, is_ahead=is_ahead) for each in bad.parts]
    task = Comparison(
        tuple(parts),
        Decoding.of(table.spec),
        source_of(where),
        comparing.bounds,
        {name: _by_pair(ends) for name, ends in table.spans.since.items()},
        _shift(comparing.messages + comparing.older),
    )
    with session_of(spark, spark_place, "verify", lasting=True, watch=watch) as session:
        return _compared(session, table, comparing, task, options)


def elsewhere(
    table: FollowedTable,
    name_server: str | None,
    store: str | Path | None,
    broker_name: str | None,
) -> FollowedTable:
    """The same table, whose topic is read elsewhere if that is named."""
    changes: dict[str, Any] = {}
    if store is not None:
        changes = {"store": str(Path(store).absolute()), "name_server": None}
    elif name_server is not None:
        changes = {"name_server": name_server, "store": None}
    if broker_name is not None:
        changes["broker_name"] = broker_name
    return replace(table, spec=table.spec.with_changes(**changes))


def source_of(table: FollowedTable) -> dict[str, str]:
    """The options with which the connector reads a table's topic once."""
    spec = table.spec
    given = {
        "nameServer": spec.name_server,
        "path": spec.store,
        "brokerName": spec.broker_name if spec.store is not None else None,
        "subscribe": spec.topic,
        "onGap": "skip",
        "onBadMessage": "null",
    }
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the table must have."""

    bounds: Mapping[Pair, Bounds]
    ranges: Sequence[QueueRange]
    addresses: Mapping[str, str]
    sizes: Mapping[MessageQueue, int]
    places: Sequence[PlaceRange]
    behind: int

    @classmethod
    def of(cls, table: FollowedTable, last: int | None, options: ReadOptions) -> _Plan:
        offset = None if last is None else table.checkpoint.offset(last)
        if last is not None and offset is None:
            raise CheckpointMismatch(
                str(table.directory),
                f"its checkpoint has no batch {last}: put it back, or make the table anew with "
                "`rocketpipe table rebuild`",
            )
        ends = {} if offset is None else offset.ends
        spans = table.spans
        with closing(open_offsets(options)) as topic:
            there = _there(topic, options, ends)
            bounds: dict[Pair, Bounds] = {}
            ranges: list[QueueRange] = []
            places: list[PlaceRange] = []
            for queue, end in ends.items():
                least, greatest = there[queue]
                known = spans.begins.get(Queue(queue.topic, queue.broker_name, queue.queue_id))
                first = min(end, least if known is None else max(least, known))
                pair = (queue.broker_name, queue.queue_id)
                bounds[pair] = Bounds(known, first, end)
                ranges.append(QueueRange(queue, QueueOffset(first), min(end, greatest)))
                if known is not None:
                    places += _older(pair, spans, queue, known, first)
            ranges = [each for each in ranges if each.count > 0]
            sizes = topic.sizes(to_measure(ranges))
            addresses = topic.addresses()
        behind = sum(max(0, there[queue][1] - ends.get(queue, there[queue][0])) for queue in there)
        return cls(bounds, ranges, addresses, sizes, places, behind)

    @property
    def messages(self) -> int:
        return sum(each.count for each in self.ranges)

    @property
    def older(self) -> int:
        return sum(each.end - each.start for each in self.places)

    @property
    def parts(self) -> list[Part]:
        return [*self._read(self.ranges), *self.places]

    def within(self, only: Mapping[Pair, frozenset[int]], shift: int) -> list[Part]:
        """What of it is in some buckets."""
        cut = []
        for whole in self.ranges:
            for bucket in sorted(only.get((whole.queue.broker_name, whole.queue.queue_id), ())):
                start = max(whole.start, bucket << shift)
                end = min(whole.end, (bucket + 1) << shift)
                if start < end:
                    cut.append(QueueRange(whole.queue, QueueOffset(start), QueueOffset(end)))
        places = [each for each in self.places if each.pair in only]
        return [*self._read(cut), *places]

    def _read(self, ranges: Sequence[QueueRange]) -> list[Part]:
        sizes = self.sizes if ranges is self.ranges else {}
        planned = plan(ranges, sizes, max_bytes=64 << 20)
        return [ReadPartition(each, self.addresses) for each in planned]


def _there(
    topic: OffsetReader, options: ReadOptions, ends: Mapping[MessageQueue, QueueOffset]
) -> dict[MessageQueue, Ends]:
    """How far the queues of the topic reach, and those that are gone with a drained broker."""
    queues = options.selection.queues(topic)
    there = dict(topic.ends(queues))
    gone = [queue for queue in ends if queue not in queues]
    for queue in topic.drained(gone) if gone else ():
        there[queue] = (ends[queue], ends[queue])
    if away := sorted({*queues, *ends} - there.keys()):
        raise QueuesUnreachable(away)
    return there


def _older(
    pair: Pair, spans: Spans, queue: MessageQueue, begin: int, first: int
) -> list[PlaceRange]:
    """What the topic has no more and the table must have."""
    ranges, at = [], begin
    for start, end in spans.skipped.get(Queue(queue.topic, *pair), ()):
        ranges.append(PlaceRange(pair, at, min(start, first)))
        at = max(at, end)
    ranges.append(PlaceRange(pair, at, first))
    return [each for each in ranges if each.start < each.end]


def _compared(
    spark: SparkSession,
    table: FollowedTable,
    planned: _Plan,
    task: Comparison,
    options: ReadOptions,
) -> VerifyReport:
    def failed(reason: str) -> VerifyFailed:
        return VerifyFailed(str(table.directory), reason)

    sums = persistently(lambda: _sums(spark, task), failed)
    only = _unequal(sums)
    found: list[Any] = []
    if only:
        parts = planned.within(only, task.shift)
        parts += [each for each in task.parts if isinstance(each, StoredRows)]
        again = replace(task, parts=tuple(parts), only=only)
        found = persistently(lambda: _rows(spark, again), failed)
    counts, findings = joined(each.asDict() for each in found)
    if counts["extra"]:
        _forget_aged(counts, findings, task.bounds, options)
    by_side = {
        side: sum(row["number"] for row in sums if row["side"] == side)
        for side in (STORED, STORED_BAD, UNKNOWN)
    }
    return VerifyReport(
        table.spec.topic,
        by_side[STORED],
        by_side[STORED_BAD],
        planned.messages,
        planned.older,
        by_side[UNKNOWN],
        planned.behind,
        {kind: number for kind, number in counts.items() if number},
        tuple(findings[:MOST_FINDINGS]),
        tuple([row["broker"] for row in sums if row["side"] == LOST][:_MOST_FILES]),
        sum(end - start for each in table.spans.skipped.values() for start, end in each),
    )


def _unequal(sums: Sequence[Any]) -> dict[Pair, frozenset[int]]:
    """The buckets of which the sides do not have the same."""
    sides: dict[bool, dict[tuple[Pair, int], tuple[int, int]]] = {True: {}, False: {}}
    for row in sums:
        if row["side"] in (EXPECTED, STORED, STORED_BAD):
            held = sides[row["side"] == EXPECTED]
            key = ((row["broker"], row["queue_id"]), row["bucket"])
            number, digest = held.get(key, (0, 0))
            held[key] = (number + row["number"], digest ^ row["digest"])
    found: dict[Pair, set[int]] = defaultdict(set)
    for pair, bucket in {*sides[True], *sides[False]}:
        if sides[True].get((pair, bucket)) != sides[False].get((pair, bucket)):
            found[pair].add(bucket)
    return {pair: frozenset(buckets) for pair, buckets in found.items()}


def _sums(spark: SparkSession, task: Comparison) -> list[Any]:
    from pyspark.sql import functions as f

    if not task.parts:
        return []
    frame = _numbers(spark, task).mapInArrow(task.sums, SUM_SCHEMA)
    grouped = frame.groupBy("side", "broker", "queue_id", "bucket")
    summed = grouped.agg(f.sum("number").alias("number"), f.bit_xor("digest").alias("digest"))
    found: list[Any] = summed.collect()
    return found


def _rows(spark: SparkSession, task: Comparison) -> list[Any]:
    frame = _numbers(spark, task).mapInArrow(task.rows, ROW_SCHEMA)
    grouped = frame.groupBy("broker", "queue_id", "bucket")
    differences = Differences(task.bounds)
    # Spark counts a function's arguments, and takes one with two for another kind.
    found: list[Any] = grouped.applyInArrow(lambda one: differences(one), FINDING_SCHEMA).collect()
    return found


def _numbers(spark: SparkSession, task: Comparison) -> Any:
    """A frame with the number of each part, a task for each."""
    return spark.range(0, len(task.parts), 1, max(1, len(task.parts)))


def _forget_aged(
    counts: Any, findings: list[Finding], bounds: Mapping[Pair, Bounds], options: ReadOptions
) -> None:
    """Leave out what the topic has no more since it was asked: it is not known to be extra."""
    with closing(open_offsets(options)) as topic:
        there = topic.ends(options.selection.queues(topic))
    least = {(queue.broker_name, queue.queue_id): ends[0] for queue, ends in there.items()}
    kept = []
    for each in findings:
        pair = (each.broker, each.queue_id)
        first = max(each.first, least.get(pair, 0))
        was_there = pair in bounds and each.first >= bounds[pair].first
        if each.kind != "extra" or first == each.first or not was_there:
            kept.append(each)
            continue
        counts["extra"] -= min(each.number, first - each.first)
        if first <= each.last:
            kept.append(replace(each, first=first))
    findings[:] = kept


def _by_pair(ends: Mapping[Queue, int]) -> dict[Pair, int]:
    return {(queue.broker, queue.queue_id): end for queue, end in ends.items()}


def _shift(messages: int) -> int:
    return max(_LEAST_SHIFT, (messages // _MOST_BUCKETS).bit_length())


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch
