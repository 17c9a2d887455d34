"""Batches into a table, in a process that dies at a step of them: kill -9, nothing is tidied up.

    python -m tests.tables.support.deaths PLACE FORM ADDRESS [STEP]

Without a step it runs to the end and prints the name of each step that there is. A step is the
moment before, or after, one call of what makes a table (`WATCHED`): the third write of a file, the
second commit.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from rocketpipe.tables.batches import BatchWriter
from rocketpipe.tables.columns import DIGEST, OF_MESSAGE
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.spec import TableSpec
from rocketpipe.tables.table import FollowedTable

#: What is watched for each kind of table: a class, and one of its methods.
WATCHED = {
    "delta": (
        ("rocketpipe.tables.files", "PartFiles", "finish"),
        ("rocketpipe.tables.sinks.delta", "DeltaSink", "commit"),
        ("deltalake", "DeltaTable", "create_write_transaction"),
        ("deltalake.table", "TableAlterer", "add_columns"),
    ),
    "parquet": (
        ("rocketpipe.tables.files", "PartFiles", "finish"),
        ("rocketpipe.tables.sinks.parquet", "ParquetSink", "commit"),
        ("pathlib", "Path", "rename"),
        ("pathlib", "Path", "write_text"),
    ),
    "iceberg": (
        ("rocketpipe.tables.files", "PartFiles", "finish"),
        ("rocketpipe.tables.sinks.iceberg", "IcebergSink", "commit"),
        ("pyiceberg.catalog.sql", "SqlCatalog", "commit_table"),
        ("pyiceberg.catalog.sql", "SqlCatalog", "_write_metadata"),
        ("pyiceberg.table.update.snapshot", "_SnapshotProducer", "_commit"),
    ),
    "postgres": (
        ("rocketpipe.tables.sinks.copying", "CopiedRows", "finish"),
        ("rocketpipe.tables.sinks.postgres", "PostgresSink", "commit"),
        ("psycopg", "Connection", "execute"),
        ("psycopg", "Copy", "write"),
        ("psycopg", "Transaction", "__exit__"),
    ),
}
#: For all of them: the spec, which gets a column before the table does.
_SPEC = ("rocketpipe.tables.directory", "TableDirectory", "write")

#: What is sent: two batches of two tasks each, the second with a field that is no column yet.
BATCHES: tuple[tuple[tuple[bytes, ...], ...], ...] = (
    ((b'{"city": "a"}', b'{"city": "b"}'), (b'{"city": "a"}',)),
    ((b'{"city": "a", "n": 1}', b"no"), (b'{"city": null}', b"nor this")),
    ((b'{"city": "c", "n": 2}',), ()),
)
#: The rows and the bad rows that a table has then, by their offset.
ROWS = {
    0: ("a", None),
    1: ("b", None),
    2: ("a", None),
    3: ("a", 1),
    5: (None, None),
    7: ("c", 2),
}
BAD_ROWS = {4: b"no", 6: b"nor this"}


def opened(place: Path, form: str, address: str) -> FollowedTable:
    """The table, made if it is not there."""
    directory = TableDirectory(place)
    if directory.has_spec:
        table = FollowedTable.open(place)
    else:
        more = {"database": address, "table": "orders"} if form == "postgres" else {}
        spec = TableSpec(
            topic="orders",
            name_server="127.0.0.1:1",
            decode="json",
            schema="city STRING",
            new_columns="add",
            format=form,  # type: ignore[arg-type]
            partition_by=None if form == "postgres" else "city",
            **more,
        )
        table = FollowedTable(directory, spec)
    table.prepare()
    return table


def fill(place: Path, form: str, address: str) -> FollowedTable:
    """Have all batches in the table, as a query does that begins anew: some may be there."""
    return fill_table(opened(place, form, address))


def fill_table(table: FollowedTable) -> FollowedTable:
    """The same, of a table that was made otherwise."""
    fill_one = BatchWriter(table, list_files=done)
    first = 0
    for batch, tasks in enumerate(BATCHES):
        made = []
        for bodies in tasks:
            made.append(_messages(bodies, first))
            first += len(bodies)
        fill_one(made, batch)  # type: ignore[arg-type]
    return fill_one.table


def done(frame: Any, task: Callable[[Iterable[Any]], Iterator[Any]]) -> Iterator[tuple[str, str]]:
    for batch in frame:
        for listed in task(iter([batch])):
            for row in listed.to_pylist():
                yield row["kind"], row["facts"]


def _messages(bodies: tuple[bytes, ...], first: int) -> pa.RecordBatch:
    count = len(bodies)
    columns = {
        "broker": ["b"] * count,
        "queue_id": [0] * count,
        "queue_offset": range(first, first + count),
        "store_timestamp": [datetime(2026, 1, 1, tzinfo=UTC)] * count,
        "message_id": ["id"] * count,
        "keys": [["k"]] * count,
        "tags": [None] * count,
        "body": bodies,
        DIGEST: range(count),
    }
    schema = pa.schema([*OF_MESSAGE, ("body", pa.binary()), (DIGEST, pa.int64())])
    return pa.RecordBatch.from_pydict(columns, schema)


def watch(form: str, die_at: str | None, more: Iterable[tuple[str, str, str]] = ()) -> None:
    """Have each step printed, or the process die at one."""
    seen: Counter[str] = Counter()

    def came(moment: str) -> None:
        seen[moment] += 1
        name = f"{moment} {seen[moment]}"
        if die_at is None:
            sys.stdout.write(f"{name}\n")
        elif name == die_at:
            os.killpg(os.getpgrp(), signal.SIGKILL)  # it was started as a group of its own

    for module, owner, name in dict.fromkeys((*WATCHED[form], _SPEC, *more)):
        _wrap(getattr(import_module(module), owner), name, f"{owner}.{name}", came)


def _wrap(owner: type, name: str, shown: str, came: Callable[[str], None]) -> None:
    inner = getattr(owner, name)

    def outer(*given: Any, **named: Any) -> Any:
        came(f"before {shown}")
        result = inner(*given, **named)
        came(f"after {shown}")
        return result

    setattr(owner, name, staticmethod(outer) if _is_static(owner, name) else outer)


def _is_static(owner: type, name: str) -> bool:
    return any(isinstance(vars(each).get(name), staticmethod) for each in owner.__mro__)


def main(place: str, form: str, address: str, step: str | None = None) -> None:
    watch(form, step)
    fill(Path(place), form, address)


if __name__ == "__main__":
    main(*sys.argv[1:])
