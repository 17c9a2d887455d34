"""Running a job: once, with what it found kept in its directory.

run("audit", to="out/audit", name_server="127.0.0.1:9876", topics=["orders"])
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.blocking import Admin
from rocketpipe.client.name_servers import NameServers
from rocketpipe.errors import ConfigError
from rocketpipe.jobs.catalogue import Job, job_named
from rocketpipe.jobs.context import JobContext
from rocketpipe.jobs.errors import JobFailed
from rocketpipe.jobs.folder import Ending, JobFolder, RunRecord, now
from rocketpipe.jobs.options import options_of
from rocketpipe.jobs.outcome import Outcome
from rocketpipe.pipeline.excuses import excuse
from rocketpipe.pipeline.open_offsets import check_offsets
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.session import SparkPlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("rocketpipe.jobs")

#: Where a cluster is asked for if nobody says so.
DEFAULT_NAME_SERVER: Final = "127.0.0.1:9876"
#: How often a job is tried whose Spark fails for a reason that passes.
MOST_ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run that came to its end: what it found, and what is kept of it."""

    outcome: Outcome
    record: RunRecord
    #: The directory of this run: its page, its record and its tables.
    kept: Path

    @property
    def ok(self) -> bool:
        """Whether nothing was found that somebody should look at."""
        return self.outcome.ok


def run(
    job: str,
    *,
    to: str | Path,
    name_server: str = DEFAULT_NAME_SERVER,
    spark: SparkSession | None = None,
    place: SparkPlace | None = None,
    stop: threading.Event | None = None,
    tell: Callable[[str], None] | None = None,
    watched: Callable[[SparkSession], AbstractContextManager[None]] | None = None,
    **given: Any,
) -> JobRun:
    """Run a job once; its tables, its page and a record of it are kept in ``to``.

    ``given`` are the fields of `JobOptions` that the job takes. It runs on ``spark``, or on one of
    its own at ``place``. What it finds does not raise: see ``JobRun.ok``.

    Raises:
        ConfigError: If there is no such job, or something it was told cannot be.
        UnknownTopic: If there is no such topic; the text names the nearest.
        NotAJobFolder: If another job, or something else, has its files there.
        JobRuns: If the job runs there already.
        JobFailed: If Spark cannot do what it is asked.
        RocketPipeError: If a server does not answer.
    """
    found = job_named(job)
    options = options_of(found.name, found.takes, given)
    found.check(options)
    try:
        servers = str(NameServers.parse(name_server))
    except ValueError as error:
        raise ConfigError("name server", str(error)) from error
    folder = JobFolder(to, found.name)
    folder.check()
    if found.asks_cluster:
        check_cluster(servers, options.topics)
    named_files = {"--store": options.store, "--ledger": options.ledger, "--config": options.config}
    for flag, named in named_files.items():
        if named is not None and not Path(named).exists():
            raise ConfigError(flag, f"{named} is not there: name a file or directory that is")
    if spark is None:
        (place or SparkPlace()).check_reachable()
    with folder.locked():
        context = JobContext(
            job=found.name,
            options=options,
            name_server=servers,
            data=folder.data,
            place=place or SparkPlace(),
            spark=spark,
            stop=stop or threading.Event(),
            tell=tell or (lambda said: None),
            watched=watched,
        )
        started, begun = now(), time.monotonic()
        try:
            outcome = _done(found, context)
        except BaseException as error:
            took = time.monotonic() - begun
            if context.stop.is_set() or not isinstance(error, Exception):
                folder.keep_failure(started, took, "it was stopped", "stopped")
            elif not isinstance(error, ConfigError):
                said = str(error).strip().split("\n")[0]
                folder.keep_failure(started, took, said, "failed")
            raise
        ending: Ending = "ok" if outcome.ok else "findings"
        kept, record = folder.keep(started, time.monotonic() - begun, outcome, ending)
    return JobRun(outcome, record, kept)


def _done(job: Job, context: JobContext) -> Outcome:
    """Have a job done, again if Spark failed for a reason that passes; each begins anew."""
    for attempt in count(1):
        try:
            return job.work(context)
        except JobFailed as error:
            why = excuse(str(error.__cause__))
            if why is None or attempt == MOST_ATTEMPTS or context.stop.is_set():
                raise
            log.warning("job done again job=%s reason=%s", job.name, why)
    raise AssertionError  # counting does not end


def check_cluster(name_server: str, topics: tuple[str, ...]) -> None:
    """See that a cluster answers, and has these topics, before anything is made.

    Raises:
        UnknownTopic: If there is no such topic; the text names the nearest.
        ConnectionLost: If no NameServer can be reached.
    """
    if topics:
        given = {"nameServer": name_server, "subscribe": ",".join(topics)}
        check_offsets(ReadOptions.parse(given))
        return
    with Admin(name_server) as admin:
        admin.topics.names()
