"""How many rows a table of a pipeline has, by the footers of its files: no Spark is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_METADATA: Final = "_spark_metadata"
_COMPACT: Final = ".compact"


def count_rows(table: Path | None) -> int | None:
    """How many rows a table has; None if that cannot be said here."""
    if table is None or not table.is_dir():
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return sum(int(pq.read_metadata(file).num_rows) for file in files_of(table))
    except (OSError, ValueError, pa.ArrowException):
        return None  # it is being replaced, or is of another format


def files_of(table: Path) -> Iterator[Path]:
    """The files that count: of a stream's those that its log names, whatever else lies about."""
    log = table / _METADATA
    if not log.is_dir():
        for file in sorted(table.rglob("*.parquet")):
            if not any(part.startswith((".", "_")) for part in file.relative_to(table).parts):
                yield file
        return
    entries = {_number(file): file for file in sorted(log.iterdir()) if _number(file) >= 0}
    compacts = [number for number, file in entries.items() if file.name.endswith(_COMPACT)]
    first = max(compacts, default=-1)
    named: dict[str, None] = {}
    for number in sorted(entries):
        if number >= first:
            for line in entries[number].read_text().splitlines()[1:]:
                entry = json.loads(line)
                if entry.get("action") == "delete":
                    named.pop(entry["path"], None)
                else:
                    named[entry["path"]] = None
    for path in named:
        yield Path(unquote(urlsplit(path).path))


def _number(file: Path) -> int:
    text = file.name.removesuffix(_COMPACT)
    return int(text) if text.isdigit() else -1
