"""A message's properties: their well-known names, and the text they travel as.

    name 0x01 value 0x02  name 0x01 value 0x02 …

5.x writes the last 0x02, 4.9 leaves it out; readers take both. A reader drops a piece whose name or
value is empty, and of two with the same name the later counts, so a writer refuses what would not
come back. In a record the text is UTF-8 of at most 32,767 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from rocketpipe.errors import PropertiesError

NAME_END: Final = "\x01"
VALUE_END: Final = "\x02"
KEY_SEPARATOR: Final = " "
MAX_BYTES: Final = 32767

# What a producer says about its message.
KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
UNIQ_KEY: Final = "UNIQ_KEY"
INSTANCE_ID: Final = "INSTANCE_ID"
SHARDING_KEY: Final = "__SHARDINGKEY"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
BUYER_ID: Final = "BUYER_ID"
EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"

# Where a parked message belongs, and what became of it.
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
RETRY_TOPIC: Final = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
#: Why a dead letter is one. RocketMQ has no name for it.
DLQ_REASON: Final = "DLQ_REASON"

# Transactions.
TRANSACTION_PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
TRANSACTION_ID: Final = "__transactionId__"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
CHECK_IMMUNITY_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"

# Timers.
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_DEL_UNIQ_KEY: Final = "TIMER_DEL_UNIQKEY"
TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
#: Ours: when and where in the log the message first waited that a record is about.
TIMER_ORIGIN: Final = "TIMER_ORIGIN"
START_DELIVER_TIME: Final = "__STARTDELIVERTIME"

# Request and reply.
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
CLUSTER: Final = "CLUSTER"
MESSAGE_TYPE: Final = "MSG_TYPE"

# Popping.
POP_CK: Final = "POP_CK"
POP_CK_OFFSET: Final = "POP_CK_OFFSET"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
#: The group that a message comes again for; where a retry topic's name may be that of two groups.
ORIGIN_GROUP: Final = "ORIGIN_GROUP"

# Batches and light queues.
INNER_NUM: Final = "INNER_NUM"
INNER_BASE: Final = "INNER_BASE"
FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
REDIRECT: Final = "REDIRECT"
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"

# What brokers, proxies and consumers note down.
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
DUP_INFO: Final = "DUP_INFO"
CRC32: Final = "__CRC32#"
TRANSIENT_TOPIC_SYS_FLAG: Final = "__RMQ.TRANSIENT.TOPIC_SYS_FLAG"
TRANSIENT_GROUP_SYS_FLAG: Final = "__RMQ.TRANSIENT.GROUP_SYS_FLAG"
TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"

#: Names that users may read but not set.
RESERVED: Final = frozenset(
    {
        KEYS,
        TAGS,
        WAIT,
        DELAY,
        UNIQ_KEY,
        INSTANCE_ID,
        BUYER_ID,
        EXTEND_UNIQ_INFO,
        REAL_TOPIC,
        REAL_QUEUE_ID,
        RETRY_TOPIC,
        ORIGIN_MESSAGE_ID,
        RECONSUME_TIME,
        MAX_RECONSUME_TIMES,
        DLQ_ORIGIN_TOPIC,
        DLQ_ORIGIN_MESSAGE_ID,
        TRANSACTION_PREPARED,
        PRODUCER_GROUP,
        TRANSACTION_PREPARED_QUEUE_OFFSET,
        TIMER_DELAY_SEC,
        TIMER_DELAY_MS,
        TIMER_DELIVER_MS,
        TIMER_ENQUEUE_MS,
        TIMER_DEQUEUE_MS,
        TIMER_ROLL_TIMES,
        TIMER_OUT_MS,
        TIMER_DEL_UNIQ_KEY,
        TIMER_DELAY_LEVEL,
        TIMER_ORIGIN,
        CORRELATION_ID,
        REPLY_TO_CLIENT,
        TTL,
        ARRIVE_TIME,
        PUSH_REPLY_TIME,
        CLUSTER,
        MESSAGE_TYPE,
        POP_CK,
        POP_CK_OFFSET,
        FIRST_POP_TIME,
        INNER_MULTI_QUEUE_OFFSET,
        MSG_REGION,
        TRACE_ON,
        MIN_OFFSET,
        MAX_OFFSET,
        CONSUME_START_TIME,
        BORN_HOST,
        BORN_TIMESTAMP,
        DUP_INFO,
        CRC32,
        TRANSIENT_TOPIC_SYS_FLAG,
        TRANSIENT_GROUP_SYS_FLAG,
        TRANSFER_FLAG,
        CORRECTION_FLAG,
        MQ2_FLAG,
    }
)

_ENCODED_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
# Java trims what is not above a blank.
_BLANKS: Final = "".join(map(chr, range(0x21)))


def encode(properties: Mapping[str, str | None]) -> str:
    """Write properties as text, in their order; one whose value is ``None`` is left out.

    Raises:
        PropertiesError: If a name or value is empty or has 0x01 or 0x02 in it.
    """
    pieces: list[str] = []
    for name, value in properties.items():
        if value is None:
            continue
        if not name or not value:
            raise PropertiesError(f"property {_excerpt(name)}: empty names and values get lost")
        check_text(name, name)
        check_text(name, value)
        pieces.append(f"{name}\x01{value}\x02")
    return "".join(pieces)


def encode_bytes(properties: Mapping[str, str | None]) -> bytes:
    """Write properties as a record carries them.

    Raises:
        PropertiesError: As ``encode``, or if they are longer than 32,767 bytes.
    """
    raw = encode(properties).encode("utf-8")
    if len(raw) > MAX_BYTES:
        raise PropertiesError(f"properties of {len(raw)} bytes, more than {MAX_BYTES}", MAX_BYTES)
    return raw


def decode(text: str) -> dict[str, str]:
    """Read properties from text, with or without the last 0x02; incomplete pieces are dropped."""
    found: dict[str, str] = {}
    for piece in text.split(VALUE_END):
        name, _, value = piece.partition(NAME_END)
        if name and value:
            found[name] = value
    return found


def decode_bytes(raw: bytes) -> dict[str, str]:
    """Read properties as a record carries them; what is not UTF-8 shows as U+FFFD, as in Java."""
    return decode(read_text(raw))


def edited(raw: bytes, changes: Mapping[str, str | None]) -> bytes:
    """Set properties in text as a record carries it; ``None`` takes one away.

    What is not named stays byte for byte and in its order, whatever it is; what is set comes last.

    Raises:
        PropertiesError: If a value that is set is empty, or has 0x01 or 0x02 in it.
    """
    names = {name.encode("utf-8") for name in changes}
    kept = [
        piece for piece in raw.split(b"\x02") if piece and piece.partition(b"\x01")[0] not in names
    ]
    return b"".join(piece + b"\x02" for piece in kept) + encode(changes).encode("utf-8")


def read_text(raw: bytes) -> str:
    """Read UTF-8 as Java does: what is malformed becomes U+FFFD, and nothing is refused."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        # Python replaces an encoded surrogate by three of them, Java by one.
        return _ENCODED_SURROGATE.sub(b"\xef\xbf\xbd", raw).decode("utf-8", "replace")


def check_user_property(name: str, value: str) -> None:
    """Refuse a property that a user may not set.

    Raises:
        PropertiesError: If the name is reserved, name or value is blank, or either has characters
            that the text form cannot carry.
    """
    if name in RESERVED:
        raise PropertiesError(f"property {_excerpt(name)}: the name is reserved for RocketMQ")
    if is_blank(name) or is_blank(value):
        raise PropertiesError(f"property {_excerpt(name)}: neither name nor value may be blank")
    check_text(name, name)
    check_text(name, value)


def check_text(name: str, text: str) -> None:
    """Refuse text, of the property called ``name``, that the text form cannot carry.

    Raises:
        PropertiesError: If it has 0x01, 0x02 or half a surrogate pair in it.
    """
    for mark in (NAME_END, VALUE_END):
        if mark in text:
            raise PropertiesError(
                f"property {_excerpt(name)}: 0x0{ord(mark)} separates properties", text.index(mark)
            )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PropertiesError(
            f"property {_excerpt(name)}: half a surrogate pair", error.start
        ) from None


def is_blank(text: str) -> bool:
    """Tell whether nothing is left of a text once Java has trimmed it."""
    return not text.strip(_BLANKS)


def join_keys(keys: Iterable[str]) -> str:
    """Write the keys of a message as its property ``KEYS``.

    Raises:
        PropertiesError: If a key is blank, or has a blank in it, which would make it two.
    """
    joined = tuple(keys)
    for key in joined:
        if is_blank(key):
            raise PropertiesError("property 'KEYS': a key may not be blank")
        if KEY_SEPARATOR in key:
            raise PropertiesError(
                f"property 'KEYS': {_excerpt(key)} has a blank in it, which separates keys",
                key.index(KEY_SEPARATOR),
            )
        check_text(KEYS, key)
    return KEY_SEPARATOR.join(joined)


def split_keys(text: str) -> tuple[str, ...]:
    """Read the keys from a property ``KEYS``."""
    return tuple(key for key in text.split(KEY_SEPARATOR) if key)


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
