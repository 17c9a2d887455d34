"""Spark's checkpoint of a table's query, as far as a table has to know it.

Spark writes ``offsets/N`` before batch N runs and ``commits/N`` when it has ended; the table has
its own last batch in its commits. Unless all three fit together, to go on would lose rows without
a word (a batch with a number that the table has is left out), or add them twice:

    commits  <=  table  <=  offsets

A checkpoint also says to which table it belongs, in a file of ours, ``table``.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketpipe.tables.errors import CheckpointMismatch

if TYPE_CHECKING:
    from rocketpipe.pipeline.planning.offsets import StreamOffset

_OWNER: Final = "table"
#: Drafts that are older than this were left by a Spark that died.
_LEFT_BEHIND_S: Final = 3600.0


class Checkpoint:
    """The checkpoint in a directory, which may not be there yet."""

    def __init__(self, place: Path) -> None:
        self.place = place

    @property
    def planned(self) -> int:
        """The last batch that was begun; -1 if none was."""
        return self._last("offsets")

    @property
    def done(self) -> int:
        """The last batch whose end Spark has seen; -1 if none was."""
        return self._last("commits")

    def offset(self, batch: int) -> StreamOffset | None:
        """Where a batch that was begun ends, if Spark still has it.

        Raises:
            UnreadableOffset: If it is another source's.
        """
        from rocketpipe.pipeline.planning.offsets import StreamOffset  # of pyspark

        try:
            lines = (self.place / "offsets" / str(batch)).read_text().splitlines()
        except FileNotFoundError:
            return None
        try:
            return StreamOffset.from_json(json.loads(lines[2]))
        except (IndexError, ValueError):
            return StreamOffset.from_json(None)

    def claim(self, table_id: str) -> None:
        """Say that it is this table's."""
        self.place.mkdir(parents=True, exist_ok=True)
        if self._owner() != table_id:
            draft = self.place / f"{_OWNER}.draft"
            draft.write_text(table_id)
            draft.replace(self.place / _OWNER)  # half a name would be another table's

    def check(self, root: str, table_id: str, last_batch: int | None) -> None:
        """See that it fits a table whose last batch is this one.

        Raises:
            CheckpointMismatch: If it does not; the text says how to go on.
        """
        if self.planned >= 0 and self._owner() != table_id:
            raise CheckpointMismatch(
                root,
                f"the checkpoint in {self.place} is another table's: put its own back, or make "
                "the table anew with `rocketpipe table rebuild`",
            )
        has = -1 if last_batch is None else last_batch
        if has > self.planned:
            raise CheckpointMismatch(
                root,
                f"the table has batch {has}, and its checkpoint ends at {self.planned}: the "
                "checkpoint was lost or is an older copy; put it back, or make the table anew "
                "with `rocketpipe table rebuild`",
            )
        if has < self.done:
            raise CheckpointMismatch(
                root,
                f"its checkpoint says that batch {self.done} is in the table, whose last one is "
                f"{has}: the table was lost or is an older copy; put it back, or make it anew "
                "with `rocketpipe table rebuild`",
            )

    def clean(self, now_s: float | None = None) -> int:
        """Remove what a Spark that died left half written; gives how many files."""
        before = (time.time() if now_s is None else now_s) - _LEFT_BEHIND_S
        left = [
            each
            for each in self.place.rglob(".*.tmp*")
            if each.is_file() and each.stat().st_mtime < before
        ]
        for each in left:
            each.unlink(missing_ok=True)
        return len(left)

    def remove(self) -> None:
        """Have the query begin anew."""
        shutil.rmtree(self.place, ignore_errors=True)

    def _owner(self) -> str | None:
        try:
            return (self.place / _OWNER).read_text()
        except FileNotFoundError:
            return None

    def _last(self, log: str) -> int:
        try:
            names = [each.name for each in (self.place / log).iterdir()]
        except FileNotFoundError:
            return -1
        return max((int(name) for name in names if name.isdigit()), default=-1)
