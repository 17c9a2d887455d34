"""A micro-batch into a table, once, whoever dies when.

    1  the table has the batch        nothing is done: Spark did not see its end
    2  tasks decode and write files   which are part of nothing yet
    3  fields that are no column      added: the spec first, then the table, and 2 again;
                                      or the batch fails, with nothing changed
    4  bad rows are committed         with the batch's number, unless they have it
    5  rows are committed             with the batch's number: now the table has it
    6  upkeep, every so many batches  what fails there is logged, and fails nothing

A death after 2 leaves files that nobody names, one after 3 a column without values, one after 4 bad
rows whose batch comes again: the same messages are bad then, as nothing else has changed. The files
that tasks list are all that passes through the driver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.clock import SetClock
from rocketpipe.tables.columns import BODY, DIGEST, MOST_COLUMNS, TableColumns, widened
from rocketpipe.tables.decoding import Decoding
from rocketpipe.tables.errors import NewColumns, NotShared
from rocketpipe.tables.files import LIST_SCHEMA, FileList, FileTask
from rocketpipe.tables.spans import Queue
from rocketpipe.tables.table import FollowedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What is told: a batch, its rows and its bad rows; what it had to leave out; why the query was
#: started again; or as which group the table's lag shows, if not as its directory is called.
Tell = Callable[[Mapping[str, Any]], None]

log = logging.getLogger("rocketpipe.tables")

#: Batches between two upkeeps where files are never compacted.
_UPKEEP_EVERY: Final = 100
#: Of the process that writes: of Spark Connect it is the server's.
_CLOCK: Final = SetClock()


def listed_by_spark(frame: DataFrame, task: FileTask) -> list[tuple[str, str]]:
    """Have Spark's workers write a frame's files; gives their list."""
    from pyspark.sql import functions as f

    # Typed for one kind of frame, and it may be Spark Connect's.
    digested: Any = frame.withColumn(DIGEST, f.xxhash64(BODY))
    return [(row["kind"], row["facts"]) for row in digested.mapInArrow(task, LIST_SCHEMA).collect()]


@dataclass(slots=True)
class BatchWriter:
    """Writes the batches of one query; for ``foreachBatch``, also of Spark Connect."""

    table: FollowedTable
    #: What the last batch that failed raised, where it ran in this process.
    failure: BaseException | None = None
    #: Told of each batch that is in the table, where that is in this process.
    tell: Tell | None = None
    #: Has a task done for each partition of a frame; gives what the tasks list.
    list_files: Callable[[DataFrame, FileTask], Iterable[tuple[str, str]]] = listed_by_spark

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Add a micro-batch's messages, unless the table has that batch.

        Raises:
            NewColumns: If bodies have fields that may not become columns.
            TooManyParts: If the partition column has too many values.
            NotShared: If tasks wrote where this process sees nothing of it.
            BatchConflict: If another process wrote the table at the same moment.
        """
        try:
            self._write(frame, batch)
        except BaseException as error:
            self.failure = error
            raise

    def _write(self, frame: DataFrame, batch: int) -> None:
        rows, bad_rows = self.table.rows, self.table.bad_rows
        last = rows.last_batch()
        if last is not None and batch <= last:
            log.info("batch left out table=%s batch=%d", self.table.directory, batch)
            return
        written = self._with_columns(frame, self._files(frame))
        count = sum(each.rows for each in written.rows)
        bad_count = sum(each.rows for each in written.bad_rows)
        leaps = self.table.note_batch(batch)
        notes = {"rocketpipe.rows": str(count), "rocketpipe.bad_rows": str(bad_count)}
        try:
            if written.bad_rows:
                bad_rows.commit(written.bad_rows, batch, notes)
            rows.commit(written.rows, batch, notes)
        except FileNotFoundError as error:
            raise NotShared(
                str(self.table.directory),
                "files that tasks wrote are not here: driver and executors have to see the same "
                "directory under this path",
            ) from error
        log.info(
            "batch written table=%s batch=%d rows=%d bad_rows=%d files=%d",
            self.table.directory,
            batch,
            count,
            bad_count,
            len(written.rows),
        )
        for queue, (ended, begins) in leaps.items():
            self._say_gap(queue, ended, begins)
        if self.tell is not None:
            self.tell({"batch": batch, "rows": count, "bad_rows": bad_count})
        self._look_after(batch)

    def _say_gap(self, queue: Queue, ended: int, begins: int) -> None:
        said = f"queue {queue.queue_id} of broker {queue.broker!r}"
        if begins > ended:
            said = f"messages {ended} to {begins - 1} of {said} are gone, and were left out"
        else:
            said += f" was made anew since it was read up to {ended}, and is read from {begins} on"
        if self.tell is not None:
            self.tell({"gap": said})
        else:
            log.warning("gap table=%s topic=%s: %s", self.table.directory, queue.topic, said)

    def _files(self, frame: DataFrame) -> FileList:
        task = FileTask(
            Decoding.of(self.table.spec),
            self.table.rows.rows_to,
            self.table.bad_rows.rows_to,
        )
        return FileList.read(self.list_files(frame, task))

    def _with_columns(self, frame: DataFrame, written: FileList) -> FileList:
        """What was written, by a table that has a column for every field that asks for one."""
        new = written.new_fields
        if not new:
            return written
        self.table.rows.discard(written.rows)
        self.table.bad_rows.discard(written.bad_rows)
        table = self.table
        names = ", ".join(f"{name} ({each.place})" for name, each in list(new.items())[:5])
        more = f" and {len(new) - 5} more" if len(new) > 5 else ""
        if table.spec.new_columns == "fail":
            raise NewColumns(
                str(table.directory),
                f"bodies have fields that are no column: {names}{more}; name them in --schema, or "
                "choose --new-columns add, quarantine or ignore",
            )
        there = len(TableColumns.of(table.spec).decoded)
        if there + len(new) > MOST_COLUMNS:
            raise NewColumns(
                str(table.directory),
                f"bodies have more than {MOST_COLUMNS} fields, so their names are rather values: "
                "choose --new-columns quarantine or ignore",
            )
        spec = widened(table.spec, {name: new[name].kind for name in _told_apart(new)})
        self.table = FollowedTable(table.directory, spec)
        self.table.note_columns()
        table.directory.write(spec)
        self.table.rows.prepare(self.table.schema)
        return self._with_columns(frame, self._files(frame))

    def _look_after(self, batch: int) -> None:
        every, keep_ms = self.table.spec.compact_every, self.table.spec.keep_ms
        ahead_ms = _CLOCK.ahead_ms()  # after each batch: what it wrote has a time by this clock
        if (batch + 1) % (every or _UPKEEP_EVERY):
            return
        if keep_ms:
            keep_ms += ahead_ms
        for sink in (self.table.rows, self.table.bad_rows):
            try:
                done = sink.upkeep(keep_ms=keep_ms, compact=every > 0)
            except Exception:
                log.warning("upkeep failed table=%s", self.table.directory, exc_info=True)
            else:
                log.info("upkeep done table=%s done=%s", self.table.directory, done)


def _told_apart(names: Iterable[str]) -> Iterable[str]:
    """Of names that differ by case alone one, as tables do not tell them apart.

    Rows that have another of them are bad, when the batch is written again.
    """
    kept: dict[str, str] = {}
    for name in sorted(names):
        kept.setdefault(name.lower(), name)
    return kept.values()
