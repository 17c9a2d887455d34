"""An Iceberg table, through pyiceberg: no jar.

A batch is one commit: a snapshot of the files that tasks wrote, and in the same change of the
table's properties the batch's number and who committed it. The properties count, as they outlive
the snapshots; the snapshot's summary says the same to people.

pyiceberg repeats a commit that met another one, on whatever the table is by then: a second driver
would add its batch a second time. So the table says that nothing is repeated
(``commit.retry.num-retries`` is 0, and seen to before each commit on the very copy that is
committed on), and the number is looked at again before each attempt of ours. A batch without rows
is a snapshot, too: only a snapshot is refused when another one came before it.

The catalogue is a file of SQLite in the table's own directory, or one that pyiceberg is told of.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.delta import BatchConflict
from rocketpipe.tables.columns import ONLY_MORE, misfit
from rocketpipe.tables.errors import NotATable, SpecMismatch
from rocketpipe.tables.files import Folder, WrittenFile, remove
from rocketpipe.tables.sinks.iceberg_takeover import OWNER, take_over
from rocketpipe.tables.sinks.iceberg_upkeep import IcebergUpkeep, data_file, local_path
from rocketpipe.tables.stored import Stored, StoredFile, in_parts

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

log = logging.getLogger("rocketpipe.tables")

#: How often a commit that met another one is tried, the number looked at each time.
_MOST_ATTEMPTS: Final = 5
_NO_RETRY: Final = ("commit.retry.num-retries", "0")
#: The last that added or replaced rows beside the batches.
_MENDED: Final = "rocketpipe.mended_by"
_PROPERTIES: Final = {
    _NO_RETRY[0]: _NO_RETRY[1],
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
_NAMES: Final = "schema.name-mapping.default"


class IcebergSink:
    """An Iceberg table with its files in a directory, and the batches of one query that it has."""

    def __init__(
        self,
        root: Path,
        table_id: str,
        partition_by: str | None,
        catalogue: IcebergCatalogue,
        identifier: tuple[str, ...],
    ) -> None:
        """``table_id`` is the name under which its batches are numbered."""
        self._root = root
        self._id = table_id
        self._partition_by = partition_by
        self._catalogue = catalogue
        self._identifier = identifier

    def __str__(self) -> str:
        return str(self._root)

    @property
    def rows_to(self) -> Folder:
        """Files are written to where they stay: only a snapshot says which count."""
        return Folder(str(self._root), keeps_part=True)

    @property
    def mends_to(self) -> Folder:
        """The same."""
        return self.rows_to

    def check_free(self) -> None:
        """See that the catalogue has no table of that name.

        Raises:
            NotATable: If it has.
        """
        if self._open() is not None:
            raise NotATable(
                ".".join(self._identifier), "is a table already: choose another name with --table"
            )

    def last_batch(self) -> int | None:
        """The number of the last batch that the table has."""
        table = self._open()
        return None if table is None else self._last(table)

    def prepare(self, schema: pa.Schema) -> None:
        """Make the table, or add columns to it.

        Raises:
            NotATable: If the catalogue has another table of that name.
            SpecMismatch: If it has other columns.
        """
        table = self._open()
        if table is None:
            self._create(schema)
            return
        if table.properties.get(OWNER) != self._id:
            raise NotATable(
                ".".join(self._identifier), "is another table: choose another name with --table"
            )
        there = arrow_schema_of(table)
        reason = misfit(there, plain_schema(schema))
        if reason is not None:
            raise SpecMismatch(str(self._root), f"{reason}: {ONLY_MORE}")
        added = [name for name in schema.names if name not in there.names]
        if added:
            with self._fresh().update_schema() as update:
                update.union_by_name(schema)
            log.info("columns added table=%s columns=%s", self._root, added)

    def commit(
        self, files: Sequence[WrittenFile], batch: int, notes: Mapping[str, str] | None = None
    ) -> bool:
        """Commit files with the batch's number; False if the table has that batch.

        Raises:
            BatchConflict: If others wrote again and again at the same moment.
        """
        attempt = str(uuid.uuid4())
        numbers = {
            f"rocketpipe.batch.{self._id}": str(batch),
            f"rocketpipe.attempt.{self._id}": attempt,
        }
        said = {"rocketpipe.table": self._id, "rocketpipe.batch": str(batch), **(notes or {})}

        def is_done(table: Table) -> bool:
            last = self._last(table)
            return last is not None and batch <= last

        if self._once(is_done, lambda table: self._write(table, files, numbers, said), batch):
            return True
        if self._fresh().properties.get(f"rocketpipe.attempt.{self._id}") == attempt:
            return True  # it was this one, and its answer was lost
        remove(self._root, files)
        return False

    def has_named(self, name: str) -> bool:
        """Whether files were added, or replaced, under a name, and none since."""
        return self._fresh().properties.get(_MENDED) == name

    def add_named(self, files: Sequence[WrittenFile], name: str) -> None:
        """Commit files under a name of their own, unless that was done."""
        self._mend(files, name, is_all=False)

    def replace_named(self, files: Sequence[WrittenFile], name: str) -> None:
        """Commit files in the place of all others, unless that was done."""
        self._mend(files, name, is_all=True)

    def _mend(self, files: Sequence[WrittenFile], name: str, *, is_all: bool) -> None:
        said = {_MENDED: name}
        self._once(
            lambda table: table.properties.get(_MENDED) == name,
            lambda table: self._write(table, files, said, said, is_all=is_all),
            0,
        )

    def written(self, files: Sequence[WrittenFile]) -> Sequence[StoredFile]:
        """What tasks wrote and no snapshot has yet, to be read."""
        return [StoredFile(str(self._root / each.path), each.size) for each in files]

    def take_over(self, new: IcebergSink) -> None:
        """Have the rows of another table for its own, in one commit, and its batches' number.

        It stays the same table to the catalogue, with its older snapshots.

        Raises:
            BatchConflict: If others wrote again and again at the same moment.
        """
        successor = new._fresh()
        if self._open() is None:
            self._create(arrow_schema_of(successor))
        self._once(
            lambda table: table.properties.get(OWNER) == new._id,
            lambda table: take_over(table, self._root, successor, new._root),
            0,
        )

    def _once(
        self, is_done: Callable[[Table], bool], change: Callable[[Table], None], batch: int
    ) -> bool:
        """Change the table in one commit; False if that was done before.

        Raises:
            BatchConflict: If others wrote again and again at the same moment.
        """
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

        met: Exception | None = None
        for _ in range(_MOST_ATTEMPTS):
            table = self._fresh()
            if is_done(table):
                return False
            try:
                change(table)
            except (CommitFailedException, CommitStateUnknownException) as error:
                log.info("commit met another table=%s batch=%d", self._root, batch)
                met = error
            else:
                return True
        raise BatchConflict(str(self._root), batch, str(met)) from met

    def discard(self, files: Sequence[WrittenFile]) -> None:
        """Remove files that no snapshot shall have."""
        remove(self._root, files)

    def upkeep(self, *, keep_ms: int, compact: bool) -> Mapping[str, Any]:
        """Compact small files, let go of old snapshots, and of files that none has."""
        if self._open() is None:
            return {}
        work = IcebergUpkeep(self._root, self._fresh, self._partition_by)
        done = work.compact() if compact else {}
        return {**done, **(work.expire(keep_ms) if keep_ms else {})}

    def figures(self) -> Mapping[str, Any]:
        """Rows, files and bytes, from the snapshot's summary."""
        table = self._open()
        now = None if table is None else table.current_snapshot()
        summary: Any = {} if now is None or now.summary is None else now.summary
        return {
            "rows": int(summary.get("total-records", 0)),
            "files": int(summary.get("total-data-files", 0)),
            "bytes": int(summary.get("total-files-size", 0)),
            "version": None if now is None else now.snapshot_id,
        }

    def stored(self) -> Stored:
        """The rows of its present snapshot."""
        table = self._open()
        return Stored() if table is None else Stored(self._last(table), in_parts(_files(table)))

    def _create(self, schema: pa.Schema) -> None:
        catalogue = self._catalogue.load()
        catalogue.create_namespace_if_not_exists(self._identifier[:-1])
        self._root.mkdir(parents=True, exist_ok=True)
        with catalogue.create_table_transaction(
            self._identifier,
            schema,
            location=f"file://{self._root}",
            properties={**_PROPERTIES, OWNER: self._id},
        ) as making:
            names = making.table_metadata.schema().name_mapping
            making.set_properties({_NAMES: names.model_dump_json()})
            if self._partition_by is not None:
                with making.update_spec() as parts:
                    parts.add_identity(self._partition_by)

    def _write(
        self,
        table: Table,
        files: Sequence[WrittenFile],
        properties: Mapping[str, str],
        said: Mapping[str, str],
        *,
        is_all: bool = False,
    ) -> None:
        """One commit of files, beside those that are there or in their place."""
        with table.transaction() as change:
            change.set_properties(dict(properties))
            update = change.update_snapshot(snapshot_properties=dict(said))
            with update.overwrite() if is_all else update.merge_append() as snapshot:
                for task in table.scan().plan_files() if is_all else ():
                    snapshot.delete_data_file(task.file)
                for each in files:
                    part = each.part.get(self._partition_by) if self._partition_by else None
                    snapshot.append_data_file(data_file(table, self._root / each.path, part))

    def _last(self, table: Table) -> int | None:
        said = table.properties.get(f"rocketpipe.batch.{self._id}")
        return None if said is None else int(said)

    def _open(self) -> Table | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        if not self._catalogue.is_there():
            return None
        try:
            return self._catalogue.load().load_table(self._identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _fresh(self) -> Table:
        """The table as it is now, a copy of which no commit is repeated."""
        table = self._catalogue.load().load_table(self._identifier)
        if table.properties.get(_NO_RETRY[0]) != _NO_RETRY[1]:
            with table.transaction() as change:
                change.set_properties(dict([_NO_RETRY]))
        return table


class IcebergCatalogue:
    """Where Iceberg tables are known by name: a file of ours, or what pyiceberg is told of."""

    def __init__(self, file: Path, name: str | None = None) -> None:
        """``name`` is one of pyiceberg's, from ~/.pyiceberg.yaml or PYICEBERG_CATALOG__NAME__…"""
        self._file = file
        self._name = name
        self._loaded: Catalog | None = None

    def is_there(self) -> bool:
        """Whether it has been made."""
        return self._name is not None or self._file.exists()

    def load(self) -> Catalog:
        """The catalogue, which is made if it is the file and not there.

        Raises:
            ConfigError: If pyiceberg does not know it, or cannot reach it.
        """
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _load(self) -> Catalog:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.catalog.sql import SqlCatalog

        if self._name is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            return SqlCatalog("rocketpipe", uri=f"sqlite:///{self._file}")
        try:
            return load_catalog(self._name)
        except Exception as error:
            said = str(error).strip().split("\n")[0]
            raise ConfigError(
                "--table",
                f"pyiceberg cannot open the catalogue {self._name!r} ({said}): describe it in "
                f"~/.pyiceberg.yaml, or as PYICEBERG_CATALOG__{self._name.upper()}__URI",
            ) from error


def arrow_schema_of(table: Table) -> pa.Schema:
    """The columns of an Iceberg table, as Arrow has them."""
    return plain_schema(table.schema().as_arrow())


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns in the types that Iceberg has."""
    return pa.schema([pa.field(each.name, _plain(each.type), each.nullable) for each in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_int8(kind) or types.is_int16(kind):
        return pa.int32()
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type)) for each in kind])
    return kind


def _files(table: Table) -> list[StoredFile]:
    return [
        StoredFile(str(local_path(each.file.file_path)), each.file.file_size_in_bytes)
        for each in table.scan().plan_files()
    ]
