"""A Delta table, through delta-rs: no jar.

A batch is one commit of its own: the files that tasks wrote, and the batch's number as the
transaction of the table's id (``txn`` in the log). What was looked at is what is committed on: a
commit that came in between is a conflict, never a second copy. Files that no commit names are
nobody's, and go with the vacuum.

Columns are added in a commit before the batch's: whoever dies between them has a column more, which
the same batch fills when it comes again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.pipeline.delta import BatchConflict
from rocketpipe.tables.columns import ONLY_MORE, misfit
from rocketpipe.tables.errors import SpecMismatch
from rocketpipe.tables.files import Folder, WrittenFile, as_text, remove
from rocketpipe.tables.stored import Stored, StoredFile, in_parts

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

log = logging.getLogger("rocketpipe.tables")

_HOUR_MS: Final = 3_600_000
_LOG_RETENTION: Final = "delta.logRetentionDuration"


class DeltaSink:
    """A Delta table in a directory, and the batches of one query that it has."""

    def __init__(self, root: Path, table_id: str, partition_by: str | None = None) -> None:
        """``table_id`` is the name under which its batches are numbered."""
        self._root = root
        self._id = table_id
        self._partition_by = [partition_by] if partition_by is not None else []

    def __str__(self) -> str:
        return str(self._root)

    @property
    def rows_to(self) -> Folder:
        """Files are written to where they stay: only the log says which count."""
        return Folder(str(self._root))

    @property
    def mends_to(self) -> Folder:
        """The same."""
        return self.rows_to

    def check_free(self) -> None:
        """Nothing: all of it is in its directory."""

    def last_batch(self) -> int | None:
        """The number of the last batch that the table has."""
        table = self._open()
        return None if table is None else table.transaction_version(self._id)

    def prepare(self, schema: pa.Schema) -> None:
        """Make the table, or add columns to it.

        Raises:
            SpecMismatch: If it has other columns.
        """
        from deltalake import DeltaTable
        from deltalake.schema import Schema

        table = self._open()
        if table is None:
            DeltaTable.create(
                str(self._root), schema, mode="ignore", partition_by=self._partition_by or None
            )
            return
        there = arrow_schema_of(table)
        wanted = Schema.from_arrow(schema)
        reason = misfit(there, pa.schema(wanted.to_arrow()))
        if reason is not None:
            raise SpecMismatch(str(self._root), f"{reason}: {ONLY_MORE}")
        added = [field for field in wanted.fields if field.name not in there.names]
        if added:
            table.alter.add_columns(added)
            log.info("columns added table=%s columns=%s", self._root, [f.name for f in added])

    def commit(
        self, files: Sequence[WrittenFile], batch: int, notes: Mapping[str, str] | None = None
    ) -> bool:
        """Commit files with the batch's number; False if the table has that batch.

        Raises:
            BatchConflict: If another process wrote at the same moment.
        """
        table = self._open()
        assert table is not None  # it was prepared
        last = table.transaction_version(self._id)
        if last is not None and batch <= last:
            remove(self._root, files)
            return False
        self._write(table, files, self._id, batch, notes)
        return True

    def written(self, files: Sequence[WrittenFile]) -> Sequence[StoredFile]:
        """Files that tasks wrote and that are part of nothing yet."""
        return [StoredFile(str(self._root / each.path), each.size) for each in files]

    def has_named(self, name: str) -> bool:
        """Whether a commit was made under a name."""
        return self._fresh().transaction_version(name) is not None

    def add_named(self, files: Sequence[WrittenFile], name: str) -> None:
        """Commit files under a name of their own, unless the table has that name."""
        if not self.has_named(name):
            self._write(self._fresh(), files, name, 0)

    def replace_named(self, files: Sequence[WrittenFile], name: str) -> None:
        """Commit files in the place of all others, unless the table has that name."""
        if not self.has_named(name):
            self._write(self._fresh(), files, name, 0, mode="overwrite")

    def _write(
        self,
        table: DeltaTable,
        files: Sequence[WrittenFile],
        name: str,
        number: int,
        notes: Mapping[str, str] | None = None,
        mode: str = "append",
    ) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction

        adds: list[AddAction | RemoveAction] = [
            AddAction(
                path=each.path,
                size=each.size,
                partition_values=each.part,
                modification_time=int((self._root / each.path).stat().st_mtime * 1000),
                data_change=True,
                stats=each.stats,
            )
            for each in files
        ]
        try:
            table.create_write_transaction(
                adds,
                mode=mode,
                schema=table.schema(),
                partition_by=self._partition_by,
                commit_properties=CommitProperties(
                    custom_metadata=dict(notes or {}),
                    app_transactions=[Transaction(name, number)],
                ),
            )
        except CommitFailedError as error:
            raise BatchConflict(str(self._root), number, str(error)) from error

    def discard(self, files: Sequence[WrittenFile]) -> None:
        """Remove files that no commit shall name."""
        remove(self._root, files)

    def upkeep(self, *, keep_ms: int, compact: bool) -> Mapping[str, Any]:
        """Compact, vacuum, and clean the log up; readers keep what they began to read."""
        table = self._open()
        if table is None:
            return {}
        done: dict[str, Any] = {}
        if compact:
            found = table.optimize.compact(max_concurrent_tasks=1)  # memory: a bin at a time
            done |= {"files_before": found["numFilesRemoved"], "files": found["numFilesAdded"]}
        if keep_ms:
            hours = math.ceil(keep_ms / _HOUR_MS)
            self._retain(hours)
            removed = self._fresh().vacuum(
                retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True
            )
            done["removed"] = len(removed)
            table = self._fresh()
            table.create_checkpoint()
            table.cleanup_metadata()
        return done

    def figures(self) -> Mapping[str, Any]:
        """Rows, files and bytes, from the log alone."""
        table = self._open()
        if table is None:
            return {"rows": 0, "files": 0, "bytes": 0, "version": None}
        adds = pa.table(table.get_add_actions(flatten=True))
        return {
            "rows": sum(adds.column("num_records").to_pylist()) if adds.num_rows else 0,
            "files": adds.num_rows,
            "bytes": sum(adds.column("size_bytes").to_pylist()) if adds.num_rows else 0,
            "version": table.version(),
        }

    def stored(self) -> Stored:
        """The rows of its present version, whose files stay for as long as old ones are kept."""
        table = self._open()
        if table is None:
            return Stored()
        return Stored(table.transaction_version(self._id), in_parts(self._files(table)))

    def _files(self, table: DeltaTable) -> list[StoredFile]:
        adds = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        return [
            StoredFile(
                str(self._root / each["path"]),
                each["size_bytes"],
                {name: as_text(value) for name, value in (each.get("partition") or {}).items()},
            )
            for each in adds
        ]

    def _retain(self, hours: int) -> None:
        """Have the log kept as long as the files are."""
        table = self._fresh()
        wanted = f"interval {hours} hours"
        if table.metadata().configuration.get(_LOG_RETENTION) != wanted:
            table.alter.set_table_properties({_LOG_RETENTION: wanted})

    def _fresh(self) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(str(self._root))

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable

        return self._fresh() if DeltaTable.is_deltatable(str(self._root)) else None


def arrow_schema_of(table: DeltaTable) -> pa.Schema:
    """The columns of a Delta table, as Arrow has them."""
    return pa.schema(table.schema().to_arrow())
