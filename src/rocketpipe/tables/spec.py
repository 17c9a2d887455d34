"""What a table is: which topic it follows, and how bodies become its rows.

It is kept with the table, as JSON, so that every later command knows it from the directory alone
(`rocketpipe.tables.directory` has the layout):

    {"v": 1, "id": "<uuid>", "topic": "orders", "name_server": "127.0.0.1:9876", "store": null,
     "broker_name": null, "decode": "json", "schema": "city STRING, cents INT",
     "added": "`note` STRING", "time_zone": "UTC", "properties": false, "partition_by": "date",
     "new_columns": "add", "format": "delta", "table": null,
     "database": null, "password_file": null, "group": "table-orders",
     "start": "earliest", "on_gap": "fail", "batch_rows": 1000000, "every_ms": 5000,
     "compact_every": 100, "keep_ms": 2592000000}

``id`` is the name under which the table numbers its batches, in its own commits; it is also in the
checkpoint. ``schema`` has the columns that were asked for, ``added`` those that ``new_columns=add``
has added since. Of bodies in Avro or Protobuf ``schema`` is their schema itself
(`rocketpipe.pipeline.formats.body_schema`), and ``registry`` the one whose ids they begin with.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal, Self, get_args

from rocketpipe.client.name_servers import NameServers
from rocketpipe.errors import ConfigError, InvalidName
from rocketpipe.model.names import check_consumer_group, check_topic

Decode = Literal["none", "text", "json", "avro", "protobuf"]
NewColumnsRule = Literal["ignore", "add", "fail", "quarantine"]
Format = Literal["delta", "iceberg", "parquet", "postgres"]

VERSION: Final = 1
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
#: The day on which a message was stored, where no column of the body has that name.
DATE: Final = "date"

DEFAULT_BATCH_ROWS: Final = 1_000_000
DEFAULT_EVERY_MS: Final = 5_000
DEFAULT_COMPACT_EVERY: Final = 100
DAY_MS: Final = 86_400_000
DEFAULT_KEEP_MS: Final = 30 * DAY_MS
#: Readers hold a version for as long as their query takes: less would pull files from under them.
LEAST_KEEP_MS: Final = 3_600_000

#: PostgreSQL has 63 bytes for a name, and ``_bad_rows`` is behind it.
LONGEST_TABLE_NAME: Final = 54

#: What may be other when a table is followed again; all else is what the table is.
CHANGEABLE: Final = frozenset(
    {
        "name_server",
        "store",
        "broker_name",
        "database",
        "password_file",
        "schema",
        "registry",
        "added",
        "new_columns",
        "group",
        "on_gap",
        "batch_rows",
        "every_ms",
        "compact_every",
        "keep_ms",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """A table that follows a topic, as it was asked for."""

    topic: str
    #: Where the topic is read: brokers, or the directory of a store whose log is read.
    name_server: str | None = None
    store: str | None = None
    #: For a store: what the column ``broker`` shows.
    broker_name: str | None = None
    decode: Decode = "none"
    #: The columns of a body that is JSON, as SQL writes them; or what Avro and Protobuf read by.
    schema: str | None = None
    #: The schema registry whose ids bodies begin with.
    registry: str | None = None
    #: Those that the table has got by itself since.
    added: str | None = None
    time_zone: str = "UTC"
    #: Whether rows also have the message's properties, and when it was sent.
    properties: bool = False
    #: ``date``, a column, or None for none.
    partition_by: str | None = None
    #: What becomes of fields that the schema does not name.
    new_columns: NewColumnsRule = "ignore"
    format: Format = "delta"
    #: For Iceberg: CATALOGUE.NAMESPACE.NAME in a catalogue that pyiceberg is told of.
    #: For PostgreSQL: the table, SCHEMA.NAME or NAME.
    table: str | None = None
    #: For PostgreSQL: its address, without a password, and a file that has that.
    database: str | None = None
    password_file: str | None = None
    #: The consumer group as which the table's lag shows.
    group: str | None = None
    #: ``earliest``, ``latest``, a time in ISO 8601, or offsets as the connector takes them.
    start: str = EARLIEST
    on_gap: Literal["fail", "skip"] = "fail"
    #: The most messages in a batch, and the least time between two of them.
    batch_rows: int = DEFAULT_BATCH_ROWS
    every_ms: int = DEFAULT_EVERY_MS
    #: Batches between two compactions; 0: never.
    compact_every: int = DEFAULT_COMPACT_EVERY
    #: How long old versions of the table are kept; 0: for ever.
    keep_ms: int = DEFAULT_KEEP_MS
    #: The name under which its batches are numbered; empty: a new one.
    id: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", str(uuid.uuid4()))
        try:
            check_topic(self.topic)
            if self.group is not None:
                check_consumer_group(self.group)
            if self.name_server is not None:
                NameServers.parse(self.name_server)
        except (InvalidName, ValueError) as error:
            raise ConfigError("table", str(error)) from error
        _choose("decode", self.decode, get_args(Decode))
        _choose("new columns", self.new_columns, get_args(NewColumnsRule))
        _choose("format", self.format, get_args(Format))
        _choose("on gap", self.on_gap, ("fail", "skip"))
        if (self.name_server is None) == (self.store is None):
            raise ConfigError("table", "name where the topic is: a NameServer, or a store")
        self._check_schema()
        if self.decode != "json" and self.new_columns != "ignore":
            raise ConfigError(
                "new columns",
                "are found in bodies that are JSON: add --decode json; of Avro and Protobuf, name "
                "the new schema with --schema-file or --registry",
            )
        self._check_table()
        if self.keep_ms and self.keep_ms < LEAST_KEEP_MS:
            raise ConfigError(
                "keep",
                "is less than 1h: files would go while a query still reads them; give it longer "
                "than your longest query takes",
            )
        if min(self.batch_rows, self.every_ms + 1, self.compact_every + 1, self.keep_ms + 1) < 1:
            raise ConfigError("table", "batch rows, times and counts are never negative")

    def _check_table(self) -> None:
        if self.format == "postgres":
            self._check_database()
            return
        if self.database is not None or self.password_file is not None:
            raise ConfigError("--password-file", "is for --to postgresql://…")
        if self.table is None:
            return
        if self.format != "iceberg":
            raise ConfigError(
                "--table", "is for tables that are known by a name: Iceberg and PostgreSQL"
            )
        if len(self.table.split(".")) < 3 or not all(self.table.split(".")):
            raise ConfigError(
                "--table", f"{self.table!r} is not of the form CATALOGUE.NAMESPACE.NAME"
            )

    def _check_database(self) -> None:
        if not self.database or not self.table:
            raise ConfigError("--to", "name the database as postgresql://USER@HOST/NAME")
        parts = self.table.split(".")
        if len(parts) > 2 or not all(parts):
            raise ConfigError("--table", f"{self.table!r} is not of the form NAME or SCHEMA.NAME")
        if max(len(each.encode()) for each in parts) > LONGEST_TABLE_NAME:
            raise ConfigError(
                "--table",
                f"{self.table!r} is too long: {LONGEST_TABLE_NAME} bytes leave room for "
                "its table of bad rows",
            )
        if self.partition_by is not None:
            raise ConfigError(
                "--partition-by", "is for tables of files: in PostgreSQL, make an index instead"
            )

    def _check_schema(self) -> None:
        has_types = self.decode in ("avro", "protobuf")
        if self.decode == "json" and not self.schema:
            raise ConfigError(
                "schema", "is missing: name the fields of the bodies, as 'city STRING, cents INT'"
            )
        if has_types and not self.schema:
            raise ConfigError("schema", "is missing: name it with --schema-file or --registry")
        if self.decode != "json" and not has_types and self.schema:
            raise ConfigError("schema", "is for bodies that are JSON: add --decode json")
        if self.registry is not None and not has_types:
            raise ConfigError("registry", "is for Avro and Protobuf: add --decode avro or protobuf")

    def source_options(self) -> dict[str, str]:
        """The options with which the connector reads the topic as a stream."""
        is_time = self.start not in (EARLIEST, LATEST) and not self.start.startswith("{")
        given = {
            "nameServer": self.name_server,
            "path": self.store,
            "brokerName": self.broker_name if self.store is not None else None,
            "subscribe": self.topic,
            "groupId": self.group if self.name_server is not None else None,
            "startingTimestamp" if is_time else "startingOffsets": self.start,
            "maxOffsetsPerTrigger": str(self.batch_rows),
            "maxBytesPerTrigger": "1g",
            "onGap": self.on_gap,
            "onBadMessage": "null",
        }
        return {name: value for name, value in given.items() if value is not None}

    def with_changes(self, **changes: Any) -> Self:
        """The same table, of which some is other; raises ConfigError if that is nothing."""
        return replace(self, **changes)

    def to_json(self) -> str:
        """As it is kept with the table."""
        return json.dumps({"v": VERSION, **asdict(self)}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What was kept with a table.

        Raises:
            ValueError: If it is not such a text.
        """
        given = json.loads(text)
        if not isinstance(given, Mapping) or given.get("v") != VERSION:
            raise ValueError(f"it is not of version {VERSION}")
        known = {each.name for each in fields(cls)}
        try:
            return cls(**{name: value for name, value in given.items() if name in known})
        except TypeError as error:
            raise ValueError(str(error)) from error


def group_for(place_name: str) -> str:
    """The consumer group of a table whose directory is called so."""
    return f"table-{re.sub(r'[^A-Za-z0-9_-]', '-', place_name)[:100] or 'unnamed'}"


def _choose(what: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise ConfigError(
            what, f"is {value!r}: choose one of {', '.join(str(each) for each in choices)}"
        )
