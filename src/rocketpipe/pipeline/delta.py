"""Delta tables that a stream fills exactly once, without a jar: delta-rs writes them.

Spark repeats a micro-batch whose end it did not see. A Delta commit can carry the number of the
batch that it holds, under the id of the query, which stays the same over restarts from one
checkpoint. So a batch is written in one commit with its number, and one whose number the table has
is left out:

    table = BatchTable("lake/orders")
    orders.writeStream.option("checkpointLocation", "lake/checkpoint").foreachBatch(table.append)

The rows of a batch pass through the driver as Arrow: bound them with ``maxOffsetsPerTrigger``.
A table may be filled by several queries, each with its own numbers. Two drivers of one query are
told apart by the table itself: the second commit of a number is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.errors import RocketPipeError

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

#: Where Spark says, in whatever it runs for a micro-batch, which query that is.
_QUERY_ID: Final = "sql.streaming.queryId"
#: Where a message stands, and when it was stored.
_QUEUE: Final = ("broker", "queue_id")
_OFFSET: Final = "queue_offset"
_STORED: Final = "store_timestamp"
_PLACE: Final = "__place"
_OLD: Final = "t"
_NEW: Final = "s"


class BatchConflict(RocketPipeError):
    """Somebody else wrote to the table at the same time, so this batch was not written."""

    def __init__(self, table: str, batch: int, reason: str) -> None:
        self.hint = "if another driver runs this query, stop it; then start from the checkpoint"
        super().__init__(f"{table}: batch {batch} was not written ({reason}): {self.hint}")
        self.batch = batch


class BatchTable:
    """A Delta table, and the batches of streams that it has."""

    def __init__(
        self,
        place: str | Path,
        *,
        partition_by: Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Name a table, which the first batch creates if it is not there.

        ``place`` is a directory or an address that delta-rs knows, for which ``storage_options``
        are. ``partition_by`` is for a table that is created.
        """
        self.place = str(place)
        self._partition_by = list(partition_by)
        self._storage = dict(storage_options) if storage_options else None

    # For ``foreachBatch``

    def append(self, frame: DataFrame, batch: int) -> None:
        """Add a micro-batch's rows, unless the table has that batch.

        Raises:
            BatchConflict: If another driver wrote it at the same moment.
            ValueError: If ``frame`` is not of a micro-batch.
        """
        query = query_of(frame)
        if not self.has(query, batch):
            self.append_rows(frame.toArrow(), query, batch)

    def add_up(
        self, frame: DataFrame, batch: int, *, by: Sequence[str], sums: Sequence[str]
    ) -> None:
        """Add a micro-batch's sums to those that the table has, unless it has that batch.

        ``frame`` has a row for each combination of ``by``; what is in the columns ``sums`` is added
        to the table's row of that combination, or becomes one.

        Raises:
            BatchConflict: If another driver wrote it at the same moment.
            ValueError: If ``frame`` is not of a micro-batch, or has a combination twice, or nulls
                in it.
        """
        query = query_of(frame)
        if not self.has(query, batch):
            self.add_up_rows(frame.toArrow(), query, batch, by=by, sums=sums)

    def upsert(
        self, frame: DataFrame, batch: int, *, key: Sequence[str], deletes: str | None = None
    ) -> None:
        """Have the last row of each key in the table, unless it has that micro-batch.

        ``frame`` has, beside the columns to keep, ``broker``, ``queue_id``, ``queue_offset`` and
        ``store_timestamp`` of the message: the last of a key is the one with the greatest offset of
        its queue, and of several queues the one that was stored last. Where the column ``deletes``
        is true the key goes; the column itself is not kept.

        Raises:
            BatchConflict: If another driver wrote it at the same moment.
            ValueError: If ``frame`` is not of a micro-batch, lacks one of these columns, or has
                nulls in its key.
        """
        query = query_of(frame)
        if not self.has(query, batch):
            self.upsert_rows(frame.toArrow(), query, batch, key=key, deletes=deletes)

    # The same for rows at hand

    def has(self, query: str, batch: int) -> bool:
        """Whether the table has a batch of a query, or a later one."""
        table = self._open()
        last = None if table is None else table.transaction_version(query)
        if last is None or batch > last:
            return False
        log.info("batch left out table=%s query=%s batch=%d", self.place, query, batch)
        return True

    def append_rows(self, rows: pa.Table, query: str, batch: int) -> bool:
        """Add rows in one commit with their batch's number; False if the table has that batch.

        Raises:
            BatchConflict: If another driver wrote it at the same moment.
        """
        from deltalake import write_deltalake
        from deltalake.exceptions import CommitFailedError

        table = self._open()
        if _has(table, query, batch):
            return False
        try:
            # Of a table that was opened before the check: what was committed since is a conflict.
            write_deltalake(
                self.place if table is None else table,
                rows,
                mode="append",
                partition_by=self._partition_by or None,
                storage_options=self._storage,
                commit_properties=_numbered(query, batch),
            )
        except CommitFailedError as error:
            raise BatchConflict(self.place, batch, str(error)) from error
        return True

    def add_up_rows(
        self, rows: pa.Table, query: str, batch: int, *, by: Sequence[str], sums: Sequence[str]
    ) -> bool:
        """Add sums in one commit with their batch's number; False if the table has that batch.

        Raises:
            BatchConflict: If another driver wrote it at the same moment.
            ValueError: If a combination of ``by`` is there twice, or has nulls in it.
        """
        from deltalake.exceptions import CommitFailedError

        _check_combinations(rows, by)
        table = self._open() or self._create(rows.schema)
        if _has(table, query, batch):
            return False
        same = " AND ".join(f"{_OLD}.{_quoted(name)} = {_NEW}.{_quoted(name)}" for name in by)
        added = {_quoted(name): f"{_OLD}.{_quoted(name)} + {_NEW}.{_quoted(name)}" for name in sums}
        try:
            (
                table.merge(
                    rows,
                    same,
                    source_alias=_NEW,
                    target_alias=_OLD,
                    commit_properties=_numbered(query, batch),
                )
                .when_matched_update(added)
                .when_not_matched_insert_all()
                .execute()
            )
        except CommitFailedError as error:
            raise BatchConflict(self.place, batch, str(error)) from error
        return True

    def upsert_rows(
        self,
        rows: pa.Table,
        query: str,
        batch: int,
        *,
        key: Sequence[str],
        deletes: str | None = None,
    ) -> bool:
        """Have the last row of each key in one commit; False if the table has that batch.

        A row that is older than the table's, by offset in the same queue, changes nothing.

        Raises:
            BatchConflict: If another driver wrote it at the same moment.
            ValueError: As `upsert`.
        """
        from deltalake.exceptions import CommitFailedError

        last = _last_of_each(rows, key)
        kept = [name for name in last.column_names if name != deletes]
        table = self._open() or self._create(last.select(kept).schema)
        if _has(table, query, batch):
            return False
        gone = "false" if deletes is None else f"coalesce({_NEW}.{_quoted(deletes)}, false)"
        older = " AND ".join(
            [
                *(f"{_OLD}.{_quoted(name)} = {_NEW}.{_quoted(name)}" for name in _QUEUE),
                f"{_OLD}.{_quoted(_OFFSET)} >= {_NEW}.{_quoted(_OFFSET)}",
            ]
        )
        newer = f"NOT coalesce({older}, false)"
        values = {_quoted(name): f"{_NEW}.{_quoted(name)}" for name in kept}
        try:
            (
                table.merge(
                    last,
                    " AND ".join(
                        f"{_OLD}.{_quoted(each)} = {_NEW}.{_quoted(each)}" for each in key
                    ),
                    source_alias=_NEW,
                    target_alias=_OLD,
                    commit_properties=_numbered(query, batch),
                )
                .when_matched_delete(f"{gone} AND {newer}")
                .when_matched_update(values, predicate=f"NOT {gone} AND {newer}")
                .when_not_matched_insert(values, predicate=f"NOT {gone}")
                .execute()
            )
        except CommitFailedError as error:
            raise BatchConflict(self.place, batch, str(error)) from error
        return True

    # Reading back

    def count(self) -> int:
        """How many rows it has; none before there is a table."""
        table = self._open()
        return 0 if table is None else table.count()

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All its rows.

        Raises:
            FileNotFoundError: If no batch has been written yet.
        """
        table = self._open()
        if table is None:
            raise FileNotFoundError(f"{self.place}: there is no table yet, write a batch first")
        return table.to_pyarrow_table(columns=None if columns is None else list(columns))

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self.place, self._storage):
            return None
        return DeltaTable(self.place, storage_options=self._storage)

    def _create(self, schema: pa.Schema) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable.create(
            self.place,
            schema,
            mode="ignore",  # of two who create it at once, one does
            partition_by=self._partition_by or None,
            storage_options=self._storage,
        )


def query_of(frame: DataFrame) -> str:
    """The id of the query whose micro-batch this is: the same over restarts from a checkpoint.

    Raises:
        ValueError: If it is not one that ``foreachBatch`` gave.
    """
    query = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if query is None:
        raise ValueError("this frame is not of a micro-batch: give the method to foreachBatch")
    return query


def _has(table: DeltaTable | None, query: str, batch: int) -> bool:
    # A lower number would be accepted, and would set the table's own back: so it is looked at.
    last = None if table is None else table.transaction_version(query)
    return last is not None and batch <= last


def _numbered(query: str, batch: int) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(app_transactions=[Transaction(query, batch)])


def _check_combinations(rows: pa.Table, by: Sequence[str]) -> None:
    keys: Any = rows.select(list(by))
    for name in by:
        if keys.column(name).null_count:
            raise ValueError(f"column {name!r} has nulls, which are equal to nothing: fill them")
    if len(keys.group_by(list(by)).aggregate([])) != len(keys):
        raise ValueError(f"there are rows with the same {', '.join(by)}: add them up first")


def _last_of_each(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in the order in which a topic has them."""
    for name in (*key, *_QUEUE, _OFFSET, _STORED):
        if name not in rows.column_names:
            raise ValueError(f"there is no column {name!r}: have it beside the others")
        if name in key and rows.column(name).null_count:
            raise ValueError(f"column {name!r} has nulls, which are no key: leave such rows out")
    by_offset = _last_by(rows, (*_QUEUE, _OFFSET), list(dict.fromkeys((*key, *_QUEUE))))
    return _last_by(by_offset, (_STORED, *_QUEUE), key)


def _last_by(rows: pa.Table, order: Sequence[str], by: Sequence[str]) -> pa.Table:
    ordered = rows.sort_by([(name, "ascending") for name in order])
    places = ordered.select(list(by)).append_column(_PLACE, pa.array(range(len(ordered))))
    last = places.group_by(list(by)).aggregate([(_PLACE, "max")]).column(f"{_PLACE}_max")
    return ordered.take(last)


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
