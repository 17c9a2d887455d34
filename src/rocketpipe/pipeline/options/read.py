"""What a reader is told: Spark's text options as one checked value.

    nameServer            where to ask for the topics: host:port, several with ';' between; else
                          what ROCKETPIPE_NAMESRV or NAMESRV_ADDR says, where the driver runs
    tls, caFile           whether connections are encrypted, and whom to trust: see ``securing``
    accessKey             who reads; secretKeyFile, secretKeyEnv or secretKey: the secret
    path                  or: the directory of a store, whose log is read without a broker
    brokerName            for a path: what the column ``broker`` shows
    subscribe             the topics to read, with ',' between
    subscribePattern      or: a regular expression that fits the whole name of each
    assign                or: queues, as JSON: {"orders": {"broker-a": [0, 1]}}
    groupId               the consumer group whose progress a stream's is shown as
    startingOffsets       earliest, latest, or JSON: {"orders": {"broker-a": {"0": 42}}}
    startingTimestamp     or: the time of the first message, in ms or as ISO 8601
    endingOffsets         the same for the end of a batch read; the offset itself is not read
    endingTimestamp       or: the time from which on nothing more is read
    minPartitions         the least number of tasks that share a read
    maxBytesPerPartition  the most that one of them reads, about
    maxOffsetsPerTrigger  the most messages that a stream takes at once
    maxBytesPerTrigger    or bytes, about
    onGap                 fail or skip, where messages have aged out
    onBadMessage          fail, null, skip or quarantine, where one cannot be read
    quarantinePath        for quarantine: the directory in which such messages are kept
    columns               the columns to give, with ',' between
    decode                json, text, avro or protobuf: what bodies hold
    decodeSchema          the columns of a body that is JSON, as SQL writes them
    schemaFile            for avro its .avsc file, for protobuf a FileDescriptorSet
    schemaRegistry        or: a schema registry, whose ids bodies begin with
    schemaSubject         the subject there; else the topic's name and -value
    messageName           for protobuf: which message bodies are, if there are several
    timeZone              where times in bodies are from that name no offset
    keys                  only messages with one of these keys, with ',' between
    pushDown              true: conditions of a WHERE are used to read less
    batchRows             the most rows handed over at once
    maxPullBytes          the most that a broker is asked for at once

Spark takes no notice of the letter case of options, so neither does this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast, get_args
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo

from rocketpipe.client.name_servers import NameServers, of_environment
from rocketpipe.errors import InvalidName
from rocketpipe.model.names import TOOLS_CONSUMER_GROUP, check_consumer_group
from rocketpipe.pipeline.formats.body_schema import BodySchema, SchemaSource
from rocketpipe.pipeline.options import securing, table
from rocketpipe.pipeline.options.decoding import (
    DECODE,
    DECODE_SCHEMA,
    MESSAGE_NAME,
    SCHEMA_FILE,
    SCHEMA_REGISTRY,
    SCHEMA_SUBJECT,
    TIME_ZONE,
    Decode,
    Decoding,
)
from rocketpipe.pipeline.options.offset_limits import OffsetLimit
from rocketpipe.pipeline.options.securing import Access
from rocketpipe.pipeline.options.selection import ASSIGN, SUBSCRIBE, SUBSCRIBE_PATTERN, Selection
from rocketpipe.pipeline.options.text import (
    EARLIEST,
    LATEST,
    OptionError,
    byte_count,
    count,
    flag,
    moment_ms,
    one_of,
    suggestion,
)
from rocketpipe.pipeline.planning.filters import RowFilter
from rocketpipe.pipeline.planning.gaps import OnGap

if TYPE_CHECKING:
    import pyarrow as pa

NAME_SERVER: Final = "nameServer"
PATH: Final = "path"
BROKER_NAME: Final = "brokerName"
GROUP_ID: Final = "groupId"
STARTING_OFFSETS: Final = "startingOffsets"
STARTING_TIMESTAMP: Final = "startingTimestamp"
ENDING_OFFSETS: Final = "endingOffsets"
ENDING_TIMESTAMP: Final = "endingTimestamp"
MIN_PARTITIONS: Final = "minPartitions"
MAX_BYTES_PER_PARTITION: Final = "maxBytesPerPartition"
MAX_OFFSETS_PER_TRIGGER: Final = "maxOffsetsPerTrigger"
MAX_BYTES_PER_TRIGGER: Final = "maxBytesPerTrigger"
ON_GAP: Final = "onGap"
#: What becomes of messages that cannot be made rows.
OnBadMessage = Literal["fail", "null", "skip", "quarantine"]
ON_BAD_MESSAGE: Final = "onBadMessage"
QUARANTINE_PATH: Final = "quarantinePath"
COLUMNS: Final = "columns"
KEYS: Final = "keys"
PUSH_DOWN: Final = "pushDown"
BATCH_ROWS: Final = "batchRows"
MAX_PULL_BYTES: Final = "maxPullBytes"

#: In whose name brokers are asked where no group was given; nothing is committed for it. Every
#: broker has it from its first start, ours and Apache's, also where groups are made by hand.
DEFAULT_GROUP: Final = TOOLS_CONSUMER_GROUP

DEFAULT_PARTITION_BYTES: Final = 64 * 1024 * 1024
DEFAULT_BATCH_ROWS: Final = 50_000
MOST_BATCH_ROWS: Final = 1_000_000
DEFAULT_PULL_BYTES: Final = 4 * 1024 * 1024
MOST_PULL_BYTES: Final = 64 * 1024 * 1024

_KNOWN: Final = {
    name.lower(): name
    for name in (
        NAME_SERVER,
        PATH,
        BROKER_NAME,
        SUBSCRIBE,
        SUBSCRIBE_PATTERN,
        ASSIGN,
        GROUP_ID,
        STARTING_OFFSETS,
        STARTING_TIMESTAMP,
        ENDING_OFFSETS,
        ENDING_TIMESTAMP,
        MIN_PARTITIONS,
        MAX_BYTES_PER_PARTITION,
        MAX_OFFSETS_PER_TRIGGER,
        MAX_BYTES_PER_TRIGGER,
        ON_GAP,
        ON_BAD_MESSAGE,
        QUARANTINE_PATH,
        COLUMNS,
        DECODE,
        DECODE_SCHEMA,
        SCHEMA_FILE,
        SCHEMA_REGISTRY,
        SCHEMA_SUBJECT,
        MESSAGE_NAME,
        TIME_ZONE,
        KEYS,
        PUSH_DOWN,
        BATCH_ROWS,
        MAX_PULL_BYTES,
        *securing.OPTIONS,
    )
}
# What other connectors, and RocketMQ's own clients, call the same thing.
_CALLED_ELSEWHERE: Final = {
    "namesrvaddr": NAME_SERVER,
    "endpoints": NAME_SERVER,
    "kafka.bootstrap.servers": NAME_SERVER,
    "topic": SUBSCRIBE,
    "topics": SUBSCRIBE,
    "group": GROUP_ID,
    "consumergroup": GROUP_ID,
    "kafka.group.id": GROUP_ID,
    "failondataloss": ON_GAP,
    "mode": ON_BAD_MESSAGE,
    "maxrecordsperpartition": MAX_BYTES_PER_PARTITION,
}

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Where to read, what, from where to where, and in which portions."""

    selection: Selection
    name_servers: str | None = None
    access: Access = field(default_factory=Access)
    path: Path | None = None
    broker_name: str | None = None
    group: str = DEFAULT_GROUP
    #: Whether a group was named, so that a stream's progress is told to the brokers.
    commits: bool = False
    #: None: the earliest for a batch, the latest for a stream.
    start: OffsetLimit | None = None
    end: OffsetLimit | None = None
    min_partitions: int = 1
    max_bytes_per_partition: int = DEFAULT_PARTITION_BYTES
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    on_gap: OnGap = "fail"
    on_bad_message: OnBadMessage = "fail"
    quarantine: Path | None = None
    #: Empty: all of them.
    columns: tuple[str, ...] = ()
    decode: Decode | None = None
    decode_schema: pa.Schema | None = None
    #: Where the schema of bodies in Avro or Protobuf is, and what was found there.
    schema_source: SchemaSource | None = None
    body_schema: BodySchema | None = None
    time_zone: str = "UTC"
    keys: frozenset[str] | None = None
    push_down: bool = False
    batch_rows: int = DEFAULT_BATCH_ROWS
    max_pull_bytes: int = DEFAULT_PULL_BYTES

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Check the options of ``spark.read.format("rocketpipe")``.

        Raises:
            OptionError: If one is missing, unknown or wrong.
        """
        given = table.given(options)
        for name in sorted(given.keys() - _KNOWN.keys()):
            raise OptionError(name, f"is unknown: {suggestion(name, _KNOWN, _CALLED_ELSEWHERE)}")
        name_servers, path = _where(given)
        on_bad_message = one_of(
            ON_BAD_MESSAGE, given.get(ON_BAD_MESSAGE.lower(), "fail"), get_args(OnBadMessage)
        )
        bodies = Decoding.parse(given)
        return cls(
            selection=Selection.parse(given),
            name_servers=name_servers,
            access=Access.of(given),
            path=path,
            broker_name=_broker_name(given, path),
            group=_group(given.get(GROUP_ID.lower(), DEFAULT_GROUP)),
            commits=GROUP_ID.lower() in given,
            start=_edge(given, STARTING_OFFSETS, STARTING_TIMESTAMP, starts=True),
            end=_edge(given, ENDING_OFFSETS, ENDING_TIMESTAMP, starts=False),
            min_partitions=_given(given, MIN_PARTITIONS, count, 1),
            max_bytes_per_partition=_given(
                given, MAX_BYTES_PER_PARTITION, byte_count, DEFAULT_PARTITION_BYTES
            ),
            max_offsets_per_trigger=_given(given, MAX_OFFSETS_PER_TRIGGER, count, None),
            max_bytes_per_trigger=_given(given, MAX_BYTES_PER_TRIGGER, byte_count, None),
            on_gap=cast(
                "OnGap", one_of(ON_GAP, given.get(ON_GAP.lower(), "fail"), get_args(OnGap))
            ),
            on_bad_message=cast("OnBadMessage", on_bad_message),
            quarantine=_quarantine(given, on_bad_message),
            columns=_names(given, COLUMNS),
            decode=bodies.decode,
            decode_schema=bodies.schema,
            schema_source=bodies.source,
            time_zone=bodies.time_zone,
            keys=frozenset(_names(given, KEYS)) or None,
            push_down=_given(given, PUSH_DOWN, flag, False),
            batch_rows=_limited(given, BATCH_ROWS, count, DEFAULT_BATCH_ROWS, MOST_BATCH_ROWS),
            max_pull_bytes=_limited(
                given, MAX_PULL_BYTES, byte_count, DEFAULT_PULL_BYTES, MOST_PULL_BYTES
            ),
        )

    def resolved(self) -> ReadOptions:
        """The same, with the schema of bodies read from where it is.

        Raises:
            BodySchemaError: If it is not there, or none.
            RegistryError: If the registry does not answer.
        """
        if self.schema_source is None or self.body_schema is not None:
            return self
        topics = self.selection.topics or ()
        found = self.schema_source.load(topics[0] if len(topics) == 1 else None)
        return replace(self, body_schema=found, decode_schema=found.schema)

    @property
    def zone(self) -> tzinfo:
        """Where times are from that name no offset."""
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)

    @property
    def wanted(self) -> RowFilter:
        """What the options alone ask of rows."""
        return RowFilter(keys=self.keys)

    def check_batch(self) -> None:
        """Refuse what a read of the present contents cannot do.

        Raises:
            OptionError: If it should start where nothing is, or end before it starts.
        """
        if self.start is not None and self.start.is_latest:
            raise OptionError(
                STARTING_OFFSETS,
                "is latest, where a batch would find nothing: give earliest or offsets, or use "
                "readStream",
            )
        first_ms = self.start.timestamp_ms if self.start is not None else None
        end_ms = self.end.timestamp_ms if self.end is not None else None
        if first_ms is not None and end_ms is not None and end_ms <= first_ms:
            raise OptionError(
                ENDING_TIMESTAMP,
                f"is not behind {STARTING_TIMESTAMP!r}, so nothing is between them: give a later "
                "one, which itself is not read",
            )

    def check_stream(self) -> None:
        """Refuse what a stream cannot do.

        Raises:
            OptionError: If it should end somewhere.
        """
        if self.end is not None:
            option = ENDING_OFFSETS if self.end.timestamp_ms is None else ENDING_TIMESTAMP
            raise OptionError(
                option, "is for spark.read; a stream ends with .trigger(availableNow=True)"
            )


def _where(given: Mapping[str, str]) -> tuple[str | None, Path | None]:
    servers, path = given.get(NAME_SERVER.lower()), given.get(PATH)
    if not servers and not path:
        servers = (of_environment() or ("", ""))[1]
    if not servers and not path:
        raise OptionError(
            NAME_SERVER,
            f'is missing: add .option("{NAME_SERVER}", "127.0.0.1:9876"), or '
            f'.option("{PATH}", "<store directory>") to read a log on disk; or set '
            "ROCKETPIPE_NAMESRV before Spark starts" + ("" if given else table.FORGOTTEN),
        )
    if servers and path and GROUP_ID.lower() not in given:
        raise OptionError(
            PATH,
            f"is given beside {NAME_SERVER!r}: leave one of them out, or add {GROUP_ID!r} to read "
            "the log and tell the brokers how far the group has come",
        )
    return _name_servers(servers) if servers else None, _path(path) if path else None


def _quarantine(given: Mapping[str, str], on_bad_message: str) -> Path | None:
    text = given.get(QUARANTINE_PATH.lower())
    if on_bad_message == "quarantine" and not text:
        raise OptionError(
            QUARANTINE_PATH,
            f'is missing: {ON_BAD_MESSAGE}=quarantine needs .option("{QUARANTINE_PATH}", '
            '"<directory>"), on a disk that all executors see under this name',
        )
    if text and on_bad_message != "quarantine":
        raise OptionError(
            QUARANTINE_PATH, f'is for .option("{ON_BAD_MESSAGE}", "quarantine"): add that'
        )
    return _path(text, QUARANTINE_PATH, "messages are kept on") if text else None


def _path(text: str, option: str = PATH, what: str = "a log is read from") -> Path:
    # A scheme of one letter is a drive of Windows.
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", text)
    if scheme is None:
        return Path(text).absolute()  # tasks run in directories of their own
    if scheme[1].lower() != "file":
        raise OptionError(
            option,
            f"is on {scheme[1]}, and {what} a disk: give the directory under which the driver and "
            "all executors have it mounted",
        )
    return Path(unquote(urlsplit(text).path)).absolute()


def _name_servers(text: str) -> str:
    try:
        return str(NameServers.parse(text))
    except ValueError as error:
        raise OptionError(
            NAME_SERVER, f'is wrong: {error}; write it like "127.0.0.1:9876"'
        ) from error


def _broker_name(given: Mapping[str, str], path: Path | None) -> str | None:
    name = given.get(BROKER_NAME.lower())
    if name and path is None:
        raise OptionError(BROKER_NAME, f"is for {PATH!r}: brokers that are asked tell their names")
    return name or None


def _group(name: str) -> str:
    try:
        check_consumer_group(name)
    except InvalidName as error:
        raise OptionError(GROUP_ID, f"is wrong: {error}") from error
    return name


def _edge(
    given: Mapping[str, str], by_offset: str, by_time: str, *, starts: bool
) -> OffsetLimit | None:
    offsets, time = given.get(by_offset.lower()), given.get(by_time.lower())
    if offsets and time:
        raise OptionError(by_time, f"is given beside {by_offset!r}: leave one of them out")
    default = EARLIEST if starts else LATEST
    if time:
        return OffsetLimit(default, timestamp_ms=moment_ms(by_time, time))
    if offsets:
        return OffsetLimit.parse(by_offset, offsets, default=default)
    return None


def _names(given: Mapping[str, str], option: str) -> tuple[str, ...]:
    text = given.get(option.lower())
    if text is None:
        return ()
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise OptionError(option, "names nothing: give one, or several with ',' between")
    return names


def _given(
    given: Mapping[str, str], option: str, parse: Callable[[str, str], ValueT], default: ValueT
) -> ValueT:
    text = given.get(option.lower())
    return default if text is None else parse(option, text)


def _limited(
    given: Mapping[str, str],
    option: str,
    parse: Callable[[str, str], int],
    default: int,
    most: int,
) -> int:
    value = _given(given, option, parse, default)
    if value > most:
        raise OptionError(option, f"is {value}: {most} is the most")
    return value
