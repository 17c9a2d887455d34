"""Jobs that ship: see docs/how-to/jobs.md.

The command loads parts of this package without Spark or Arrow, so what is exported is loaded when
it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpipe.jobs.errors import JobError, JobFailed, JobRuns, NotAJobFolder
    from rocketpipe.jobs.folder import RunRecord
    from rocketpipe.jobs.options import JobOptions
    from rocketpipe.jobs.outcome import Outcome
    from rocketpipe.jobs.running import JobRun, run

__all__ = [
    "JobError",
    "JobFailed",
    "JobOptions",
    "JobRun",
    "JobRuns",
    "NotAJobFolder",
    "Outcome",
    "RunRecord",
    "run",
]

_HOME = {
    "JobError": "errors",
    "JobFailed": "errors",
    "JobOptions": "options",
    "JobRun": "running",
    "JobRuns": "errors",
    "NotAJobFolder": "errors",
    "Outcome": "outcome",
    "RunRecord": "folder",
    "run": "running",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'rocketpipe.jobs' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"rocketpipe.jobs.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
