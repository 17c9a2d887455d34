"""What an Iceberg table needs from time to time, and pyiceberg does not do.

small files of a partition     written together, and exchanged in one commit
snapshots                      let go of when they are old, or beyond the last thousand: each is
                               in every version of the table's metadata
files that no snapshot has     removed when they were last touched longer ago than readers may
                               take; files that a compaction lets go of are touched before it
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from rocketpipe.tables.files import Folder, PartFiles, WrittenFile, remove

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

log = logging.getLogger("rocketpipe.tables")

#: Files below this are small, and files are put together up to about this.
_SMALL_BYTES: Final = 64 << 20
_MOST_SNAPSHOTS: Final = 1_000
_EPOCH: Final = date(1970, 1, 1)


class IcebergUpkeep:
    """Looks after one table."""

    def __init__(self, root: Path, load: Callable[[], Table], partition_by: str | None) -> None:
        """``load`` gives the table as it is, on which no commit is repeated."""
        self._root = root
        self._load = load
        self._partition_by = partition_by

    def compact(self) -> dict[str, Any]:
        """Write small files together; whoever reads the old ones still finds them."""
        from pyiceberg.exceptions import CommitFailedException

        table = self._load()
        old: list[DataFile] = []
        new: list[WrittenFile] = []
        for group in self._groups(table):
            new += self._together(table, group)
            old += group
        if not old:
            return {}
        for each in old:
            local_path(each.file_path).touch()  # from now on for as long as readers may take
        try:
            with (
                table.transaction() as change,
                change.update_snapshot(
                    snapshot_properties={"rocketpipe.compacted": str(len(old))}
                ).overwrite() as snapshot,
            ):
                for each in old:
                    snapshot.delete_data_file(each)
                for written in new:
                    part = written.part.get(self._partition_by) if self._partition_by else None
                    snapshot.append_data_file(data_file(table, self._root / written.path, part))
        except CommitFailedException:
            remove(self._root, new)
            raise
        return {"files_before": len(old), "files": len(new)}

    def expire(self, keep_ms: int) -> dict[str, Any]:
        """Let go of snapshots that are old, and of files that none of the others has."""
        table = self._load()
        now_ms = int(time.time() * 1000)
        by_time = sorted(table.metadata.snapshots, key=lambda each: each.timestamp_ms)
        kept = {each.snapshot_id for each in by_time[-_MOST_SNAPSHOTS:]}
        named = {each.snapshot_id for each in table.refs().values()}
        gone = [
            each.snapshot_id
            for each in by_time
            if each.snapshot_id not in named
            and (each.timestamp_ms < now_ms - keep_ms or each.snapshot_id not in kept)
        ]
        if gone:
            table.maintenance.expire_snapshots().by_ids(gone).commit()
            table = self._load()
        return {"removed": self._remove_lost(table, (now_ms - keep_ms) / 1000)}

    def _groups(self, table: Table) -> Iterator[list[DataFile]]:
        """Small files of one partition, so many that they make a file."""
        by_part: dict[tuple[Any, ...], list[DataFile]] = {}
        for task in table.scan().plan_files():
            small = task.file.file_size_in_bytes < _SMALL_BYTES
            if small and not task.delete_files:  # others may have put deletes beside it
                part = task.file.partition
                key = tuple(part[number] for number in range(len(part)))
                by_part.setdefault(key, []).append(task.file)
        for files in by_part.values():
            group: list[DataFile] = []
            size = 0
            for each in sorted(files, key=lambda one: one.file_path):
                group.append(each)
                size += each.file_size_in_bytes
                if size >= _SMALL_BYTES:
                    yield group
                    group, size = [], 0
            if len(group) > 1:
                yield group

    def _together(self, table: Table, files: list[DataFile]) -> list[WrittenFile]:
        schema = _file_schema(table)
        writer = PartFiles(Folder(str(self._root), keeps_part=True), schema, self._partition_by)
        try:
            for each in files:
                with pq.ParquetFile(local_path(each.file_path)) as file:
                    for batch in file.iter_batches():
                        writer.add(_fitted(batch, schema))
            return writer.finish()
        except BaseException:
            writer.discard()
            raise

    def _remove_lost(self, table: Table, before_s: float) -> int:
        used = set(_metadata_files(table))
        old = [
            path
            for pattern in ("**/part-*.parquet", "metadata/*.avro")
            for path in self._root.glob(pattern)
            if "_rocketpipe" not in path.relative_to(self._root).parts
            and path.stat().st_mtime < before_s
            and path not in used
        ]
        if any(path.suffix == ".parquet" for path in old):
            data = set(_data_files(table))
            old = [path for path in old if path not in data]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old)


def local_path(address: str) -> Path:
    """The file that an address in a table's metadata names."""
    return Path(urlparse(address).path if address.startswith("file:") else address)


def data_file(table: Table, path: Path, part: str | None) -> DataFile:
    """A file as a table's manifests list it; ``part`` is the value of the partition column.

    The value is told, not taken from the file's statistics: they leave long texts out.
    """
    kinds = [table.schema().find_field(each.source_id).field_type for each in table.spec().fields]
    parts = [_value(part, str(kind)) for kind in kinds]
    return listed_file(table.io, table.metadata, path, parts)


def listed_file(io: FileIO, metadata: TableMetadata, path: Path, parts: list[Any]) -> DataFile:
    """A file of one partition, as manifests list it."""
    from pyiceberg.io.pyarrow import parquet_file_to_data_file

    made = parquet_file_to_data_file(io, metadata, f"file://{path}")
    for number, value in enumerate(parts):
        made.partition[number] = value
    return made


def _value(text: str | None, kind: str) -> Any:
    """A value as manifests have it, of one of the types that a table is partitioned by."""
    if text is None or kind == "string":
        return text
    if kind == "boolean":
        return text == "true"
    return (date.fromisoformat(text) - _EPOCH).days if kind == "date" else int(text)


def _file_schema(table: Table) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return pa.schema(
        [
            each.remove_metadata()
            for each in schema_to_pyarrow(table.schema(), include_field_ids=False)
        ]
    )


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _metadata_files(table: Table) -> Iterator[Path]:
    for snapshot in table.metadata.snapshots:
        yield local_path(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            yield local_path(manifest.manifest_path)


def _data_files(table: Table) -> Iterator[Path]:
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                yield local_path(entry.data_file.file_path)
