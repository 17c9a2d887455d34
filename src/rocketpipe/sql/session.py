"""Statements run on Spark, with every topic a table by its name.

Nothing is made up front: Spark is asked, and names what it does not know; that alone becomes a
view, and Spark is asked again. Views go with the statement, so that each sees the cluster as it is.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.blocking import Admin
from rocketpipe.pipeline.columns.rows import SCHEMA
from rocketpipe.pipeline.failures import spark_errors
from rocketpipe.sql import inserting, statements
from rocketpipe.sql.bodies import TopicBodies
from rocketpipe.sql.catalogue import Catalogue
from rocketpipe.sql.errors import StatementFailed, told_by_spark
from rocketpipe.sql.rows import arrow_frame, rows_of
from rocketpipe.sql.system_tables import NAMES, NAMESPACE, SystemTables

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

_CASE_SETTING: Final = "spark.sql.caseSensitive"
_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"
#: What Spark says of ``rocketpipe.groups``: it takes it for a file to be read by the source.
_TAKEN_FOR_FILE: Final = "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"
#: Where Spark looks for a table that is to be changed, and not read.
_SPARKS_OWN: Final = ("spark_catalog", "default")
#: More names than these in one statement are not looked for.
_MOST_NAMES: Final = 500


@dataclass(slots=True)
class Result:
    """What a statement gave: rows, or a line that says what was done."""

    columns: Sequence[str] = ()
    rows: Iterable[dict[str, Any]] = ()
    #: Whether there are more rows than were asked for; known when all of these were taken.
    more: bool = False
    said: str | None = None


class SqlSession:
    """Runs statements, one after the other."""

    def __init__(
        self, spark: SparkSession, admin: Admin, name_server: str, catalogue: Catalogue
    ) -> None:
        self._spark = spark
        self._admin = admin
        self._name_server = name_server
        self._catalogue = catalogue
        self._system = SystemTables(spark, admin, self._read)
        # Spark would log as JSON what is told in a line.
        logging.getLogger("SQLQueryContextLogger").disabled = True

    @contextmanager
    def asked(self, statement: str, limit: int | None = None) -> Iterator[Result]:
        """Run one statement; its rows, no more than ``limit``, come as they are taken in the block.

        Raises:
            StatementFailed: If Spark refuses it, or it names what is not there.
            RocketPipeError: If a server does not answer.
        """
        self._catalogue.forget()
        statement = statement.strip()  # places that Spark names are counted from its first word
        listing = statements.listing(statement)
        if listing is not None:
            yield Result(["table", "kind"], self._catalogue.listed(listing))
            return
        try:
            with self._views() as views:
                yield self._result(statement, limit, views)
        except spark_errors() as error:
            raise told_by_spark(str(error), statement) from error

    def _result(self, statement: str, limit: int | None, views: _Views) -> Result:
        insert = statements.insert(statement)
        topic = self._target(insert)
        if insert is not None and topic is not None:
            if statements.overwritten(statement):
                raise StatementFailed("a topic is appended to: use INSERT INTO")
            return self._insert(insert, topic, views)
        inner = statements.explained(statement)
        if inner is not None:
            before = len(inner) - len(inner.lstrip())
            statement = statement[:before] + views.analysed(inner)[1][before:]
        result = _read(arrow_frame(views.analysed(statement)[0]), limit)
        return result if inner is None else self._explained(result, views.topics)

    def _target(self, insert: statements.Insert | None) -> str | None:
        if insert is None:
            return None
        *inside, name = insert.target
        if [each.lower() for each in inside] == [NAMESPACE] and name.lower() in NAMES:
            raise StatementFailed(
                f"{NAMESPACE}.{name} shows what the cluster tells, and nothing can be inserted"
            )
        if inside:
            return None
        topic = self._catalogue.topic(name)
        if topic is None and not self._spark.catalog.tableExists(statements.quoted(name)):
            raise self._catalogue.unknown(name)
        return topic

    def _insert(self, insert: statements.Insert, topic: str, views: _Views) -> Result:
        rows = views.analysed(insert.query)[0]
        bodies = self._catalogue.bodies(topic)
        frame = inserting.messages(rows, insert, bodies)
        how = bodies.encoding if bodies and inserting.has_fields(frame) else {}
        (
            frame.write.format("rocketpipe")
            .options(nameServer=self._name_server, topic=topic, txn=f"sql-{uuid.uuid4()}", **how)
            .mode("append")
            .save()
        )
        return Result(said=f"inserted into {topic}")

    def _explained(self, result: Result, topics: Sequence[str]) -> Result:
        """A plan, with what Spark has no place for in it: which topics, and how far they reach."""
        if not topics:
            return result
        lines = ["== Topics =="]
        for topic in topics:
            ends = self._admin.offsets.ends(topic)
            count = sum(each.end - each.least for each in ends.values())
            lines.append(f"{topic}: {count:,} messages in {len(ends)} queues")
            lines += [
                f"  {queue.broker_name} queue {queue.queue_id}: {each.least} to {each.end}"
                for queue, each in sorted(ends.items())
                if each.end > each.least
            ]
        (row,) = result.rows
        told = {name: "\n".join([str(plan).rstrip(), "", *lines]) for name, plan in row.items()}
        return Result(result.columns, [told])

    def _read(
        self, topics: list[str], columns: str | None, bodies: TopicBodies | None = None
    ) -> DataFrame:
        options = {"nameServer": self._name_server, "subscribe": ",".join(topics)}
        if columns is not None:
            options["columns"] = columns
        if bodies is not None:
            options |= bodies.options
        return self._spark.read.format("rocketpipe").options(**options).load()

    @contextmanager
    def _views(self) -> Iterator[_Views]:
        views = _Views(self._spark, self._catalogue, self._read, self._system)
        try:
            yield views
        finally:
            views.drop()


class _Views:
    """The views that one statement needs."""

    def __init__(
        self,
        spark: SparkSession,
        catalogue: Catalogue,
        read: Callable[..., DataFrame],
        system: SystemTables,
    ) -> None:
        self._spark = spark
        self._catalogue = catalogue
        self._read = read
        self._system = system
        self._made: dict[str, str] = {}
        #: The topics that a statement reads, in the order of its asking.
        self.topics: list[str] = []
        self._case_before: str | None = None

    def analysed(self, statement: str) -> tuple[DataFrame, str]:
        """What a statement gives, and its text with names that Spark knows, as long as before."""
        from pyspark.errors import AnalysisException

        try:
            return self._asked(statement, narrow=True)
        except AnalysisException:
            if not self._made:
                raise
        # It names a column that is not there: Spark is to tell which ones are.
        self.drop()
        return self._asked(statement, narrow=False)

    def drop(self) -> None:
        """Leave the session as it was."""
        for name in self._made:
            self._spark.catalog.dropTempView(name)
        self._made.clear()
        if self._case_before is not None:
            self._spark.conf.set(_CASE_SETTING, self._case_before)
            self._case_before = None

    def _asked(self, statement: str, *, narrow: bool) -> tuple[DataFrame, str]:
        from pyspark.errors import AnalysisException

        text = statement
        for _ in range(_MOST_NAMES):
            try:
                frame = self._spark.sql(text)
                _ = frame.schema  # a server of Spark Connect finds out now
            except AnalysisException as error:
                missing = _missing(error)
                if missing is None:
                    raise
                text = self._provided(missing, text, narrow=narrow)
            else:
                return frame, text
        raise StatementFailed(f"more than {_MOST_NAMES} tables are named")

    def _provided(self, missing: _Missing, text: str, *, narrow: bool) -> str:
        """Make what is missing; the text may name it otherwise from now on."""
        *inside, name = missing.parts
        if inside == list(_SPARKS_OWN) and self._catalogue.topic(name) is not None:
            raise StatementFailed(
                f"{name} is a topic, which can be read and inserted into: `rocketpipe topic` "
                "makes, changes and deletes them"
            )
        topic = None if inside else self._catalogue.topic(name)
        if topic is not None:
            view = name
            if self._catalogue.has_twin(topic):
                self._mind_case()
            frame = self._topic_frame(topic, text if narrow and not missing.in_view else None)
        elif name.lower() in NAMES and [each.lower() for each in inside] in ([], [NAMESPACE]):
            view = self._system_view(name)
            if inside:
                text = missing.renamed(text, view)
            frame = self._system.frame(name.lower(), self._catalogue.topics())
        else:
            raise self._catalogue.unknown(".".join(missing.parts))
        if view in self._made:
            raise StatementFailed(f"{'.'.join(missing.parts)} cannot be made a table here")
        frame.createOrReplaceTempView(statements.quoted(view))
        self._made[view] = topic or name
        if topic is not None and topic not in self.topics:
            self.topics.append(topic)
        return text

    def _topic_frame(self, topic: str, statement: str | None) -> DataFrame:
        bodies = self._catalogue.bodies(topic)
        known = list(SCHEMA.names)
        if bodies is not None:
            known += [*bodies.columns, "decode_error"]
        named = None if statement is None else statements.columns_named(statement, known)
        if named is None or any("," in name for name in named):
            return self._read([topic], None, bodies)
        return self._read([topic], ", ".join(named) or "queue_offset", bodies)

    def _system_view(self, name: str) -> str:
        """A view's name: the table's own, so that it qualifies columns, unless that is taken."""
        taken = self._catalogue.topic(name) or self._spark.catalog.tableExists(name)
        return f"{NAMESPACE}_{name}" if taken and name not in self._made else name

    def _mind_case(self) -> None:
        """Two topics of a cluster differ in nothing but case."""
        if self._case_before is None:
            self._case_before = self._spark.conf.get(_CASE_SETTING) or "false"
            self._spark.conf.set(_CASE_SETTING, "true")


@dataclass(frozen=True, slots=True)
class _Missing:
    """A name that Spark does not know, and where it stands."""

    parts: tuple[str, ...]
    fragment: str
    start: int
    in_view: bool

    def renamed(self, text: str, name: str) -> str:
        """The text with another name in its place, no longer and no shorter."""
        if self.in_view:
            raise StatementFailed(f"{'.'.join(self.parts)} cannot be read from inside a view")
        start = self.start
        if text[start : start + len(self.fragment)] != self.fragment:
            start = text.find(self.fragment)  # signs that Java counts as two stand before it
        end = start + len(self.fragment)
        return text[:start] + name.rjust(len(self.fragment)) + text[end:]


def _missing(error: PySparkException) -> _Missing | None:
    condition = error.getCondition()
    if condition not in (_NOT_FOUND, _TAKEN_FOR_FILE):
        return None
    context = next(iter(error.getQueryContext()), None)
    fragment = "" if context is None else context.fragment()
    said = (error.getMessageParameters() or {}).get("relationName", fragment)
    parts = statements.name_parts(said)
    if not parts:
        return None
    return _Missing(
        parts,
        fragment or said,
        0 if context is None else context.startIndex(),
        context is not None and context.objectType() == "VIEW",
    )


def _read(frame: DataFrame, limit: int | None) -> Result:
    """The rows of a frame, as they are taken."""
    result = Result(frame.columns)

    def taken() -> Iterator[dict[str, Any]]:
        for number, row in enumerate(rows_of(frame, limit)):
            if number == limit:
                result.more = True
                return
            yield row

    result.rows = taken()
    return result
