"""The directory that a job writes to, and what its runs left there.

    out/
        job.json                    {"v": 1, "job": "audit"}
        lock                        held while a run goes on; who that is
        report.html                 the page of the last run that came to its end
        runs/20260501T120000.123Z/  a run: run.json, report.html, and a file for each table
        data/                       what a job keeps between runs, if it does

A run is put together under a hidden name and renamed: it is there as a whole, or not at all.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from rocketpipe.errors import ConfigError
from rocketpipe.jobs.errors import JobRuns, NotAJobFolder
from rocketpipe.jobs.page import page

if TYPE_CHECKING:
    from rocketpipe.jobs.outcome import Outcome

VERSION: Final = 1
#: So many runs are kept; the oldest go first.
KEPT_RUNS: Final = 100
REPORT: Final = "report.html"

_RECORD: Final = "run.json"
_DRAFT: Final = ".draft-"
_NAMED: Final = "%Y%m%dT%H%M%S.%fZ"
_PLACE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")

Ending = Literal["ok", "findings", "failed", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What is kept of a run."""

    job: str
    #: ISO 8601, UTC.
    started: str
    seconds: float
    ending: Ending
    #: What was found in a sentence, or why it failed.
    said: str
    figures: dict[str, Any] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)


class JobFolder:
    """A directory for one job."""

    def __init__(self, place: str | Path, job: str) -> None:
        """Name a directory; nothing is read or made yet.

        Raises:
            ConfigError: If it is the address of something that is no directory of this machine.
        """
        if _PLACE.match(str(place)):
            raise ConfigError("--to", f"{place} is no directory: name one of this machine")
        self.root = Path(place).absolute()
        self.job = job
        self.data = self.root / "data"
        self.report = self.root / REPORT
        self._mark = self.root / "job.json"
        self._lock = self.root / "lock"
        self._runs = self.root / "runs"

    def check(self) -> None:
        """See that the job may write here.

        Raises:
            NotAJobFolder: If another job, or something else, has its files here.
        """
        if self.root.exists() and not self.root.is_dir():
            raise NotAJobFolder(str(self.root), "is a file, not a directory: choose another place")
        if not self._mark.exists():
            there = {each.name for each in self.root.iterdir()} if self.root.exists() else set()
            if there - {self._lock.name}:
                raise NotAJobFolder(
                    str(self.root),
                    f"has other things in it ({min(there)!r}): choose a directory that is empty, "
                    "or not there yet",
                )
            return
        owner = owner_of(self.root)
        if owner != self.job:
            raise NotAJobFolder(
                str(self.root), f"belongs to job {owner}, not {self.job}: choose another directory"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only run of the job here, for the length of the block.

        Raises:
            JobRuns: If there is another.
            NotAJobFolder: If another job, or something else, has its files here.
        """
        self.check()
        self.root.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise JobRuns(
                    str(self.root),
                    f"job {self.job} runs here already ({_who(self._lock)}): wait for it, or "
                    "choose another directory",
                ) from error
            file.truncate(0)
            json.dump({"pid": os.getpid(), "host": socket.gethostname()}, file)
            file.flush()
            _write(self._mark, json.dumps({"v": VERSION, "job": self.job}) + "\n")
            for left in self._runs.glob(f"{_DRAFT}*"):
                shutil.rmtree(left, ignore_errors=True)
            yield
            file.truncate(0)

    def keep(
        self, started: datetime, seconds: float, outcome: Outcome, ending: Ending
    ) -> tuple[Path, RunRecord]:
        """Keep what a run found: its record, its tables and its page, in the directory it gives."""
        import pyarrow.parquet as pq

        name, draft = self._draft(started)
        for table, rows in outcome.tables.items():
            pq.write_table(rows, draft / f"{table}.parquet", compression="snappy")
        text = page(self.job, started, seconds, outcome)
        (draft / REPORT).write_text(text, encoding="utf-8")
        record = RunRecord(
            job=self.job,
            started=_iso(started),
            seconds=round(seconds, 3),
            ending=ending,
            said=outcome.headline,
            figures=dict(outcome.figures),
            tables=list(outcome.tables),
        )
        kept = self._finish(draft, name, record)
        _write(self.report, text)
        return kept, record

    def keep_failure(
        self, started: datetime, seconds: float, said: str, ending: Ending
    ) -> RunRecord:
        """Keep why a run came to no end."""
        name, draft = self._draft(started)
        record = RunRecord(
            job=self.job,
            started=_iso(started),
            seconds=round(seconds, 3),
            ending=ending,
            said=said,
        )
        self._finish(draft, name, record)
        return record

    def runs(self) -> list[tuple[Path, RunRecord]]:
        """The runs that are kept, the last first, each with its directory."""
        found = []
        for place in sorted(self._places(), reverse=True):
            try:
                found.append((place, RunRecord(**json.loads((place / _RECORD).read_text()))))
            except (OSError, ValueError, TypeError):
                continue  # it is being removed, or of another version
        return found

    def _places(self) -> list[Path]:
        if not self._runs.is_dir():
            return []
        return [each for each in self._runs.iterdir() if _is_name(each.name)]

    def _draft(self, started: datetime) -> tuple[str, Path]:
        name = _name(started)
        newest = max((each.name for each in self._places()), default="")
        if newest >= name:  # the clock was set back, and the oldest names are the first to go
            name = _name(datetime.strptime(newest, _NAMED) + timedelta(milliseconds=1))
        draft = self._runs / f"{_DRAFT}{name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        return name, draft

    def _finish(self, draft: Path, name: str, record: RunRecord) -> Path:
        _write(draft / _RECORD, json.dumps(asdict(record), indent=2, default=str) + "\n")
        kept = draft.rename(self._runs / name)
        for old in sorted(self._places())[:-KEPT_RUNS]:
            shutil.rmtree(old, ignore_errors=True)
        return kept


def owner_of(place: str | Path) -> str:
    """The job that has its files in a directory.

    Raises:
        NotAJobFolder: If none has.
    """
    root = Path(place)
    try:
        found = json.loads((root / "job.json").read_text())
        if found["v"] != VERSION:
            raise ValueError(f"it is of version {found['v']}")
        return str(found["job"])
    except FileNotFoundError:
        raise NotAJobFolder(
            str(root), "is no directory of a job: `rocketpipe job run NAME --to DIR` makes one"
        ) from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise NotAJobFolder(str(root), f"job.json is not readable: {error}") from error


def now() -> datetime:
    """This moment."""
    return datetime.now(UTC)


def _name(moment: datetime) -> str:
    return moment.strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"


def _is_name(text: str) -> bool:
    try:
        return _name(datetime.strptime(text, _NAMED)) == text
    except ValueError:
        return False


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole."""
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _who(lock: Path) -> str:
    try:
        said = json.loads(lock.read_text())
        return f"process {said['pid']} on {said['host']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "another process"
