"""A topic as an Arrow dataset: what it held when it was looked at, read as often as is asked.

`scan` looks once: it finds the queues, and how far they reach. Every read after that gives the same
messages, none that came later, those of a queue in their order; so an engine may read twice, or a
query join a topic with itself. What retention removes meanwhile is missed loudly. `refreshed` looks
again.

A read holds what it decodes, 16 MiB of records or one longer one, the columns made of it, and the
few batches that are on their way to whoever asked: not more for a longer topic.

DuckDB hands columns and conditions down to datasets of Arrow's, and to nothing else. So this is
one, though nothing of the base is used: each of its methods is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from rocketpipe.arrow.arguments import Place, Request, Some, in_python, request
from rocketpipe.arrow.conditions import columns_of, narrowed
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.pipeline.columns.rows import ERROR_COLUMN, SCHEMA, check_columns, schema_of
from rocketpipe.pipeline.log.places import asks_places_only
from rocketpipe.pipeline.log.reading import READ_BYTES
from rocketpipe.pipeline.open_offsets import open_offsets
from rocketpipe.pipeline.options.decoding import Decode
from rocketpipe.pipeline.options.read import DEFAULT_BATCH_ROWS, OnBadMessage, ReadOptions
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.pipeline.planning.gaps import OnGap
from rocketpipe.pipeline.planning.offset_reader import OffsetReader
from rocketpipe.pipeline.planning.ranges import QueueRange, ReadPartition, abreast
from rocketpipe.pipeline.present import in_time, present_ranges
from rocketpipe.pipeline.reading import read_part
from rocketpipe.remoting.tls_settings import TlsSettings

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

#: So much is aimed at for a turn, of what is read at once.
_TURN_BYTES: Final = READ_BYTES * 3 // 4
#: Of so many messages of so many queues it is looked how long they are.
_SAMPLED: Final = 100
#: Parts of queues that are planned at once.
_AT_ONCE: Final = 10_000
#: Batches that Arrow's scanner has in hand beside the one that is asked for.
_AHEAD: Final = 1


def scan(
    topic: Some,
    *,
    name_servers: str | None = None,
    log: str | PathLike[str] | None = None,
    broker_name: str | None = None,
    start: Place = "first",
    end: Place = "last",
    tags: Some | None = None,
    keys: Some | None = None,
    columns: Some | None = None,
    decode: Decode | None = None,
    schema: str | pa.Schema | None = None,
    schema_file: str | PathLike[str] | None = None,
    schema_registry: str | None = None,
    schema_subject: str | None = None,
    message_name: str | None = None,
    time_zone: str | None = None,
    on_gap: OnGap = "fail",
    on_bad_message: OnBadMessage = "fail",
    quarantine: str | PathLike[str] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    tls: bool | TlsSettings | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
    secret_key_file: str | PathLike[str] | None = None,
) -> TopicScan:
    """Look at a topic, or at several, through the brokers or in a directory of theirs.

    ``name_servers`` is host:port, several with ';' between; else what the environment says
    (``ROCKETPIPE_NAMESRV``), as for every client; so are ``tls``, ``access_key`` and its secret.
    ``log`` is instead the directory of a store, whose broker may run or not.

    ``start`` and ``end`` are "first", "last", a datetime with a zone, or offsets by topic, broker
    and queue, ``{"orders": {"broker-a": {0: 42}}}``; the end itself is not read. ``tags`` are a
    list, or as RocketMQ writes them, "a || b".

    ``decode`` says what bodies hold: "json", with ``schema`` as SQL writes it ("city STRING, cents
    INT") or as Arrow has it; "text"; "avro" or "protobuf", with ``schema_file`` or
    ``schema_registry``. A body that cannot be decoded has NULL there, and a ``decode_error``.

    Raises:
        OptionError: If an argument is missing or wrong.
        UnknownTopic: If there is no such topic.
        LogNotFound: If the directory is no store that can be read here.
        ColumnError: If a column is asked for that there is not.
        MessagesGone: If messages were asked for that have aged out, and ``on_gap`` is fail.
        QueuesUnreachable: If one of the brokers cannot be asked.
        ConnectionLost: If no NameServer can be reached.
        BodySchemaError: If the schema of bodies is not there, or none.
    """
    asked = request(
        topic,
        start=start,
        end=end,
        tags=tags,
        schema=schema,
        tls=tls,
        name_servers=name_servers,
        log=log,
        broker_name=broker_name,
        keys=keys,
        columns=columns,
        decode=decode,
        schema_file=schema_file,
        schema_registry=schema_registry,
        schema_subject=schema_subject,
        message_name=message_name,
        time_zone=time_zone,
        on_gap=on_gap,
        on_bad_message=on_bad_message,
        quarantine=quarantine,
        batch_rows=batch_rows,
        access_key=access_key,
        secret_key=secret_key,
        secret_key_file=secret_key_file,
    )
    return TopicScan(asked)


class TopicScan(ds.Dataset):  # type: ignore[misc]
    """What topics hold, as `scan` found it. DuckDB finds it by the name of its variable."""

    def __init__(self, asked: Request) -> None:
        """Look at the topics; raises what `scan` does."""
        self._asked = asked
        with in_python():
            self._schema = schema_of(asked.options)
            check_columns(self._schema, asked.options)
            with closing(open_offsets(asked.options)) as places:
                self._ranges = tuple(present_ranges(places, asked.options, asked.wanted))
                self._addresses: Mapping[str, str] = dict(places.addresses())
                #: In one turn of the queues, where the log is read.
                self._turn_rows = _turn_rows(places, self._ranges, asked.options)

    @property
    def schema(self) -> pa.Schema:
        """The columns of every row."""
        return self._schema

    def refreshed(self) -> TopicScan:
        """The same request, with what the topics hold by now; raises what `scan` does."""
        return TopicScan(self._asked)

    def count(self) -> int:
        """How many rows there are: told by the offsets, unless it takes a look at messages.

        Raises:
            MessagesGone: If such a look finds that some are no more, and ``on_gap`` is fail.
        """
        options, wanted = self._asked.options, self._asked.wanted
        is_all = wanted.tags is None and wanted.keys is None
        if is_all and options.on_gap == "fail" and options.on_bad_message in ("fail", "null"):
            return sum(each.count for each in self._ranges)
        # Whether a body can be read counts too, where those that cannot are left out.
        least = self._schema if options.on_bad_message in ("skip", "quarantine") else _PLACE
        return sum(batch.num_rows for batch in self._batches(least, wanted, self._ranges))

    def to_reader(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """A new read from the start, a batch at a time; close it to end it early."""
        schema = self._chosen(columns)
        batches = self._batches(schema, self._asked.wanted, self._ranges)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self, **arguments: Any) -> pd.DataFrame:
        """All rows, for pandas; ``arguments`` are those of ``pyarrow.Table.to_pandas``."""
        return self.to_table().to_pandas(**arguments)

    def to_polars(self) -> pl.DataFrame:
        """All rows, for Polars; `lazy` reads only what a query needs."""
        return self.lazy().collect()

    def lazy(self) -> pl.LazyFrame:
        """The rows for a query of Polars', which reads the columns and queues that it needs."""
        from rocketpipe.arrow.polars_source import lazy_frame

        return lazy_frame(self._schema, self._asked.wanted, self._narrowed)

    # What Arrow's datasets have, for those who are given one

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - Arrow's name
        **arguments: Any,
    ) -> ds.Scanner:
        """A read of some columns, and of rows that fulfil a condition: what DuckDB asks for."""
        wanted, ranges = self._asked.wanted, list(self._ranges)
        needed = self._schema
        if columns is not None:
            names = set(columns) if not isinstance(columns, Mapping) else set()
            for each in columns.values() if isinstance(columns, Mapping) else ():
                names.update(columns_of(each, self._schema))
            if filter is not None:
                names.update(columns_of(filter, self._schema))
            needed = self._chosen([name for name in self._schema.names if name in names])
        if filter is not None:
            wanted, ranges = narrowed(wanted, filter, self._schema, ranges)
        taken = {name: arguments[name] for name in ("batch_size", "use_threads", "memory_pool")
                 if name in arguments}  # fmt: skip
        return ds.Scanner.from_batches(
            self._batches(needed, wanted, ranges),
            schema=needed,
            columns=columns,
            filter=filter,
            batch_readahead=_AHEAD,
            fragment_readahead=_AHEAD,
            **taken,
        )

    def to_batches(self, **arguments: Any) -> Iterator[pa.RecordBatch]:
        """A new read, of batches; ``arguments`` are those of `scanner`."""
        if not arguments:
            return self._batches(self._schema, self._asked.wanted, self._ranges)
        batches: Iterator[pa.RecordBatch] = self.scanner(**arguments).to_batches()
        return batches

    def to_table(self, **arguments: Any) -> pa.Table:
        """All rows at once; ``arguments`` are those of `scanner`."""
        if arguments:
            return self.scanner(**arguments).to_table()
        return pa.Table.from_batches(self.to_batches(), self._schema)

    def head(self, num_rows: int, **arguments: Any) -> pa.Table:
        """The first rows; ``arguments`` are those of `scanner`."""
        found: list[pa.RecordBatch] = []
        left = num_rows
        with closing(self.scanner(**arguments).to_reader()) as reader:
            while left > 0 and (batch := next(reader, None)) is not None:
                found.append(batch.slice(0, left))
                left -= found[-1].num_rows
            return pa.Table.from_batches(found, reader.schema)

    def count_rows(self, filter: pc.Expression | None = None, **_: Any) -> int:  # noqa: A002
        """How many rows fulfil a condition; without one, `count`."""
        if filter is None:
            return self.count()
        return int(self.scanner(columns=[], filter=filter).count_rows())

    @property
    def partition_expression(self) -> pc.Expression:
        """What is true of all rows: nothing in particular."""
        return pc.scalar(True)

    def filter(self, *_: Any) -> NoReturn:
        """Not there: give a condition to `scanner` or `to_table`."""
        self._lacks("filter")

    def get_fragments(self, *_: Any, **__: Any) -> NoReturn:
        """Not there: a topic has no files of its own."""
        self._lacks("get_fragments")

    def join(self, *_: Any, **__: Any) -> NoReturn:
        """Not there: DuckDB, Polars and ``to_table()`` join."""
        self._lacks("join")

    def join_asof(self, *_: Any, **__: Any) -> NoReturn:
        """Not there: DuckDB, Polars and ``to_table()`` join."""
        self._lacks("join_asof")

    def replace_schema(self, *_: Any) -> NoReturn:
        """Not there: give `scan` another one."""
        self._lacks("replace_schema")

    def sort_by(self, *_: Any, **__: Any) -> NoReturn:
        """Not there: DuckDB, Polars and ``to_table()`` sort."""
        self._lacks("sort_by")

    def take(self, *_: Any, **__: Any) -> NoReturn:
        """Not there: rows have no numbers."""
        self._lacks("take")

    def __reduce__(self) -> NoReturn:
        self._lacks("copy for another process")

    def __repr__(self) -> str:
        options = self._asked.options
        where = f"log={str(options.path)!r}" if options.path else f"{options.name_servers!r}"
        topics = ", ".join(sorted({each.queue.topic for each in self._ranges})) or ", ".join(
            options.selection.topics
        )
        count = sum(each.count for each in self._ranges)
        conditions = self._asked.wanted.text()
        return (
            f"<TopicScan of {topics} in {where}: {len(self._ranges)} queues, {count} messages"
            f"{f', of them {conditions}' if conditions else ''}; {', '.join(self._schema.names)}>"
        )

    __str__ = __repr__

    def _lacks(self, what: str) -> NoReturn:
        raise NotImplementedError(f"a topic has no {what}: take to_table() first, or a query")

    def _chosen(self, columns: Sequence[str] | None) -> pa.Schema:
        if columns is None:
            return self._schema
        # Of rows without any column nothing would be left to count.
        return pa.schema([self._schema.field(name) for name in columns] or list(_PLACE))

    def _narrowed(
        self, wanted: RowFilter, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        ranges = [cut for each in self._ranges if (cut := wanted.cut(each)).count > 0]
        return self._batches(self._chosen(columns), wanted, ranges)

    def _batches(
        self, target: pa.Schema, wanted: RowFilter, ranges: Sequence[QueueRange]
    ) -> Iterator[pa.RecordBatch]:
        if ERROR_COLUMN not in target.names:
            yield from self._read(target, wanted, ranges)
            return
        # It tells of every field, whichever of them are asked for.
        others = [field for field in self._schema if field.name not in SCHEMA.names]
        more = [field for field in others if field.name not in target.names]
        for batch in self._read(pa.schema([*target, *more]), wanted, ranges):
            yield batch.select(target.names)

    def _read(
        self, target: pa.Schema, wanted: RowFilter, ranges: Sequence[QueueRange]
    ) -> Iterator[pa.RecordBatch]:
        options = self._asked.options
        if wanted.stored_ms is not None and ranges:
            with closing(open_offsets(options)) as places:
                places.ends([each.queue for each in ranges])
                ranges = [
                    cut for each in ranges if (cut := in_time(places, each, wanted)).count > 0
                ]
        if options.path is None:
            if ranges:
                part = ReadPartition(tuple(ranges), self._addresses)
                yield from read_part(part, options, target, wanted)
            return
        in_turns = iter(ranges)
        if not asks_places_only(target, options, wanted):  # of the log nothing is read then
            options = replace(options, batch_rows=self._turn_rows)
            in_turns = abreast(ranges, self._turn_rows)
        while some := tuple(islice(in_turns, _AT_ONCE)):
            yield from read_part(ReadPartition(some, {}), options, target, wanted)


def _turn_rows(places: OffsetReader, ranges: Sequence[QueueRange], options: ReadOptions) -> int:
    """How many messages of about their length are read and decoded at once."""
    if options.path is None:
        return options.batch_rows
    middles = [
        QueueRange(each.queue, QueueOffset(middle), QueueOffset(min(middle + _SAMPLED, each.end)))
        for each in ranges[:_SAMPLED]
        if (middle := (each.start + each.end) // 2) < each.end
    ]
    count = sum(each.count for each in middles)
    length = max(1, sum(places.sizes(middles).values()) // max(1, count))
    return max(1, min(options.batch_rows, _TURN_BYTES // length))


_PLACE: Final = pa.schema([SCHEMA.field("queue_offset")])
