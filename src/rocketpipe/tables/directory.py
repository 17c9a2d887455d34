"""The directory of a table, and who may write it.

    lake/orders/                     what readers open: a Delta table, or files of Parquet
        _delta_log/, date=…/*.parquet
        _rocketpipe/                 ours; readers and vacuum pass over names with an underscore
            table.json               the spec (`rocketpipe.tables.spec`), replaced as a whole
            lock                     held while somebody writes the table; who that is
            checkpoint/              Spark's, and in ``table`` the id of the table it belongs to
            spans.json               what it took of its topic (`rocketpipe.tables.spans`)
            bad_rows/                a table of the messages that are no rows, of the same format
            catalog.db               Iceberg only: where the two tables are known by name
            replayed/                one of bad rows that were sent to the topic again
            replay.json              a replay that is under way (`rocketpipe.tables.replaying`)
            takeover.json            rows of a rebuild that are put in place (`…tables.takeover`)
            staging/                 Parquet only: files that are not part of the table yet

All of a table is in its directory, so it can be copied, moved, or swapped by one rename, while
nobody follows it; not so an Iceberg table, whose metadata has the whole paths of its files.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from rocketpipe.errors import ConfigError
from rocketpipe.tables.errors import AlreadyFollowed, NotATable, SpecMismatch
from rocketpipe.tables.spec import CHANGEABLE, TableSpec

OURS: Final = "_rocketpipe"
_SPEC: Final = "table.json"
_LOCK: Final = "lock"


class TableDirectory:
    """Where a table is, and where each part of it."""

    def __init__(self, place: str | Path) -> None:
        """Name a directory; nothing is read or made yet.

        Raises:
            ConfigError: If it is the address of something that is no directory of this machine.
        """
        text = str(place)
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
            raise ConfigError(
                "--to",
                f"{text} is no directory: tables are kept in one that driver and executors see "
                "under the same path",
            )
        self.root = Path(text).absolute()
        ours = self.root / OURS
        self.spec_path = ours / _SPEC
        self.checkpoint = ours / "checkpoint"
        self.spans_path = ours / "spans.json"
        self.bad_rows = ours / "bad_rows"
        self.catalogue = ours / "catalog.db"
        self.replayed = ours / "replayed"
        self.replay_path = ours / "replay.json"
        self.takeover_path = ours / "takeover.json"
        self.staging = ours / "staging"
        self._lock = ours / _LOCK

    def __str__(self) -> str:
        return str(self.root)

    def read(self) -> TableSpec:
        """The spec of the table that is there.

        Raises:
            NotATable: If none is.
        """
        try:
            return TableSpec.from_json(self.spec_path.read_text())
        except (FileNotFoundError, NotADirectoryError):
            what = "is no table that follows a topic" if self.root.exists() else "is not there"
            raise NotATable(
                str(self), f"{what}: `rocketpipe table follow TOPIC --to DIR` makes one"
            ) from None
        except (ValueError, ConfigError) as error:
            raise NotATable(
                str(self),
                f"{self.spec_path.relative_to(self.root)} is not readable ({error}): put it "
                "back from a backup, or follow the topic into another directory",
            ) from error

    @property
    def has_spec(self) -> bool:
        """Whether a table was begun here."""
        return self.spec_path.exists()

    def check_free(self) -> None:
        """See that a new table can be made here, or that one is here.

        Raises:
            NotATable: If something else is.
        """
        if self.has_spec:
            return
        if self.root.exists() and not self.root.is_dir():
            raise NotATable(str(self), "is a file, not a directory: choose another place")
        there = {each.name for each in self.root.iterdir()} if self.root.exists() else set()
        if "_delta_log" in there:
            raise NotATable(
                str(self), "is a Delta table that follows no topic: choose another directory"
            )
        if there - {OURS}:
            raise NotATable(
                str(self),
                f"has other things in it ({sorted(there - {OURS})[0]!r}): choose a directory that "
                "is empty, or not there yet",
            )

    def write(self, spec: TableSpec) -> None:
        """Keep a spec; whoever reads sees the old one or the new one, whole."""
        self.spec_path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.spec_path.with_suffix(".draft")
        with draft.open("w") as file:
            file.write(spec.to_json())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.spec_path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only one who writes the table, for the length of the block.

        Raises:
            AlreadyFollowed: If somebody else does.
        """
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise AlreadyFollowed(
                    str(self), f"is being written by {_who(self._lock)}: stop that first"
                ) from error
            if not _is_at(file, self._lock):
                raise AlreadyFollowed(str(self), "has just been made anew: try again")
            file.truncate(0)
            json.dump({"pid": os.getpid(), "host": socket.gethostname()}, file)
            file.flush()
            yield
            file.truncate(0)

    def writer(self) -> str | None:
        """Who writes the table now, if somebody does."""
        try:
            with self._lock.open() as file:  # whoever only looks may have nothing but the right to
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _who(self._lock)
        except OSError:
            return None
        return None


def check_same(directory: TableDirectory, there: TableSpec, wanted: Mapping[str, Any]) -> None:
    """Refuse what would make another table of the one that is there.

    Raises:
        SpecMismatch: If something that cannot be changed is other.
    """
    for name in wanted.keys() - CHANGEABLE - {"id"}:
        was, now = getattr(there, name), wanted[name]
        if was != now:
            raise SpecMismatch(
                str(directory),
                f"its {name.replace('_', ' ')} is {was!r}, not {now!r}, and cannot be changed: "
                "leave it as it was, or choose another directory",
            )


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _who(lock: Path) -> str:
    try:
        said = json.loads(lock.read_text())
        return f"process {said['pid']} on {said['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
