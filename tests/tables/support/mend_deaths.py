"""A table mended in a process that dies at a step: kill -9, nothing is tidied up.

    python -m tests.tables.support.mend_deaths VERB PLACE FORM ADDRESS [STEP]

``replay`` puts bad rows into the table, ``rebuild`` has the table take the place of one that was
made beside it. Without a step it prints the steps that there are, as `tests.tables.support.deaths`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.tables.support.deaths import done, fill_table, watch

from rocketpipe.tables.decoding import Decoding
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.replay_task import Choice, ReplayTask
from rocketpipe.tables.replaying import Journal, Replayer
from rocketpipe.tables.spec import TableSpec
from rocketpipe.tables.table import FollowedTable
from rocketpipe.tables.takeover import Takeover, provisional

#: What the table has first: no column ``n``, so messages with one are bad; then all of it.
NARROW, WIDE = "city STRING", "city STRING, n INT"
#: What a table's own directory gets and loses.
_FILES = tuple(("pathlib", "Path", name) for name in ("rename", "replace", "unlink"))


def filled(place: Path, form: str, address: str, **fields: Any) -> FollowedTable:
    """A table with rows and bad rows."""
    more = {"database": address, "table": "orders"} if form == "postgres" else {}
    given = {
        "topic": "orders",
        "name_server": "127.0.0.1:1",
        "decode": "json",
        "schema": NARROW,
        "new_columns": "quarantine",
        "format": form,
        "partition_by": None if form == "postgres" else "city",
        **more,
        **fields,
    }
    table = FollowedTable(TableDirectory(place), TableSpec(**given))
    table.prepare()
    return fill_table(table)


def beside(place: Path) -> Path:
    """Where a table is made anew."""
    return place.with_name(f"{place.name}.new")


def replayed(place: Path) -> FollowedTable:
    """Finish a replay that was cut off, and replay what is left, as the command does."""
    table = FollowedTable.open(place)
    unfinished = Journal.read(table.directory.replay_path)
    if unfinished is not None:
        Replayer(table, _in_this_process, _nothing_is_sent).finish(unfinished)
    wide = FollowedTable(table.directory, table.spec.with_changes(schema=WIDE))
    wide.prepare()
    decoding = Decoding.of(wide.spec)
    replayer = Replayer(wide, _in_this_process, _nothing_is_sent)
    replayer.replay(decoding, "table", Choice("new columns"), None)
    return wide


def rebuilt(place: Path) -> FollowedTable:
    """Have the new table's rows in the old, whether that was begun or not."""
    directory = TableDirectory(place)
    unfinished = Takeover.read(directory, beside(place))
    if unfinished is not None:
        unfinished.finish()
    elif beside(place).exists():
        old = FollowedTable.open(place)
        spec = FollowedTable.open(beside(place)).spec.with_changes(table=old.spec.table)
        Takeover(directory, beside(place), spec).begin()
    return FollowedTable.open(place)


def begun(verb: str, place: Path, form: str, address: str) -> None:
    """What is there before the verb."""
    old = filled(place, form, address)
    if verb == "rebuild":
        old.prepare_replayed()
        more = {"partition_by": None, "table": provisional(old.spec)}
        filled(beside(place), form, address, schema=WIDE, new_columns="ignore", **more)


def _in_this_process(table: FollowedTable, task: ReplayTask) -> Iterable[tuple[str, str]]:
    numbers = [pa.RecordBatch.from_pydict({"id": [part]}) for part in range(len(task.parts))]
    return list(done(numbers, task))


def _nothing_is_sent(table: FollowedTable, journal: Journal) -> None:
    raise AssertionError


def main(verb: str, place: str, form: str, address: str, step: str | None = None) -> None:
    begun(verb, Path(place), form, address)
    watch(form, step, _FILES)
    {"replay": replayed, "rebuild": rebuilt}[verb](Path(place))


if __name__ == "__main__":
    main(*sys.argv[1:])
