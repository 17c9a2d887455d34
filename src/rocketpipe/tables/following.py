"""Following a topic: a streaming query that fills a table, until it is stopped or all is read.

    follow("orders", to="lake/orders", name_server="127.0.0.1:9876", decode="json",
           schema="city STRING, cents INT", once=True)

Whatever is wrong with what was asked shows before Spark starts, and nothing is written then. A
query that fails for a reason that passes (`rocketpipe.pipeline.excuses`) is started again from its
checkpoint.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rocketpipe.blocking import Admin
from rocketpipe.clock import SetClock
from rocketpipe.errors import ConfigError, RocketPipeError
from rocketpipe.pipeline.excuses import excuse
from rocketpipe.pipeline.failures import JVM_DIED, first_words, spark_errors
from rocketpipe.pipeline.figures import Figures
from rocketpipe.pipeline.listening import MetricsPort, QueryWatch
from rocketpipe.pipeline.open_offsets import check_offsets
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.planning.gaps import MessagesGone
from rocketpipe.pipeline.register import is_remote
from rocketpipe.pipeline.session import SparkPlace, opened
from rocketpipe.tables.batches import BatchWriter, Tell
from rocketpipe.tables.columns import TableColumns
from rocketpipe.tables.destination import SUFFIX, destination
from rocketpipe.tables.directory import TableDirectory, check_same
from rocketpipe.tables.errors import DatabaseAway
from rocketpipe.tables.schemas import with_schema
from rocketpipe.tables.spec import TableSpec, group_for
from rocketpipe.tables.table import FollowedTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ResultT = TypeVar("ResultT")
#: Shows what a Spark does, for the length of a block.
Watch = Callable[["SparkSession"], AbstractContextManager[None]]

log = logging.getLogger("rocketpipe.tables")

DEFAULT_NAME_SERVER: Final = "127.0.0.1:9876"
#: How much a task is handed at once: messages may have megabytes each.
_BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
#: Spark would refuse a place beside which a checkpoint with another spelling of it was left.
_ESCAPED_CHECK: Final = "spark.sql.streaming.checkpoint.escapedPathCheck.enabled"
_LOOK_AGAIN_S: Final = 0.2
_LOOKS_A_REPORT: Final = 10
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
#: What a table that is there can do about messages that are gone: it begins where it began.
_GONE_HINT: Final = "go on without them with --on-gap skip"
#: How often in a row a query that is to end is started again without coming further.
MOST_RESTARTS: Final = 8


class FollowFailed(RocketPipeError):
    """The query of a table failed, and not for a reason that passes."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason

    def __reduce__(self) -> tuple[type[FollowFailed], tuple[str, str]]:
        return type(self), (self.place, self.reason)


@dataclass(frozen=True, slots=True)
class FollowReport:
    """What a run has added to a table, and how often its query was started again."""

    rows: int
    bad_rows: int
    last_batch: int | None
    restarts: int


def follow(
    topic: str | None = None,
    *,
    to: str | Path,
    once: bool = False,
    state: str | Path | None = None,
    spark: SparkSession | None = None,
    place: SparkPlace | None = None,
    stop: threading.Event | None = None,
    tell: Tell | None = None,
    metrics_port: int | None = None,
    **asked: Any,
) -> FollowReport:
    """Fill a table with a topic's messages, each exactly once.

    ``to`` is a directory, or the address of a PostgreSQL, for which ``state`` is the directory of
    what belongs to the table (``./TABLE.follow``). ``asked`` are the fields of `TableSpec`, and for
    bodies in Avro or Protobuf ``schema_file``, or ``registry`` with ``subject``, and ``message``;
    for a table that is there, those that are left out are as they were. With ``once`` it ends when
    all that was there is read, otherwise when ``stop`` is set. It runs on ``spark``, or on one of
    its own at ``place``. With ``metrics_port`` Prometheus finds rows, batch times and lag there,
    and each batch is a line in the log (`rocketpipe.pipeline.watch_queries`); port 0 takes a free
    one, and ``tell`` is told it.

    Raises:
        ConfigError: If something that was asked for cannot be.
        UnknownTopic: If there is no such topic; the text names the nearest.
        NotATable: If the directory is something else.
        SpecMismatch: If the table there is another one.
        CheckpointMismatch: If table and checkpoint do not belong together.
        AlreadyFollowed: If another process follows it.
        DatabaseAway: If the database cannot be reached.
        DatabaseRefused: If it does not take what it is asked to.
        NewColumns: If bodies have fields that may not become columns.
        FollowFailed: If the query fails for another reason that does not pass.
        PortUnavailable: If the port for metrics is taken.
    """
    directory, asked = destination(to, topic, {"state": state, **asked})
    spec = asked_spec(directory, topic, asked)
    table = FollowedTable(directory, spec)
    assert table.schema is not None  # what is wrong with it shows here
    check_offsets(_source(spec))
    table.check()
    if not directory.has_spec and asked.get("group") is None and spec.group is not None:
        assert spec.name_server is not None
        group = own_group(spec.name_server, spec.group, spec.topic, directory.root)
        table = FollowedTable(directory, spec.with_changes(group=group))
        if group != spec.group and tell is not None:
            tell({"group": group, "taken": spec.group})
    if spark is None:
        (place or SparkPlace()).check_reachable()
    with _metrics(metrics_port, tell) as figures, directory.locked():
        table.check()  # again: who had the lock may have changed it
        before = _figures(table)
        table.prepare()
        table.checkpoint.clean()
        with (
            session_of(spark, place, "follow", lasting=not once) as session,
            QueryWatch(session, figures) if figures else nullcontext(),
        ):
            run = _Run(session, table, once=once, stop=stop or threading.Event(), tell=tell)
            run.run()
        after = _figures(table)
    return FollowReport(
        after[0] - before[0], after[1] - before[1], table.rows.last_batch(), run.restarts
    )


def own_group(name_server: str, wanted: str, topic: str, place: Path) -> str:
    """The group of a new table: the one that is wanted, unless somebody has read the topic as it.

    Directories of several tables may be called the same, and of two that tell one group each would
    undo what the other told. Where brokers cannot be asked, it is the one that is wanted.
    """
    try:
        with Admin(name_server) as admin:
            places = admin.offsets.known_of_group(wanted, topic).values()
    except RocketPipeError as error:
        log.info("group not looked up group=%s reason=%s", wanted, error)
        return wanted
    if all(each is None or each.committed is None for each in places):
        return wanted
    return f"{wanted}-{sha256(str(place).encode()).hexdigest()[:8]}"


def _source(spec: TableSpec) -> ReadOptions:
    """How the topic is read; what is wrong with a flag is told by the flag's name."""
    try:
        return ReadOptions.parse(spec.source_options())
    except OptionError as error:
        if error.option in ("startingTimestamp", "startingOffsets"):
            raise ConfigError("--from", error.reason) from error
        raise


def asked_spec(directory: TableDirectory, topic: str | None, asked: Mapping[str, Any]) -> TableSpec:
    """The spec of a table as it was, or is to be, with what is asked for now.

    Raises:
        ConfigError: If something that was asked for cannot be.
        NotATable: If the directory is something else.
        SpecMismatch: If the table there is another one.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    there = directory.read() if directory.has_spec else None
    given = with_schema(given, topic, there)
    unknown = given.keys() - TableSpec.__dataclass_fields__.keys() | (
        given.keys() & {"id", "added"}
    )
    if unknown:
        raise ConfigError("follow", f"{sorted(unknown)[0]!r} is not something that a table has")
    if given.get("store") is not None:
        given["store"] = str(Path(given["store"]).absolute())
        given.setdefault("name_server", None)
    elif "name_server" in given:
        given.setdefault("store", None)
    if topic is not None:
        given["topic"] = topic
    if there is not None:
        check_same(directory, there, given)
        return there.with_changes(**given)
    directory.check_free()
    if topic is None:
        raise ConfigError("topic", f"{directory} is no table yet: name the topic to follow")
    if given.get("store") is None:
        given.setdefault("name_server", DEFAULT_NAME_SERVER)
        given.setdefault("group", group_for(directory.root.name.removesuffix(SUFFIX)))
    return TableSpec(**given)


class _Run:
    """The query, and its restarts."""

    def __init__(
        self,
        spark: SparkSession,
        table: FollowedTable,
        *,
        once: bool,
        stop: threading.Event,
        tell: Tell | None,
    ) -> None:
        self._spark = spark
        self._table = table
        self._writer = BatchWriter(table, tell=None if is_remote(spark) else self._written)
        self._once = once
        self._stop = stop
        self._tell = tell
        self.restarts = 0
        self._fruitless = 0

    def run(self) -> None:
        while not self._stop.is_set():
            try:
                query = self._start()
            except spark_errors() as error:
                self._excuse(str(error))
                continue
            try:
                set_back = self._wait_for(query)
                failed = None if set_back or self._stop.is_set() else query.exception()
            except OSError as error:
                raise FollowFailed(str(self._table.directory), JVM_DIED) from error
            except spark_errors() as error:
                raise FollowFailed(str(self._table.directory), first_words(str(error))) from error
            finally:
                with suppress(OSError, *spark_errors()):  # it may be gone
                    query.stop()
            if set_back:
                self.restarts += 1
                self._say({"restarted": "the clock was set back"})
            elif failed is None:
                return
            else:
                self._excuse(str(failed))

    def _wait_for(self, query: StreamingQuery) -> bool:
        """Until it ends or is to; whoever looks on is told what it cannot read meanwhile.

        Gives whether it is to end because the clock was set back: Spark would wait with its next
        batch until it shows again what it did.
        """
        clock = SetClock()
        told: list[str] = []
        for look in count(1):
            if not self._once and clock.is_behind() and not query.status["isTriggerActive"]:
                return True
            is_over = not query.isActive or self._stop.wait(_LOOK_AGAIN_S)
            if is_over or look % _LOOKS_A_REPORT == 0:
                now = held_up_in(query.lastProgress)
                for said in now:
                    if said not in told:
                        self._say({"held_up": said})
                told = now
            if is_over:
                return False
        raise AssertionError  # counting does not end

    def _start(self) -> StreamingQuery:
        spec = self._writer.table.spec
        messages = (
            self._spark.readStream.format("rocketpipe")
            .schema(TableColumns.of(spec).read_schema)
            .options(**spec.source_options())
            .load()
        )
        writer = (
            messages.writeStream.queryName(f"table {self._table.directory.root.name}")
            .option("checkpointLocation", f"file://{self._table.checkpoint.place}")  # as it is
            .foreachBatch(self._writer)
        )
        every = {"processingTime": f"{spec.every_ms} milliseconds"}
        self._writer.failure = None
        with _set(self._spark, _BATCH_BYTES, "64m"), _set(self._spark, _ESCAPED_CHECK, "false"):
            return writer.trigger(**({"availableNow": True} if self._once else every)).start()

    def _written(self, what: Mapping[str, Any]) -> None:
        self._fruitless = 0
        if self._tell is not None:
            self._tell(what)

    def _say(self, what: Mapping[str, str]) -> None:
        if self._tell is not None:
            self._tell(what)
            return
        for name, said in what.items():
            log.warning("query %s table=%s: %s", name, self._table.directory, said)

    def _excuse(self, failure: str) -> None:
        """Pause and go on, if a failure is one of those that pass.

        Raises:
            FollowFailed: If it is not, or has come too often.
        """
        error = self._writer.failure
        if isinstance(error, RocketPipeError) and not error.retryable:
            raise error
        why = excuse(failure)
        if isinstance(error, DatabaseAway) or DatabaseAway.__name__ in failure:
            why = first_words(failure)  # it may be full, locked or silent as well
        if why is None or (self._once and self._fruitless >= MOST_RESTARTS):
            said = first_words(failure).replace(MessagesGone.hint, _GONE_HINT)
            raise FollowFailed(str(self._table.directory), said)
        pause_s = min(_FIRST_PAUSE_S * 2**self._fruitless, _LONGEST_PAUSE_S)
        self.restarts += 1
        self._fruitless += 1
        self._say({"restarted": why})
        self._stop.wait(pause_s)


def held_up_in(progress: Any) -> list[str]:
    """What a query says that it cannot read for now, in what Spark tells of its progress."""
    sources = progress["sources"] if progress is not None else []
    found: list[str] = []
    for source in sources:
        try:
            found += json.loads(source["latestOffset"])["held_up"]
        except (KeyError, TypeError, ValueError):
            continue  # nothing is, or a Spark that does not tell
    return found


def persistently(work: Callable[[], ResultT], failed: Callable[[str], Exception]) -> ResultT:
    """Do what may be done again, also after failures that pass; ``failed`` is raised for others."""
    for attempt in range(MOST_RESTARTS + 1):
        try:
            return work()
        except spark_errors() as error:
            said = str(error)
            why = excuse(said)
            if why is None or attempt == MOST_RESTARTS:
                raise failed(first_words(said)) from error
            log.warning("done again reason=%s", why)
            time.sleep(min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S))
    raise AssertionError


@contextmanager
def _set(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Have queries that start within the block be set so; a query keeps what it began with."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def _figures(table: FollowedTable) -> tuple[int, int]:
    return table.rows.figures()["rows"], table.bad_rows.figures()["rows"]


@contextmanager
def _metrics(port: int | None, tell: Tell | None) -> Iterator[Figures | None]:
    """Figures that a port tells, if there is one."""
    if port is None:
        yield None
        return
    figures = Figures()
    with MetricsPort(figures, port) as opened_port:
        if tell is not None:
            tell({"metrics": opened_port.address})
        yield figures


@contextmanager
def session_of(
    given: SparkSession | None,
    place: SparkPlace | None,
    verb: str,
    *,
    lasting: bool,
    watch: Watch | None = None,
) -> Iterator[SparkSession]:
    """The Spark that was given, or one for the length of the block."""
    name = f"rocketpipe table {verb}"
    with (
        opened(place, name=name, lasting=lasting) if given is None else nullcontext(given) as spark,
        nullcontext() if watch is None else watch(spark),
    ):
        yield spark
