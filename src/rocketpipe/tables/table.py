"""A table that follows a topic, opened: its directory, its spec, and the two tables it is made of.

table = FollowedTable.open("lake/orders")
table.spec.topic, table.rows.last_batch(), table.bad_rows.figures()
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from rocketpipe.errors import ConfigError
from rocketpipe.tables.checkpoint import Checkpoint
from rocketpipe.tables.columns import BAD_ROWS, ONLY_MORE, TableColumns, misfit
from rocketpipe.tables.directory import TableDirectory, check_same
from rocketpipe.tables.errors import HalfRebuilt, HalfReplayed, NotATable, SpecMismatch
from rocketpipe.tables.sinks.database import Database, TableName
from rocketpipe.tables.sinks.delta import DeltaSink
from rocketpipe.tables.sinks.iceberg import IcebergCatalogue, IcebergSink
from rocketpipe.tables.sinks.parquet import ParquetSink
from rocketpipe.tables.sinks.postgres import PostgresSink
from rocketpipe.tables.sinks.sink import BatchSink
from rocketpipe.tables.spans import Queue, Spans, leaps
from rocketpipe.tables.spec import TableSpec


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """A table, its bad rows, and how far its query has come."""

    directory: TableDirectory
    spec: TableSpec

    @classmethod
    def open(cls, place: str | Path) -> FollowedTable:
        """The table in a directory.

        Raises:
            NotATable: If there is none.
        """
        directory = TableDirectory(place)
        return cls(directory, directory.read())

    @property
    def rows(self) -> BatchSink:
        """The table itself."""
        return self._sink(self.directory.root, "rows", self.schema)

    @property
    def bad_rows(self) -> BatchSink:
        """The messages that are no rows."""
        return self._sink(self.directory.bad_rows, "bad_rows", BAD_ROWS)

    @property
    def replayed(self) -> BatchSink:
        """Bad rows that were sent to the topic again, and so are settled."""
        return self._sink(self.directory.replayed, "replayed", BAD_ROWS)

    @property
    def has_replayed(self) -> bool:
        """Whether there may be some of them."""
        return self.directory.replayed.exists()

    def prepare_replayed(self) -> None:
        """Have a place for them; only for who has the table's lock."""
        self.directory.replayed.mkdir(exist_ok=True)  # says so also where they are in a database
        self.replayed.prepare(BAD_ROWS)

    @property
    def spans(self) -> Spans:
        """What the table took of its topic.

        Raises:
            NotATable: If what is kept of it cannot be read.
        """
        try:
            return Spans.read(self.directory.spans_path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NotATable(
                str(self.directory),
                f"_rocketpipe/spans.json is damaged ({error}): put it back, or make the table "
                "anew with `rocketpipe table rebuild`",
            ) from error

    @property
    def checkpoint(self) -> Checkpoint:
        """How far Spark says that the query has come."""
        return Checkpoint(self.directory.checkpoint)

    def check(self) -> None:
        """See that nothing stands against following it on.

        Raises:
            NotATable: If its directory is something else.
            SpecMismatch: If the table there is another one.
            CheckpointMismatch: If its checkpoint does not fit it.
            ConfigError: If a column or the schema is none.
        """
        self.directory.check_free()
        if not self.directory.has_spec:
            self._check_names()
            self.rows.check_free()
            self.bad_rows.check_free()
            return
        self.check_whole()
        there = FollowedTable(self.directory, self.directory.read())
        last = there.rows.last_batch()
        there.checkpoint.check(str(self.directory), there.spec.id, last)
        if self.spec == there.spec:
            return
        check_same(self.directory, there.spec, asdict(self.spec))
        reason = misfit(there.schema, self.schema)
        if TableColumns.of(there.spec).has_date and not TableColumns.of(self.spec).has_date:
            reason = "column date is the day of storing, by which it is partitioned"
        if reason is not None:
            raise SpecMismatch(str(self.directory), f"{reason}: {ONLY_MORE}")
        bad = there.bad_rows.last_batch()
        if (-1 if bad is None else bad) > (-1 if last is None else last):
            raise SpecMismatch(
                str(self.directory),
                "its last batch is half done: follow it once as it was, then change it",
            )

    def _check_names(self) -> None:
        """See that no column of bodies is called as one that readers have beside them."""
        columns = TableColumns.of(self.spec)
        taken = columns.ours(self.spec.format) & set(map(str.lower, columns.decoded.names))
        if taken:
            raise ConfigError(
                "--schema",
                f"{min(taken)} is what tables of {self.spec.format} call something else: rename "
                "it in the body, leave it out, or choose another --format",
            )

    def check_whole(self) -> None:
        """See that neither a replay of bad rows nor a rebuild was cut off.

        Raises:
            HalfReplayed: If a replay was.
            HalfRebuilt: If a rebuild was, while the table got its rows.
        """
        if self.directory.replay_path.exists():
            raise HalfReplayed(
                str(self.directory),
                "a replay of its bad rows was cut off, and rows may be in two places: finish it "
                "with `rocketpipe table replay`",
            )
        if self.directory.takeover_path.exists():
            raise HalfRebuilt(
                str(self.directory),
                "a rebuild was cut off while its rows were put in place: finish it with "
                "`rocketpipe table rebuild`",
            )

    def prepare(self) -> None:
        """Make the table if it is not there, and keep its spec; only for who has its lock.

        Raises:
            SpecMismatch: If the table there has other columns.
        """
        if not self.directory.has_spec:
            self.directory.write(self.spec)  # first: without it, the rest is somebody else's
        self.note_columns()
        self.rows.prepare(self.schema)
        self.bad_rows.prepare(BAD_ROWS)
        self.checkpoint.claim(self.spec.id)
        self.directory.write(self.spec)

    def note_columns(self) -> None:
        """Keep since when it has the columns that the spec in its directory does not have."""
        there = FollowedTable(self.directory, self.directory.read())
        names = set(self.schema.names) - set(there.schema.names)
        last = there.rows.last_batch() if names else None
        if last is not None:
            spans = self.spans.with_columns(sorted(names), self.checkpoint.offset(last))
            spans.write(self.directory.spans_path)

    def note_batch(self, batch: int) -> dict[Queue, tuple[int, int]]:
        """Keep where a batch began, which Spark's checkpoint has for as long as it is new.

        Gives the queues that it does not read on where the one before ended.
        """
        offset = self.checkpoint.offset(batch)
        if offset is None:
            return {}
        before, known = self.checkpoint.offset(batch - 1), self.spans
        now = known.with_batch(before, offset)
        if now != known:
            now.write(self.directory.spans_path)
        return leaps(before, offset)

    @property
    def schema(self) -> pa.Schema:
        """Its columns; raises ConfigError if the spec asks for what cannot be."""
        return TableColumns.of(self.spec).schema

    def _sink(self, root: Path, name: str, schema: pa.Schema) -> BatchSink:
        partition_by = self.spec.partition_by if name == "rows" else None
        if self.spec.format == "parquet":
            return ParquetSink(root, self.directory.staging / name)
        if self.spec.format == "postgres":
            return self._postgres(name, schema)
        if self.spec.format == "iceberg":
            _need("pyiceberg", "pyiceberg[sql-sqlite]")
            return self._iceberg(root, name, partition_by)
        _need("deltalake", "deltalake")
        return DeltaSink(root, self.spec.id, partition_by)

    def _postgres(self, name: str, schema: pa.Schema) -> PostgresSink:
        assert self.spec.database is not None
        assert self.spec.table is not None
        database = Database(self.spec.database, self.spec.password_file)
        database.check()
        table = TableName.parse(self.spec.table)
        if name != "rows":
            table = table.beside(f"{table.name}_{name}")
        return PostgresSink(database, table, self.spec.id, str(self.directory), schema)

    def _iceberg(self, root: Path, name: str, partition_by: str | None) -> IcebergSink:
        if self.spec.table is None:
            catalogue = IcebergCatalogue(self.directory.catalogue)
            return IcebergSink(root, self.spec.id, partition_by, catalogue, ("tables", name))
        known, *identifier = self.spec.table.split(".")
        if name != "rows":
            identifier[-1] += f"_{name}"
        catalogue = IcebergCatalogue(self.directory.catalogue, known)
        return IcebergSink(root, self.spec.id, partition_by, catalogue, tuple(identifier))


def _need(module: str, distribution: str) -> None:
    """See that what a sink stands on is installed."""
    if find_spec(module) is None:
        raise ConfigError(module, f"is not installed: pip install '{distribution}'")
