"""Frames as messages: ``frame.write.format("rocketpipe")``, and ``writeStream`` too.

    driver   options and columns are checked, NameServers and topic are asked for
    tasks    Arrow batches are encoded by column and sent in large batches (``writer_task``)
    driver   once all tasks are through: commit

    delivery=direct   rows show as tasks send them, at least once: a task that is tried again, or a
                      batch that is run again, sends its rows again; all show by the commit
    delivery=staged   rows show with the commit, once (``writer_staged``)

Spark may build the writer of a stream anew for each commit, so what links tasks and commit is in
their messages: a fresh id for each attempt, and the ids of query and batch.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import pyspark.sql.datasource as spark_api
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from rocketpipe.client.producer.sending.backoff import Backoff
from rocketpipe.client.producer.staging.content import Content
from rocketpipe.client.producer.staging.stages import Batch
from rocketpipe.client.session import Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.columns.body_fields import BodyFields, as_sent
from rocketpipe.pipeline.columns.write_rows import arrow_batch, check_columns
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.options.write import DELIVERY, TXN, Delivery, WriteOptions
from rocketpipe.pipeline.telling import is_news, plainly
from rocketpipe.pipeline.writing.direct import DirectSink, shown
from rocketpipe.pipeline.writing.staged import StagedSink, application, commit, is_served
from rocketpipe.pipeline.writing.task import write_task

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

#: The driver asks for so long whether what is needed is there.
START_TIMEOUT_MS: Final = 5000
#: Spark makes the writer of a stream anew with each batch: a broker that is just then restarted
#: does not end the query.
PATIENCE_MS: Final = 15_000
#: How many rows become an Arrow batch where Spark hands them over one by one.
ROWS_A_BATCH: Final = 10_000

_StreamArrowBase = getattr(spark_api, "DataSourceStreamArrowWriter", DataSourceStreamWriter)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has sent, as its driver hears it."""

    #: New for each attempt, also of the same task; the stage that it wrote, if it did.
    attempt: str
    #: Of a stream: the same over restarts from one checkpoint.
    query: str | None
    batch: int | None
    rows: int
    sends: int
    #: Whom a commit is for; None where everything shows already.
    application: str | None = None
    #: Of each broker, how many parts of the stage it has.
    parts: tuple[tuple[str, int], ...] = ()
    #: And what they hold, as text.
    contents: tuple[tuple[str, str], ...] = ()
    #: Of a stream: another with each start.
    run: str | None = None
    #: Of what was sent directly: where each queue ends with it.
    ends: tuple[tuple[MessageQueue, int], ...] = ()


class AppendOnly(RocketPipeError):
    """A frame was to replace what a topic holds, which topics do not do."""

    def __init__(self, *, stream: bool = False) -> None:
        meant = (
            '.outputMode("append"), which an aggregation needs a watermark for, or foreachBatch'
            if stream
            else '.mode("append"), or a new topic; Spark speaks of "Overwrite" for every source'
        )
        super().__init__(f"a topic is only appended to: use {meant}")


class BatchWriter(DataSourceArrowWriter):
    """Sends one frame."""

    def __init__(
        self, options: WriteOptions, schema: StructType, fields: BodyFields | None = None
    ) -> None:
        self._options = options
        self._schema = schema
        self._fields = fields

    @plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of one task.

        Raises:
            BadRow: If a row is no message.
            RocketPipeError: If brokers do not take it within the options' time.
        """
        batches = _encoded(iterator, self._fields)
        return _write(batches, self._options, self._options.txn, _stream_ids())

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Show what was staged, once.

        Raises:
            RocketPipeError: If brokers do not answer, or lost a stage; the job can be run again.
        """
        _commit(messages, self._options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _aborted(messages, None)


class _StreamWriter:
    """What both writers of streams do."""

    def __init__(
        self, options: WriteOptions, schema: StructType, fields: BodyFields | None = None
    ) -> None:
        self._options = options
        self._schema = schema
        self._fields = fields

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Show what was staged, once; raises as ``BatchWriter.commit``."""
        _commit(messages, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        _aborted(messages, batchId)


class StreamArrowWriter(_StreamWriter, _StreamArrowBase):  # type: ignore[misc, valid-type]  # 4.0 has it not
    """Sends each micro-batch of a stream, as Arrow hands it over."""

    @plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of one task; raises as ``BatchWriter.write``."""
        return _write(_encoded(iterator, self._fields), self._options, None, _stream_ids())


class StreamRowWriter(_StreamWriter, DataSourceStreamWriter):
    """The same where Spark hands rows over one by one, as 4.0 does."""

    @plainly()
    def write(self, iterator: Iterator[Row]) -> Written:
        """Send the rows of one task; raises as ``BatchWriter.write``."""
        rows = _batches(iterator, self._schema)
        return _write(_encoded(rows, self._fields), self._options, None, _stream_ids())


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of ``frame.write``; what cannot work is found here, on the driver.

    Raises:
        AppendOnly: If it is to overwrite.
        OptionError: If an option is missing, unknown or wrong.
        BadColumn: If the frame's columns are not those of messages.
        NoRoute: If the topic is not there, and no broker would create it.
        ConnectionLost: If no NameServer can be reached.
    """
    return BatchWriter(*_checked(options, schema, overwrite, stream=False))


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> StreamRowWriter | StreamArrowWriter:
    """The writer of ``frame.writeStream``; raises as ``batch_writer``."""
    checked = _checked(options, schema, overwrite, stream=True)
    if hasattr(spark_api, "DataSourceStreamArrowWriter"):
        return StreamArrowWriter(*checked)
    return StreamRowWriter(*checked)


def _checked(
    options: Mapping[str, str], schema: StructType, overwrite: bool, *, stream: bool
) -> tuple[WriteOptions, StructType, BodyFields | None]:
    if overwrite:
        raise AppendOnly(stream=stream)
    parsed = WriteOptions.parse(options)
    fields = None
    if parsed.encoding is None:
        check_columns(schema, parsed.topic)
    else:
        check_columns(as_sent(schema), parsed.topic)
        fields = BodyFields.of(parsed.encoding, schema, parsed.topic)
    return _reached(parsed, stream=stream), schema, fields


def _reached(parsed: WriteOptions, *, stream: bool) -> WriteOptions:
    """The options with a delivery that the brokers serve."""
    if stream and parsed.txn is not None:
        raise OptionError(
            TXN, "is for frame.write: a stream is known by its checkpoint; leave it out"
        )
    unnamed = not stream and parsed.txn is None
    if parsed.delivery is Delivery.STAGED and unnamed:
        raise OptionError(TXN, 'is missing: .option("txn", "a name for this job") makes it once')
    served = asyncio.run(_reach(parsed, PATIENCE_MS if stream else 0))
    if parsed.delivery is Delivery.DIRECT:
        log.info("rows are sent at least once delivery=direct")
        return parsed
    if served and not unnamed:
        return replace(parsed, delivery=Delivery.STAGED)
    if parsed.delivery is Delivery.STAGED:
        raise OptionError(DELIVERY, "is staged, which these brokers do not serve: use direct")
    why = "option txn names no job" if served else "these brokers do not stage"
    log.log(
        logging.WARNING
        if is_news(f"direct-{'unnamed' if served else 'unserved'}")
        else logging.INFO,
        "rows are sent at least once, some may show twice delivery=direct reason=%s",
        why,
    )
    return replace(parsed, delivery=Delivery.DIRECT)


async def _reach(options: WriteOptions, patience_ms: int) -> bool:
    """Find the topic, or whatever NameServers have: better now than in every task."""
    async with options.access.session(options.name_servers, timeout_ms=START_TIMEOUT_MS) as session:
        patience = Backoff(session.clock, patience_ms)
        while True:
            try:
                return await _find(options, session)
            except RocketPipeError as error:
                await patience.after(error)


async def _find(options: WriteOptions, session: Session) -> bool:
    if options.topic is not None:
        await session.routes.get_for_send(options.topic)
    else:
        await session.routes.refresh(AUTO_CREATE_TOPIC)
    if options.delivery is Delivery.DIRECT:
        return False
    return await is_served(replace(options, timeout_ms=START_TIMEOUT_MS), session)


# In tasks


def _write(
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    name: str | None,
    stream: StreamIds,
) -> Written:
    attempt = str(uuid.uuid4())
    session = options.access.session(options.name_servers)
    query, batch = stream.query, stream.batch
    if options.delivery is not Delivery.STAGED:
        direct = DirectSink(session, options.group)
        sent = write_task(batches, options, session, direct)
        ends = tuple(direct.ends.items())
        return Written(attempt, query, batch, sent.rows, sent.sends, ends=ends)
    assert name is not None or query is not None, "whoever stages has a name"
    named = application(name, query, options.topic)
    way = StagedSink(session, options.group, Batch(named, batch or 0), attempt)
    sent = write_task(batches, options, session, way, staged=True)
    return Written(
        attempt,
        query,
        batch,
        sent.rows,
        sent.sends,
        named,
        tuple(way.parts.items()),
        tuple((broker, content.text()) for broker, content in sent.contents.items()),
        stream.run,
    )


class StreamIds(NamedTuple):
    """Of what stream a task is, if of one: that of ``writeStream``, or around ``foreachBatch``."""

    #: The same over restarts from one checkpoint.
    query: str | None = None
    batch: int | None = None
    #: Another with each start.
    run: str | None = None


def _stream_ids() -> StreamIds:
    """What Spark tells tasks of their stream."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if context is None or query is None or batch is None:
        return StreamIds()
    return StreamIds(query, int(batch), context.getLocalProperty("spark.jobGroup.id"))


def _batches(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    while some := list(islice(rows, ROWS_A_BATCH)):
        yield arrow_batch(some, schema)


def _encoded(
    batches: Iterator[pa.RecordBatch], fields: BodyFields | None
) -> Iterator[pa.RecordBatch]:
    """Batches with bodies, where these are made of columns."""
    if fields is None:
        yield from batches
        return
    rows = 0
    for batch in batches:
        yield fields.messages(batch, rows)
        rows += batch.num_rows


# On the driver again


def _commit(messages: Sequence[WriterCommitMessage | None], options: WriteOptions) -> None:
    written = [message for message in messages if isinstance(message, Written)]
    rows = sum(each.rows for each in written)
    first = next((each for each in written if each.application is not None), None)
    if first is None or first.application is None:
        ends: dict[MessageQueue, int] = {}
        for queue, end in (pair for each in written for pair in each.ends):
            ends[queue] = max(end, ends.get(queue, 0))
        if ends:
            asyncio.run(shown(options.name_servers, ends, access=options.access))
        log.info("written delivery=direct rows=%d", rows)
        return
    stages = [(each.attempt, dict(each.parts)) for each in written if each.parts]
    contents: dict[str, Content] = {}
    for each in written:
        for broker, text in each.contents:
            content = Content.of(text)
            assert content is not None, "the tasks wrote it"
            contents.setdefault(broker, Content()).join(content)
    batch = Batch(first.application, first.batch or 0)
    is_first = asyncio.run(commit(options, batch, stages, contents, first.run))
    log.info(
        "written delivery=staged application=%s batch=%d rows=%d repeated=%s",
        batch.application,
        batch.number,
        rows,
        not is_first,
    )


def _aborted(messages: Sequence[WriterCommitMessage | None], batch: int | None) -> None:
    written = [message for message in messages if isinstance(message, Written)]
    stay = sum(each.rows for each in written if each.application is None)
    which = "" if batch is None else f" batch={batch}"
    log.warning("aborted%s rows_that_show=%d", which, stay)
