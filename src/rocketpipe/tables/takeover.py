"""The rows of a rebuild into a table that a catalogue or a database knows by its name.

    1  ``takeover.json`` says what the table is to be    from now on it will be, whoever dies
    2  rows, bad rows and what was replayed              each in one step of whoever keeps them,
                                                         with the number of the last batch
    3  checkpoint, spans and spec come over              so that the table is followed on
    4  the directory of the new table goes, then ``takeover.json``

A death before 1 changes nothing. After it the table is neither followed, verified nor replayed
until the next rebuild has gone through 2 to 4 again, which do nothing where they were done. Who
reads the table finds the old rows or the new, at every moment.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rocketpipe.errors import ConfigError
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.errors import NotATable
from rocketpipe.tables.sinks.database import TableName
from rocketpipe.tables.sinks.postgres import PostgresSink
from rocketpipe.tables.sinks.sink import LastingSink
from rocketpipe.tables.spec import TableSpec
from rocketpipe.tables.table import FollowedTable


@dataclass(frozen=True, slots=True)
class Takeover:
    """A table that gets what another one has, and becomes what ``spec`` says."""

    directory: TableDirectory
    new: Path
    spec: TableSpec

    @classmethod
    def read(cls, directory: TableDirectory, new: Path) -> Takeover | None:
        """The one that is under way, if one is.

        Raises:
            NotATable: If what was kept cannot be read.
        """
        try:
            spec = TableSpec.from_json(directory.takeover_path.read_text())
        except FileNotFoundError:
            return None
        except (ValueError, ConfigError) as error:
            raise NotATable(
                str(directory.takeover_path), f"is damaged ({error}): put it back"
            ) from error
        return cls(directory, new, spec)

    def begin(self) -> None:
        """Decide it, durably, and do it."""
        draft = self.directory.takeover_path.with_suffix(".draft")
        with draft.open("w") as file:
            file.write(self.spec.to_json())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.directory.takeover_path)
        self.finish()

    def finish(self) -> None:
        """Do what was decided, as far as it is not done."""
        there = TableDirectory(self.new)
        if there.has_spec:
            self._take_rows(FollowedTable.open(self.new))
            self._take_place(there)
        self.directory.write(self.spec)
        shutil.rmtree(self.new, ignore_errors=True)
        self.directory.takeover_path.unlink()

    def _take_rows(self, new: FollowedTable) -> None:
        old = FollowedTable.open(self.directory.root)
        pairs: list[tuple[Any, Any]] = [(old.rows, new.rows), (old.bad_rows, new.bad_rows)]
        if old.has_replayed:
            new.prepare_replayed()  # without rows, if none were to be carried over
            pairs.append((old.replayed, new.replayed))
        for mine, other in pairs:
            assert isinstance(mine, LastingSink)
            mine.take_over(other)
        drop(new)  # what was made of it in vain

    def _take_place(self, there: TableDirectory) -> None:
        if there.checkpoint.exists():
            shutil.rmtree(self.directory.checkpoint, ignore_errors=True)
            there.checkpoint.rename(self.directory.checkpoint)
        if there.spans_path.exists():
            there.spans_path.replace(self.directory.spans_path)


def provisional(spec: TableSpec) -> str | None:
    """The name of the table in which another is made anew, where it has to have one."""
    if spec.format != "postgres":
        return None
    assert spec.table is not None
    key = blake2b(f"{spec.id} {spec.table}".encode(), digest_size=6).hexdigest()
    return str(TableName.parse(spec.table).beside(f"rocketpipe_new_{key}"))


def drop(table: FollowedTable) -> None:
    """Have nothing left of a table of a provisional name that is beyond its directory."""
    for sink in (table.rows, table.bad_rows, table.replayed):
        if isinstance(sink, PostgresSink):
            sink.drop()
