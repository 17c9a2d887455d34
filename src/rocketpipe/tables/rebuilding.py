"""A table anew, from the log: made beside the old one, verified, and put in its place at once.

    rebuild("lake/orders")

Of Delta and plain Parquet, all of a table is in its directory:

    lake/orders                       the old table; from 3 on, the new one
    lake/.orders.rocketpipe-new       1  a table of its own, followed to the end of the topic
                                      2  verified
                                      3  exchanged with the old one, in one step of the file system
    lake/.orders.rocketpipe-old       4  the old one on its way out

So there is a whole table at every moment. Who dies in 1 or 2 leaves a table that the next rebuild
goes on with, if it is to become the same; who dies after 3 leaves what it throws away.
``rebuild.json`` in the new table says of which it is to take the place.

A table that a catalogue or a database knows by its name gets the rows of the new one in 3, in one
step of whoever keeps it (`rocketpipe.tables.takeover`).
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.open_offsets import open_offsets
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.session import SparkPlace
from rocketpipe.tables.batches import Tell
from rocketpipe.tables.columns import BAD_ROWS, TableColumns
from rocketpipe.tables.directory import OURS, TableDirectory
from rocketpipe.tables.errors import NotATable, RebuildFailed
from rocketpipe.tables.following import follow, session_of
from rocketpipe.tables.replaying import settle
from rocketpipe.tables.schemas import with_schema
from rocketpipe.tables.sinks.sink import LastingSink
from rocketpipe.tables.spans import Queue, Spans
from rocketpipe.tables.spec import EARLIEST, TableSpec
from rocketpipe.tables.table import FollowedTable
from rocketpipe.tables.takeover import Takeover, drop, provisional
from rocketpipe.tables.verifying import VerifyReport, elsewhere, source_of, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MARK: Final = "rebuild.json"
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What the new table has, and whether a rebuild that was cut off was gone on with."""

    rows: int
    bad_rows: int
    resumed: bool
    verified: VerifyReport


def rebuild(
    place: str | Path,
    *,
    name_server: str | None = None,
    store: str | Path | None = None,
    broker_name: str | None = None,
    without_older: bool = False,
    spark: SparkSession | None = None,
    spark_place: SparkPlace | None = None,
    tell: Tell | None = None,
    **asked: Any,
) -> RebuildReport:
    """Make a table anew from its topic, and put it in the place of the old one.

    The topic is read where the table reads it, or at ``name_server``, or from the log of ``store``;
    afterwards it is followed where it was. ``asked`` are fields of `TableSpec`, of which all but
    the topic may be other than they were. Rows whose messages the topic has no more would be lost:
    that is refused, unless it is to be ``without_older``.

    Raises:
        ConfigError: If something that was asked for cannot be.
        NotATable: If the directory is something else.
        AlreadyFollowed: If another process writes the table.
        HalfReplayed: If a replay of its bad rows was cut off.
        UnknownTopic: If its topic is no more.
        RebuildFailed: If the topic has less than the table, or the new one is not equal to it.
        FollowFailed: If the query fails for a reason that does not pass.
    """
    directory = TableDirectory(place)
    directory.read()
    if spark is None:
        (spark_place or SparkPlace()).check_reachable()
    with directory.locked():
        site = _Site(directory)
        site.clear()
        finished = Takeover.read(directory, site.new)
        if finished is not None:
            finished.finish()
            site.clear()
        old = FollowedTable.open(place)
        old.check_whole()
        wanted = _wanted(old.spec, asked)
        if finished is not None and wanted == old.spec.with_changes(id=wanted.id):
            report = verify(place, spark=spark, spark_place=spark_place)
            return RebuildReport(report.rows, report.bad_rows, True, report)
        _check_names(old.spec, wanted)
        reads = elsewhere(FollowedTable(directory, wanted), name_server, store, broker_name)
        begins = _begins(old, reads, without_older=without_older)
        build = reads.spec.with_changes(
            group=None, start=_start(wanted, begins), table=provisional(old.spec)
        )
        resumed = site.prepare(old.spec.id, build)
        with session_of(spark, spark_place, "rebuild", lasting=True) as session:
            follow(to=site.new, once=True, spark=session, tell=tell)
            new = FollowedTable.open(site.new)
            _carry_replayed(session, old, new)
            report = verify(site.new, spark=session)
        if not report.is_equal:
            raise RebuildFailed(
                str(directory),
                f"the new table is not equal to the topic ({dict(report.wrong)}) and was not put "
                "in the place of the old one: run it again, and look at the log if that does not "
                "help",
            )
        figures = new.rows.figures()["rows"], new.bad_rows.figures()["rows"]
        spec = new.spec.with_changes(
            **{name: getattr(wanted, name) for name in _WHERE}, start=wanted.start
        )
        with new.directory.locked():
            if isinstance(old.rows, LastingSink):
                Takeover(directory, site.new, spec).begin()
            else:
                new.directory.write(spec)
                exchange(directory.root, site.new)
            site.clear()
    return RebuildReport(*figures, resumed, report)


#: What is other while a table is made: where it reads, that it tells no group, and its name.
_WHERE: Final = ("name_server", "store", "broker_name", "group", "table")
#: What the name by which others know a table is made of.
_NAME: Final = ("format", "table", "database")


class _Site:
    """The directories of a rebuild, and what is left there of one that was cut off."""

    def __init__(self, directory: TableDirectory) -> None:
        root = directory.root
        self._root = root
        self.new = root.with_name(f".{root.name}.rocketpipe-new")
        self._old = root.with_name(f".{root.name}.rocketpipe-old")

    def clear(self) -> None:
        """Throw away what a rebuild leaves that was through with the exchange."""
        mark = self._root / OURS / _MARK
        shutil.rmtree(self._old, ignore_errors=True)
        if mark.exists():
            if self.new.exists():
                self.new.rename(self._old)
                shutil.rmtree(self._old)
            mark.unlink()

    def prepare(self, old_id: str, build: TableSpec) -> bool:
        """Have a place for the new table; gives whether some of it is there already."""
        wanted = {"of": old_id, "spec": {**asdict(build), "id": None}}
        directory = TableDirectory(self.new)
        mark = self.new / OURS / _MARK
        try:
            there = directory.read()
            if json.loads(mark.read_text()) == wanted:
                added = there.added if build.new_columns == "add" else build.added
                directory.write(build.with_changes(id=there.id, added=added))
                return True
        except (NotATable, OSError, ValueError):
            pass
        shutil.rmtree(self.new, ignore_errors=True)
        drop(FollowedTable(directory, build))
        mark.parent.mkdir(parents=True)
        mark.write_text(json.dumps(wanted))
        directory.write(build)
        return False


def _wanted(old: TableSpec, asked: Mapping[str, Any]) -> TableSpec:
    given = {name: value for name, value in asked.items() if value is not None}
    given = with_schema(given, old.topic, old)
    unknown = given.keys() - TableSpec.__dataclass_fields__.keys() | (
        given.keys() & {"id", "added", "topic"}
    )
    if unknown:
        raise ConfigError("rebuild", f"{sorted(unknown)[0]!r} is not something that can be chosen")
    if given.get("decode", old.decode) != old.decode:
        given = {"schema": None, "registry": None, "added": None, "new_columns": "ignore", **given}
    spec = old.with_changes(**given, id="")
    assert TableColumns.of(spec) is not None  # what is wrong with it shows here
    return spec


def _check_names(old: TableSpec, wanted: TableSpec) -> None:
    """See that a table that is known by its name keeps that.

    Raises:
        ConfigError: If it would not.
    """
    is_known = {"iceberg", "postgres"} & {old.format, wanted.format}
    for name in _NAME:
        if is_known and getattr(old, name) != getattr(wanted, name):
            raise ConfigError("rebuild", f"makes the same table anew: its {name} cannot be another")


def _begins(
    old: FollowedTable, reads: FollowedTable, *, without_older: bool
) -> Mapping[Queue, int]:
    """Where the new table begins in each queue in which the old one did.

    Raises:
        RebuildFailed: If the topic has no messages any more that the old table has.
    """
    try:
        spans = old.spans
    except NotATable:
        spans = Spans()
    options = ReadOptions.parse(source_of(reads))
    with closing(open_offsets(options)) as topic:
        ends = topic.ends(options.selection.queues(topic))
    there = {
        Queue(queue.topic, queue.broker_name, queue.queue_id): each for queue, each in ends.items()
    }
    begins = {}
    gone = 0
    for queue, begin in spans.begins.items():
        least = there[queue][0] if queue in there else None
        if least is not None:
            begins[queue] = max(begin, least)
            skipped = sum(end - start for start, end in spans.skipped.get(queue, ()))
            gone += max(0, least - begin - skipped)
        else:
            gone += 1
    if gone and not without_older:
        raise RebuildFailed(
            str(old.directory),
            f"the table has rows of messages that the topic has no more ({gone} or more): leave it "
            "as it is, or say --without-older to have a table without them",
        )
    return begins


def _start(wanted: TableSpec, begins: Mapping[Queue, int]) -> str:
    """Where to begin: where the old one began, if that was neither the earliest nor asked for."""
    if wanted.start == EARLIEST or not begins:
        return wanted.start
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for queue, begin in sorted(begins.items()):
        nested.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.queue_id)] = begin
    return json.dumps(nested)


def _carry_replayed(spark: SparkSession, old: FollowedTable, new: FollowedTable) -> None:
    """Have bad rows that were sent to the topic again count as that in the new table, too."""
    if not old.has_replayed:
        return
    places: set[tuple[str, int, int]] = set()
    schema = pa.schema([BAD_ROWS.field(name) for name in ("broker", "queue_id", "queue_offset")])
    for part in old.replayed.stored().parts:
        for batch in part.read(schema):
            found = (batch.column(name).to_pylist() for name in schema.names)
            places.update(zip(*found, strict=True))
    settle(spark, new, frozenset(places))


def exchange(one: Path, other: Path) -> None:
    """Have two directories change names, in one step.

    Raises:
        RebuildFailed: If the file system, or the kernel, cannot.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    try:
        failed = libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    except AttributeError as error:
        raise RebuildFailed(
            str(one), "this system cannot exchange directories in one step: rebuild it on Linux"
        ) from error
    if failed:
        reason = os.strerror(ctypes.get_errno())
        raise RebuildFailed(
            str(one),
            f"the file system cannot exchange two directories in one step ({reason}): have the "
            "table on a local disk, or follow the topic into another directory",
        )
    descriptor = os.open(one.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
