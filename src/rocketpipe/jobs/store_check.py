"""A store looked through by Spark, one task a segment, with the findings of ``store check``.

The store must not be in use, and has to be under the same path for driver and executors. With
``--rebuild``, queues and index are made anew if something is wrong with them and nothing with the
log: what the log has lost, nothing brings back. The log is read for that by a task a segment too,
and the driver puts together what they have made.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.broker.config.offline import offline_store
from rocketpipe.client.admin.findings import counted
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConfigError
from rocketpipe.jobs import plots
from rocketpipe.jobs.context import JobContext
from rocketpipe.jobs.outcome import Outcome
from rocketpipe.store import roster
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.state.run_files import locked
from rocketpipe.store.upkeep.check_parts import (
    SegmentPart,
    Workers,
    check_in_parts,
    check_index_file,
    check_queues,
    check_segment,
)
from rocketpipe.store.upkeep.findings import IN_THE_LOG, Report
from rocketpipe.store.upkeep.maintenance import rebuild_derived
from rocketpipe.store.upkeep.rebuild_parts import derive_segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTS: Final = pa.schema(
    [
        ("store", pa.string()),
        ("finding", pa.string()),
        ("count", pa.int64()),
        ("put_right_by", pa.string()),
    ]
)
_FINDINGS: Final = pa.schema(
    [
        ("store", pa.string()),
        ("finding", pa.string()),
        ("file", pa.string()),
        ("at", pa.int64()),
        ("detail", pa.string()),
    ]
)
_STORES: Final = pa.schema(
    [
        ("store", pa.string()),
        *(
            (name, pa.int64())
            for name in (
                "first_offset",
                "end_offset",
                "segments",
                "records",
                "record_bytes",
                "queue_entries",
                "index_entries",
            )
        ),
        ("stopped_in_order", pa.bool_()),
        ("ok", pa.bool_()),
    ]
)
_SEGMENTS: Final = pa.schema(
    [
        ("store", pa.string()),
        ("segment", pa.int64()),
        ("records", pa.int64()),
        ("record_bytes", pa.int64()),
        ("findings", pa.int64()),
    ]
)
_PART: Final = "number BIGINT, part BINARY"
_START: Final = "the next start"
_REBUILD: Final = "--rebuild"
_NOTHING: Final = "nothing: see `rocketpipe store repair`"


@dataclass(frozen=True, slots=True)
class _Found:
    root: Path
    report: Report
    parts: list[SegmentPart]
    rebuilt: int | None = None


def work(context: JobContext) -> Outcome:
    """Look through one store, or through all of a directory of several brokers.

    Raises:
        ConfigError: If the directory is no store.
        StoreLocked: If a broker uses it.
        StoreError: If it is of a newer version, or cannot be read.
    """
    assert context.options.store is not None
    roots = stores(Path(context.options.store).absolute())
    for root in roots:
        # What is wrong with settings, and who uses the store, shows before Spark starts.
        _config(context, root)
        with _held(root):
            pass
    with context.session() as spark:
        found = [_found(context, spark, root) for root in roots]
    return _outcome(found)


def _found(context: JobContext, spark: SparkSession, root: Path) -> _Found:
    context.tell(f"{root}: looking through it")
    found = _checked(spark, root)
    if not context.options.rebuild or found.report.ok or not found.report.log_ok:
        return found
    context.tell(f"{root}: making queues and index anew")
    count = rebuild_derived(
        _config(context, root),
        Disk(),
        SystemClock(),
        lambda plan, bases: _spread(spark, partial(_derived_part, plan), bases),
    )
    context.tell(f"{root}: looking through it again")
    return replace(_checked(spark, root), rebuilt=count)


def _config(context: JobContext, root: Path) -> StoreConfig:
    """With what its broker makes queues and index of the log."""
    named = context.options.config
    return offline_store(root, [Path(named)] if named is not None else [])


def stores(root: Path) -> list[Path]:
    """The stores of a directory.

    Raises:
        ConfigError: If there is none.
    """
    known = roster.load(root)
    places = [root] if known is None else [member.root(root) for member in known.brokers]
    found = [each for each in places if StoreLayout(each).commit_log.is_dir()]
    if not found:
        raise ConfigError(
            "--store",
            f"{root} is no store: it has no directory 'commitlog'; name what --data named",
        )
    return found


def _checked(spark: SparkSession, root: Path) -> _Found:
    parts: list[SegmentPart] = []

    def kept(given: Iterable[SegmentPart]) -> list[SegmentPart]:
        parts.extend(given)
        return parts

    workers = Workers(
        lambda plan, files: _spread(spark, partial(_index_part, plan), files),
        lambda plan, wanted: kept(_spread(spark, partial(_segment_part, plan), wanted)),
        lambda plan, seen, groups: _spread(spark, partial(_queue_part, plan, seen), groups),
    )
    with _held(root):
        report = check_in_parts(Disk(), root, workers)
    return _Found(root, report, parts)


@contextmanager
def _held(root: Path) -> Iterator[None]:
    """Keep brokers away inside the block; from a copy that may only be read, nobody need be."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(Disk(), StoreLayout(root)))
        except DiskError:
            pass
        yield


def _index_part(plan: Any, file: Path) -> Any:
    return check_index_file(Disk(), plan, file)


def _segment_part(plan: Any, wanted: Any) -> Any:
    return check_segment(Disk(), plan, *wanted)


def _derived_part(plan: Any, base: int) -> str:
    return derive_segment(Disk(), plan, base)


def _queue_part(plan: Any, seen: Any, queues: Any) -> Any:
    return check_queues(Disk(), plan, seen, queues)


def _spread(spark: SparkSession, does: Callable[[Any], Any], given: Sequence[Any]) -> list[Any]:
    """Have a task do each; gives what came of them, in order."""
    if not given:
        return []

    def batches(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            done = [pickle.dumps(does(given[number])) for number in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_arrays(
                [batch.column(0), pa.array(done, pa.binary())], names=["number", "part"]
            )

    one_each: Any = spark.range(0, len(given), 1, len(given))
    rows = one_each.mapInArrow(batches, _PART).toArrow().sort_by("number")
    return [pickle.loads(each) for each in rows.column("part").to_pylist()]  # noqa: S301 - our own


def _outcome(found: Sequence[_Found]) -> Outcome:
    records = sum(each.report.records for each in found)
    bad = sum(sum(each.report.counts.values()) for each in found)
    rebuilt = [each for each in found if each.rebuilt is not None]
    said = f"{counted(records, 'record')} in {counted(sum(len(e.parts) for e in found), 'segment')}"
    ending = f": {counted(bad, 'finding')}" if bad else ": nothing is wrong"
    if rebuilt:
        ending += "; queues and index were made anew"
    segments = [
        {
            "store": str(each.root),
            "segment": part.base,
            "records": part.report.records,
            "record_bytes": part.report.record_bytes,
            "findings": sum(part.report.counts.values()) + sum(part.index.counts.values()),
        }
        for each in found
        for part in each.parts
    ]
    return Outcome(
        headline=said + ending,
        ok=not bad,
        figures={
            "records": records,
            "segments": len(segments),
            "bytes": sum(each.report.record_bytes for each in found),
            "findings": bad,
        },
        tables={
            "stores": pa.Table.from_pylist([_store_row(each) for each in found], _STORES),
            "counts": pa.Table.from_pylist(
                [row for each in found for row in _count_rows(each)], _COUNTS
            ),
            "findings": pa.Table.from_pylist(
                [
                    {
                        "store": str(each.root),
                        "finding": finding.kind.value,
                        "file": str(finding.file),
                        "at": finding.at,
                        "detail": finding.detail,
                    }
                    for each in found
                    for finding in each.report.findings
                ],
                _FINDINGS,
            ),
            "segments": pa.Table.from_pylist(segments, _SEGMENTS),
        },
        plots=[
            plots.bars(
                "Findings by kind",
                {
                    kind.value: count
                    for each in found
                    for kind, count in sorted(each.report.counts.items())
                },
                name_width=400,
            )
        ]
        if bad
        else [],
    )


def _store_row(found: _Found) -> dict[str, Any]:
    report = found.report
    return {
        "store": str(found.root),
        "first_offset": int(report.first_offset),
        "end_offset": int(report.end_offset),
        "segments": len(found.parts),
        "records": report.records,
        "record_bytes": report.record_bytes,
        "queue_entries": report.queue_entries,
        "index_entries": report.index_entries,
        "stopped_in_order": report.clean_stop,
        "ok": report.ok,
    }


def _count_rows(found: _Found) -> list[dict[str, Any]]:
    report, store = found.report, str(found.root)
    return [
        *(
            {
                "store": store,
                "finding": kind.value,
                "count": count,
                "put_right_by": _NOTHING if kind in IN_THE_LOG else _REBUILD,
            }
            for kind, count in sorted(report.counts.items())
        ),
        *(
            {"store": store, "finding": kind.value, "count": count, "put_right_by": _START}
            for kind, count in sorted(report.left_over.items())
        ),
    ]
