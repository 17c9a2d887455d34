"""What a writer is told: Spark's text options as one checked value.

    nameServer        where to ask for the topics: host:port, several with ';' between; else what
                      ROCKETPIPE_NAMESRV or NAMESRV_ADDR says, where the driver runs
    tls, caFile       whether connections are encrypted, and whom to trust: see ``securing``
    accessKey         who writes; secretKeyFile, secretKeyEnv or secretKey: the secret
    topic             where rows go that name no topic themselves, in a column ``topic``
    delivery          staged: each row once, whatever dies; direct: each row at least once
    txn               what names a batch job, so that it can be run again: staged needs it
    onRepeat          fail, skip: what becomes of a job whose name wrote other rows before
    groupId           the producer group in whose name is sent
    batchBytes        how much goes with one send
    maxInFlightBytes  how much of a task may be on its way at a time
    timeoutMs         how long a send is tried, all attempts and pauses included
    encode            json, avro, protobuf: bodies are made of columns, see ``encoding``

Spark takes no notice of the letter case of options, so neither does this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from rocketpipe.client.name_servers import NameServers, of_environment
from rocketpipe.errors import InvalidName
from rocketpipe.model.names import check_producer_group, check_sendable
from rocketpipe.pipeline.options import encoding, securing, table
from rocketpipe.pipeline.options.encoding import Encoding
from rocketpipe.pipeline.options.securing import Access
from rocketpipe.pipeline.options.text import OptionError, byte_count, suggestion
from rocketpipe.record.layout import MAX_BODY_BYTES

NAME_SERVER: Final = "nameServer"
TOPIC: Final = "topic"
DELIVERY: Final = "delivery"
TXN: Final = "txn"
ON_REPEAT: Final = "onRepeat"
GROUP_ID: Final = "groupId"
BATCH_BYTES: Final = "batchBytes"
MAX_IN_FLIGHT_BYTES: Final = "maxInFlightBytes"
TIMEOUT_MS: Final = "timeoutMs"

DEFAULT_GROUP: Final = "rocketpipe-spark"
MAX_TXN: Final = 255

_KNOWN: Final = {
    name.lower(): name
    for name in (
        NAME_SERVER,
        TOPIC,
        DELIVERY,
        TXN,
        ON_REPEAT,
        GROUP_ID,
        BATCH_BYTES,
        MAX_IN_FLIGHT_BYTES,
        TIMEOUT_MS,
        *encoding.OPTIONS,
        *securing.OPTIONS,
    )
}
#: Spark keeps these for itself, and hands them over all the same.
_SPARKS: Final = frozenset({"checkpointlocation", "queryname"})
# What other connectors, and RocketMQ's own clients, call the same thing.
_CALLED_ELSEWHERE: Final = {
    "namesrvaddr": NAME_SERVER,
    "endpoints": NAME_SERVER,
    "topics": TOPIC,
    "subscribe": TOPIC,
    "path": TOPIC,  # save("orders") arrives as this
    "group": GROUP_ID,
    "producergroup": GROUP_ID,
    "txnid": TXN,
    "txnappid": TXN,
    "timeout": TIMEOUT_MS,
}


class Delivery(Enum):
    """How often a row arrives when tasks, executors, the driver or brokers die."""

    DIRECT = "direct"
    STAGED = "staged"


class OnRepeat(Enum):
    """What becomes of rows whose name was committed before with other rows."""

    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where rows go, and how."""

    name_servers: str
    topic: str | None = None
    #: None where it was left open: as good as the brokers can.
    delivery: Delivery | None = None
    txn: str | None = None
    on_repeat: OnRepeat = OnRepeat.FAIL
    group: str = DEFAULT_GROUP
    batch_bytes: int = 1 << 20
    max_in_flight_bytes: int = 16 << 20
    timeout_ms: int = 60_000
    access: Access = field(default_factory=Access)
    #: None where bodies are given.
    encoding: Encoding | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Check the options of ``frame.write.format("rocketpipe")``.

        Raises:
            OptionError: If one is missing, unknown or wrong.
        """
        given = table.given(options)
        for name in sorted(given.keys() - _KNOWN.keys() - _SPARKS):
            raise OptionError(name, f"is unknown: {suggestion(name, _KNOWN, _CALLED_ELSEWHERE)}")
        return cls(
            name_servers=_name_servers(given),
            topic=_topic(given.get(TOPIC)),
            delivery=_delivery(given.get(DELIVERY)),
            txn=_txn(given.get(TXN)),
            on_repeat=_on_repeat(given.get(ON_REPEAT.lower(), "fail")),
            group=_group(given.get(GROUP_ID.lower(), DEFAULT_GROUP)),
            batch_bytes=_bytes(given, BATCH_BYTES, 1 << 20, 1 << 10, MAX_BODY_BYTES),
            max_in_flight_bytes=_bytes(given, MAX_IN_FLIGHT_BYTES, 16 << 20, 1 << 16, 1 << 30),
            timeout_ms=_number(given, TIMEOUT_MS, 60_000, 100, 3_600_000),
            access=Access.of(given),
            encoding=Encoding.parse(given),
        )


def _name_servers(given: Mapping[str, str]) -> str:
    text = given.get(NAME_SERVER.lower()) or (of_environment() or ("", ""))[1]
    if not text:
        raise OptionError(
            NAME_SERVER,
            'is missing: add .option("nameServer", "127.0.0.1:9876"), or set ROCKETPIPE_NAMESRV '
            "before Spark starts" + ("" if given else table.FORGOTTEN),
        )
    try:
        return str(NameServers.parse(text))
    except ValueError as error:
        raise OptionError(
            NAME_SERVER, f'is wrong: {error}; write it like "127.0.0.1:9876"'
        ) from error


def _topic(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        check_sendable(name)
    except InvalidName as error:
        raise OptionError(TOPIC, f"is wrong: {error}") from error
    return name


def _delivery(text: str | None) -> Delivery | None:
    if text is None:
        return None
    try:
        return Delivery(text.lower())
    except ValueError:
        raise OptionError(DELIVERY, f"is {text!r}: there are staged and direct") from None


def _txn(text: str | None) -> str | None:
    if text is None:
        return None
    if not 0 < len(text) <= MAX_TXN or not text.isprintable():
        raise OptionError(TXN, f"has 1 to {MAX_TXN} characters that can be printed")
    return text


def _on_repeat(text: str) -> OnRepeat:
    try:
        return OnRepeat(text.lower())
    except ValueError:
        raise OptionError(ON_REPEAT, f"is {text!r}: there are fail and skip") from None


def _group(name: str) -> str:
    try:
        check_producer_group(name)
    except InvalidName as error:
        raise OptionError(GROUP_ID, f"is wrong: {error}") from error
    return name


def _number(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and least <= int(text) <= most):
        raise OptionError(name, f"is {text[:20]!r}: a whole number from {least} to {most}")
    return int(text)


def _bytes(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    size = byte_count(name, text)
    if not least <= size <= most:
        raise OptionError(name, f"is {text[:20]!r}: from {least} to {most} bytes")
    return size
