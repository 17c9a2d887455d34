"""The jobs there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Final

from rocketpipe.errors import ConfigError
from rocketpipe.jobs.options import OPTIONS, JobOptions

if TYPE_CHECKING:
    from rocketpipe.jobs.context import JobContext
    from rocketpipe.jobs.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: what it is good for, and what it takes."""

    name: str
    summary: str
    #: Fields of `JobOptions`.
    takes: tuple[str, ...]
    needs: tuple[str, ...] = ()
    #: Whether it asks a cluster, and not a directory.
    asks_cluster: bool = True

    def check(self, options: JobOptions) -> None:
        """See that it has what it cannot do without.

        Raises:
            ConfigError: If something is missing.
        """
        for name in self.needs:
            if not getattr(options, name):
                option = OPTIONS[name]
                raise ConfigError(
                    option.flag, f"is missing: job {self.name} needs {option.flag} {option.metavar}"
                )

    @property
    def work(self) -> Callable[[JobContext], Outcome]:
        """What does it."""
        module = import_module(f"rocketpipe.jobs.{self.name.replace('-', '_')}")
        work: Callable[[JobContext], Outcome] = module.work
        return work


JOBS: Final = (
    Job(
        name="archive",
        summary="topics into tables of Delta or Parquet by day, each message once, and verified",
        takes=("topics", "format", "start", "on_gap"),
        needs=("topics",),
    ),
    Job(
        name="audit",
        summary="every acknowledged message is there once, in order; by a ledger if there is one",
        takes=("topics", "ledger"),
        needs=("topics",),
    ),
    Job(
        name="dead-letters",
        summary="what groups have given up, by kind of error, with samples and over time",
        takes=("groups", "since_ms"),
    ),
    Job(
        name="delivery",
        summary="from the trace topic: latency by topic, group and broker, retries, duplicates",
        takes=("topics", "groups", "since_ms", "trace_topic"),
    ),
    Job(
        name="skew",
        summary="queues and keys that have more than others, groups that are slow, and until when",
        takes=("topics", "groups", "measure_ms", "sample"),
    ),
    Job(
        name="store-check",
        summary="a store's log, queues and index looked through, one task a segment",
        takes=("store", "rebuild", "config"),
        needs=("store",),
        asks_cluster=False,
    ),
)


def job_named(name: str) -> Job:
    """The job of this name.

    Raises:
        ConfigError: If there is none; the text names the nearest.
    """
    jobs = {job.name: job for job in JOBS}
    found = jobs.get(name.replace("_", "-"))
    if found is None:
        near = get_close_matches(name, jobs, 1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(jobs)}"
        raise ConfigError("job", f"there is no job {name!r}: {meant}")
    return found
