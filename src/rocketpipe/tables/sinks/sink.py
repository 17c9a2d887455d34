"""What a table is to the query that fills it: somewhere that takes a batch once.

Each kind of table keeps the number of its last batch in whatever makes a batch part of it: a Delta
commit, a directory's name, a row of the same transaction. So whether it has a batch is asked first,
and a batch that comes again is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from rocketpipe.tables.files import RowsTo, WrittenFile
from rocketpipe.tables.stored import Stored, StoredPart


class BatchSink(Protocol):
    """A table whose rows tasks write to ``rows_to``, and the driver makes part of it.

    As text, it says where it is.
    """

    @property
    def rows_to(self) -> RowsTo:
        """Where tasks write."""

    def check_free(self) -> None:
        """See that nothing else is where a new table is to be, beyond its directory.

        Raises:
            NotATable: If something is.
        """

    def last_batch(self) -> int | None:
        """The number of the last batch that the table has; None before there is one."""

    def prepare(self, schema: pa.Schema) -> None:
        """Make the table if there is none, and give it the columns it does not have yet.

        Raises:
            SpecMismatch: If it has other columns.
        """

    def commit(
        self, files: Sequence[WrittenFile], batch: int, notes: Mapping[str, str] | None = None
    ) -> bool:
        """Make files part of the table in one step with the batch's number.

        Gives False, and removes the files, if the table has that batch.

        Raises:
            BatchConflict: If another process wrote at the same moment.
        """

    def discard(self, files: Sequence[WrittenFile]) -> None:
        """Remove what tasks wrote and the table shall not have."""

    def upkeep(self, *, keep_ms: int, compact: bool) -> Mapping[str, Any]:
        """Compact small files, and remove what no reader of the last ``keep_ms`` needs.

        ``keep_ms`` of 0 keeps everything. Gives what was done, for the log.
        """

    def figures(self) -> Mapping[str, Any]:
        """Rows, files and bytes."""

    def stored(self) -> Stored:
        """The rows that the table has now."""

    # Rows beside the batches, each set of them once by its name. What changes the table is called
    # again after a death, with the same files, of which some may be in their place.

    @property
    def mends_to(self) -> RowsTo:
        """Where tasks write such rows; they stay until they are in the table, whatever crashes."""

    def written(self, files: Sequence[WrittenFile]) -> Sequence[StoredPart]:
        """What tasks wrote there and the table does not have yet, to be read."""

    def has_named(self, name: str) -> bool:
        """Whether it has files that were added under a name, if only some of them."""

    def add_named(self, files: Sequence[WrittenFile], name: str) -> None:
        """Make files part of the table, unless it has those of that name."""

    def replace_named(self, files: Sequence[WrittenFile], name: str) -> None:
        """Have the rows of these files and no others, unless that was done by that name."""


@runtime_checkable
class LastingSink(Protocol):
    """A table that is known by its name beyond its directory, and so is not exchanged for another.

    It gets the rows of the other one instead.
    """

    def take_over(self, new: Any) -> None:
        """Have the rows of another table of the kind, and its batches' number, in one step.

        Nothing is done where the table has that one's already.
        """
