"""``rocketpipe job``: jobs that ship, run on Spark."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.cli.terminal import connecting, spark_place
from rocketpipe.cli.terminal.arguments import count, duration_ms
from rocketpipe.cli.terminal.printing import Printer, add_format_flags, on_one_line
from rocketpipe.cli.terminal.spark_progress import cancel, progress
from rocketpipe.cli.verbs import Verbs
from rocketpipe.errors import ConfigError, RocketPipeError
from rocketpipe.jobs.catalogue import JOBS, job_named
from rocketpipe.jobs.folder import REPORT, JobFolder, RunRecord, owner_of
from rocketpipe.jobs.options import OPTIONS
from rocketpipe.jobs.schedule import repeat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketpipe.jobs.running import JobRun

EXAMPLES: Final = """\
examples:
  rocketpipe job list
  rocketpipe job show archive
  rocketpipe job show archive --to lake/archive
  rocketpipe job run archive --topic orders --to lake/archive --every 1h
  rocketpipe job run audit --topic orders --ledger sent.jsonl --to reports/audit
  rocketpipe job run delivery --since 24h --to reports/delivery -o json
  rocketpipe job run dead-letters --to reports/letters
  rocketpipe job run skew --topic orders --to reports/skew
  rocketpipe job run store-check --store DIR --to reports/store
"""

#: So many rows of a table are printed; all of them are in its file.
_SHORT: Final = 20
_KINDS: Final[dict[str, Callable[[str], Any]]] = {"count": count, "duration": duration_ms}
_LEAST_EVERY_MS: Final = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    running = verbs.add_local("run", "run a job; 1 if it finds something to look at", _run)
    running.add_argument("job", metavar="NAME", help=", ".join(job.name for job in JOBS))
    running.add_argument(
        "--to",
        required=True,
        metavar="DIR",
        help="where its tables, its page and a record of each run are kept",
    )
    running.add_argument(
        "--every",
        dest="every_ms",
        type=duration_ms,
        metavar="TIME",
        help="again and again, this long from start to start, until Ctrl-C",
    )
    running.add_argument(
        "--fail-fast", action="store_true", help="with --every: end at the first run that fails"
    )
    own = running.add_argument_group("what a job is told; `job show NAME` says what it takes")
    for option in OPTIONS.values():
        how: dict[str, Any] = {"dest": option.name, "help": _help(option.name)}
        if option.kind == "switch":
            how |= {"action": "store_true", "default": None}
        else:
            how |= {"metavar": option.metavar, "choices": option.choices}
            how |= {"action": "append"} if option.kind == "many" else {}
            how |= {"type": _KINDS[option.kind]} if option.kind in _KINDS else {}
        own.add_argument(option.flag, **how)
    connecting.add_flags(running)
    spark_place.add_flags(running)

    listing = verbs.add_local("list", "the jobs there are", _list)
    add_format_flags(listing)

    show = verbs.add_local("show", "what a job takes, and its last runs in a directory", _show)
    show.add_argument("job", metavar="NAME", help=", ".join(job.name for job in JOBS))
    show.add_argument("--to", metavar="DIR", help="where it has run")
    add_format_flags(show)


def _help(name: str) -> str:
    takers = [job.name for job in JOBS if name in job.takes]
    return f"{', '.join(takers)}: {OPTIONS[name].help}"


def _run(options: argparse.Namespace) -> int:
    try:
        import pyspark  # noqa: F401 - only to see whether it is there
    except ImportError as error:
        raise ConfigError("job", "PySpark is not installed: install the extra spark") from error
    from rocketpipe.jobs.running import run

    if options.every_ms is not None and options.every_ms < _LEAST_EVERY_MS:
        raise ConfigError("--every", "is less than 1s: give a job time to run")
    if options.fail_fast and options.every_ms is None:
        raise ConfigError("--fail-fast", "is for jobs that run again: add --every TIME")
    job = job_named(options.job)
    place = spark_place.spark_place(options)
    name_server = connecting.name_servers(options.namesrv)
    given = {name: getattr(options, name) for name in OPTIONS}
    printer = Printer.of(options)

    with _stopped_by_signals() as (stop, came, working):

        @contextmanager
        def watched(spark: SparkSession) -> Iterator[None]:
            working.append(spark)
            with progress(spark):
                yield
            working.clear()

        def once() -> JobRun:
            return run(
                job.name,
                to=options.to,
                name_server=name_server,
                place=place,
                stop=stop,
                tell=_tell,
                watched=watched,
                **given,
            )

        try:
            if options.every_ms is None:
                return 0 if _shown(once(), printer) else 1

            def again() -> None:
                try:
                    _shown(once(), printer)
                except ConfigError:
                    raise
                except (RocketPipeError, OSError) as error:
                    if options.fail_fast:
                        raise
                    sys.stderr.write(f"rocketpipe job run: {on_one_line(str(error))}\n")

            repeat(again, options.every_ms / 1000, stop)
        except BaseException:
            # Whatever Spark says of being stopped is not what went wrong.
            if not came:
                raise
    return 128 + came[0]


@contextmanager
def _stopped_by_signals() -> Iterator[tuple[threading.Event, list[int], list[SparkSession]]]:
    """Have Ctrl-C, and SIGTERM, end what runs, in order: nothing is kept of it but that.

    Gives what tells of the end, the signals that came, and the sessions that are to be stopped.
    """
    stop = threading.Event()
    came: list[int] = []
    working: list[SparkSession] = []

    def heard(number: int, frame: object) -> None:
        came.append(number)
        stop.set()
        logging.disable()  # Spark's client would tell at length that it was cut short
        for spark in working:
            # This thread may be in the middle of talking to Spark.
            threading.Thread(target=cancel, args=(spark,), daemon=True).start()
        raise KeyboardInterrupt

    before = {each: signal.signal(each, heard) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop, came, working
    finally:
        logging.disable(logging.NOTSET)
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(said: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{said}\x1b[K")
        sys.stderr.flush()


def _shown(done: JobRun, printer: Printer) -> bool:
    _tell("")
    if printer.form == "json":
        printer.record(
            {
                **_facts(done.kept, done.record),
                "tables": {
                    name: [_plain(row) for row in table.to_pylist()]
                    for name, table in done.outcome.tables.items()
                },
            }
        )
        return done.ok
    printer.line(printer.styled(done.outcome.headline, "good" if done.ok else "bad"))
    for name, table in done.outcome.tables.items():
        if not table.num_rows:
            continue
        printer.line(f"\n{printer.styled(name.replace('_', ' '), 'head')}")
        rows = [_plain(row) for row in table.slice(0, _SHORT).to_pylist()]
        printer.rows(rows, table.column_names)
        if table.num_rows > _SHORT:
            printer.line(f"and {table.num_rows - _SHORT:,} more in {done.kept / name}.parquet")
    printer.line(f"\n{done.kept / REPORT}")
    sys.stdout.flush()
    return done.ok


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat(sep=" ", timespec="seconds")
        if hasattr(value, "tzinfo")
        else (value.isoformat() if hasattr(value, "isoformat") else value)
        for name, value in row.items()
    }


def _list(options: argparse.Namespace) -> int:
    rows = [{"job": job.name, "what": job.summary} for job in JOBS]
    Printer.of(options).rows(rows, ("job", "what"))
    return 0


def _show(options: argparse.Namespace) -> int:
    job = job_named(options.job)
    printer = Printer.of(options)
    runs: list[dict[str, Any]] = []
    if options.to is not None:
        folder = JobFolder(options.to, job.name)
        owner = owner_of(options.to)
        if owner != job.name:
            raise ConfigError(
                "--to", f"{options.to} is of job {owner}: `rocketpipe job show {owner} --to …`"
            )
        runs = [_facts(place, record) for place, record in folder.runs()[:_SHORT]]
    told = [
        {
            "option": " ".join(filter(None, (OPTIONS[name].flag, OPTIONS[name].metavar))),
            "needed": name in job.needs,
            "help": OPTIONS[name].help,
        }
        for name in job.takes
    ]
    if printer.form == "json":
        printer.record({"job": job.name, "what": job.summary, "options": told, "runs": runs})
        return 0
    printer.line(f"{printer.styled(job.name, 'head')}: {job.summary}\n")
    printer.rows(told, ("option", "needed", "help"))
    if options.to is not None:
        printer.line("")
        printer.rows(runs, ("started", "seconds", "ending", "said"), none="it has not run yet")
    return 0


def _facts(place: Path, record: RunRecord) -> dict[str, Any]:
    return {
        "job": record.job,
        "started": record.started,
        "seconds": record.seconds,
        "ending": record.ending,
        "said": record.said,
        "figures": record.figures,
        "kept": str(place),
    }
