"""Plain files of Parquet: ``batch=N`` is a directory that comes to be by one rename.

Tasks write below a hidden directory; the driver renames it. So the table has a batch as a whole or
not at all, and its number is its name. It needs a file system that renames atomically: a disk, or
NFS; not an object store. Readers have ``batch`` as a column more, and files are never compacted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from rocketpipe.tables.files import NULL_PART, Folder, WrittenFile, remove
from rocketpipe.tables.stored import Stored, StoredFile, in_parts

_BATCH: Final = re.compile(r"batch=(\d+)")
_NOTES: Final = "_notes.json"


class ParquetSink:
    """Directories of Parquet files, one for each batch."""

    def __init__(self, root: Path, staging: Path) -> None:
        """``staging`` is a directory on the same disk that nobody else writes."""
        self._root = root
        self._staging = staging

    def __str__(self) -> str:
        return str(self._root)

    @property
    def rows_to(self) -> Folder:
        """Where the files of the batch at hand are."""
        return Folder(str(self._staging), exact_names=True)

    @property
    def mends_to(self) -> Folder:
        """The same."""
        return self.rows_to

    def check_free(self) -> None:
        """Nothing: all of it is in its directory."""

    def last_batch(self) -> int | None:
        """The number of the last batch that the table has."""
        return max(self._batches(), default=None)

    def prepare(self, schema: pa.Schema) -> None:
        """Make the directory; files have the columns that they were written with."""
        self._root.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._staging, ignore_errors=True)

    def commit(
        self, files: Sequence[WrittenFile], batch: int, notes: Mapping[str, str] | None = None
    ) -> bool:
        """Rename the files of a batch into the table; False if it has that batch."""
        last = self.last_batch()
        if last is not None and batch <= last:
            shutil.rmtree(self._staging, ignore_errors=True)
            return False
        # Put together apart: an attempt that was given up may still write to the staging.
        whole = self._staging.with_name(f"{self._staging.name}-whole")
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir(parents=True)
        for each in files:
            (whole / each.path).parent.mkdir(parents=True, exist_ok=True)
            (self._staging / each.path).rename(whole / each.path)
        facts = {**(notes or {}), "rows": sum(each.rows for each in files)}
        (whole / _NOTES).write_text(json.dumps(facts))
        whole.rename(self._root / f"batch={batch:08d}")
        _sync(self._root)
        return True

    def discard(self, files: Sequence[WrittenFile]) -> None:
        """Remove files that are part of nothing."""
        remove(self._staging, files)

    def written(self, files: Sequence[WrittenFile]) -> Sequence[StoredFile]:
        """Files that tasks wrote and that are part of nothing yet."""
        return [StoredFile(str(self._staging / each.path), each.size) for each in files]

    def has_named(self, name: str) -> bool:
        """Whether files of that name are in the table."""
        return any(
            path.name.startswith(f"{name}-")
            for batch in self._batches().values()
            for path in batch.rglob("*.parquet")
        )

    def add_named(self, files: Sequence[WrittenFile], name: str) -> None:
        """Rename files into the last batch, under names of which this is part."""
        self._place(files, name)

    def replace_named(self, files: Sequence[WrittenFile], name: str) -> None:
        """Have the last batch hold these files, and no other file be left."""
        self._place(files, name)
        for batch in self._batches().values():
            for path in batch.rglob("*.parquet"):
                if not path.name.startswith(f"{name}-"):
                    path.unlink()
            for path in batch.glob(f"{_NOTES}*"):
                if path.name != f"{_NOTES}.{name}":
                    path.unlink()

    def _place(self, files: Sequence[WrittenFile], name: str) -> None:
        batches = self._batches()
        last = batches[max(batches)] if batches else self._root / "batch=00000000"
        last.mkdir(exist_ok=True)
        for number, each in enumerate(files):
            folder, _, _ = each.path.rpartition("/")
            path = last / folder / f"{name}-{number}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                (self._staging / each.path).rename(path)
        notes = last / f"{_NOTES}.{name}"
        notes.write_text(json.dumps({"rows": sum(each.rows for each in files)}))
        _sync(last)

    def upkeep(self, *, keep_ms: int, compact: bool) -> Mapping[str, Any]:
        """Nothing: a plain file has no older version, and cannot be replaced under a reader."""
        return {}

    def figures(self) -> Mapping[str, Any]:
        """Rows, files and bytes."""
        rows = files = size = 0
        for batch in self._batches().values():
            rows += sum(json.loads(path.read_text())["rows"] for path in batch.glob(f"{_NOTES}*"))
            for path in batch.rglob("*.parquet"):
                files += 1
                size += path.stat().st_size
        return {"rows": rows, "files": files, "bytes": size, "version": None}

    def stored(self) -> Stored:
        """The rows of all batches."""
        return Stored(self.last_batch(), in_parts(self._files()))

    def _files(self) -> list[StoredFile]:
        return [
            StoredFile(str(path), path.stat().st_size, _part_of(path.relative_to(batch)))
            for batch in self._batches().values()
            for path in sorted(batch.rglob("*.parquet"))
        ]

    def _batches(self) -> dict[int, Path]:
        if not self._root.is_dir():
            return {}
        return {
            int(found[1]): each
            for each in self._root.iterdir()
            if (found := _BATCH.fullmatch(each.name))
        }


def _part_of(path: Path) -> dict[str, str | None]:
    parts = (folder.partition("=") for folder in path.parent.parts)
    return {name: None if value == NULL_PART else unquote(value) for name, _, value in parts}


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
