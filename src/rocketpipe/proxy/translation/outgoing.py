"""A message as a gRPC producer sends it: checked, and made what a broker's send carries.

message_id                UNIQ_KEY            message_group          __SHARDINGKEY
tag, keys                 TAGS, KEYS          trace_context          TRACE_CONTEXT
delivery_timestamp        TIMER_DELIVER_MS    recovery duration      CHECK_IMMUNITY_…
a transaction             TRAN_MSG, and the prepared bits of sysFlag
a body in gzip            zlib, which is what consumers of the other protocol read
"""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import dataclass
from typing import Final

from rocketpipe.errors import PropertiesError
from rocketpipe.model import flags
from rocketpipe.model import properties as well_known
from rocketpipe.model.topic import MessageType
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.translation.times import ms_of
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.record.compression import DEFAULT_LIMIT

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_GZIP: Final = 31
_LEVEL: Final = 5
#: In the year 9999.
_LAST_MS: Final = 253_402_300_799_999
#: Names that are RocketMQ's though users of the other protocol may set them.
_OWN: Final = well_known.RESERVED | {
    well_known.SHARDING_KEY,
    well_known.TRACE_CONTEXT,
    well_known.TRANSACTION_ID,
    well_known.TRANSACTION_CHECK_TIMES,
    well_known.CHECK_IMMUNITY_SECONDS,
    well_known.START_DELIVER_TIME,
}
_KINDS: Final = {
    pb.NORMAL: MessageType.NORMAL,
    pb.FIFO: MessageType.FIFO,
    pb.DELAY: MessageType.DELAY,
    pb.TRANSACTION: MessageType.TRANSACTION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """What a broker is sent of one message."""

    message_id: str
    body: bytes
    properties: str
    sys_flag: int
    born_ms: int
    kind: MessageType
    #: By which its queue is chosen; empty if any will do.
    group: str = ""


def is_users(name: str) -> bool:
    """Whether a property of a stored message is its user's, and not RocketMQ's."""
    return name not in _OWN


def outgoing(message: pb.Message, config: ProxyConfig, max_body: int, now_ms: int) -> Outgoing:
    """Check a message and translate it.

    Raises:
        Refused: Something of it is not allowed; the code says what.
    """
    said = message.system_properties
    body = _body(message, max_body)
    kind = _kind(said)
    properties = _properties(message, config)
    sys_flag = 0
    if said.body_encoding == pb.GZIP:
        sys_flag = flags.with_compression(0, flags.Compression.ZLIB)
    if kind is MessageType.DELAY:
        due_ms = ms_of(said.delivery_timestamp)
        if due_ms > now_ms + config.max_delay_ms:
            raise Refused(
                pb.ILLEGAL_DELIVERY_TIME,
                f"delivery_timestamp is more than {config.max_delay_ms} ms ahead",
            )
        properties[well_known.TIMER_DELIVER_MS] = str(max(due_ms, 0))
    elif kind is MessageType.TRANSACTION:
        sys_flag = flags.with_transaction(sys_flag, flags.Transaction.PREPARED)
        properties[well_known.TRANSACTION_PREPARED] = "true"
        _add_recovery(said, properties, config)
    try:
        text = well_known.encode(properties)
    except PropertiesError as error:
        raise Refused(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, str(error)) from error
    return Outgoing(
        message_id=said.message_id,
        body=body,
        properties=text,
        sys_flag=sys_flag,
        born_ms=_born_ms(said, now_ms),
        kind=kind,
        group=said.message_group,
    )


def _born_ms(said: pb.SystemProperties, now_ms: int) -> int:
    """When it was sent by its producer's clock, unless that is no time at all."""
    told_ms: int = ms_of(said.born_timestamp)
    return told_ms if 0 < told_ms < _LAST_MS else now_ms


def _kind(said: pb.SystemProperties) -> MessageType:
    """What kind of message it is, by what it asks for; what it says of itself has to fit."""
    if said.message_type == pb.LITE or said.HasField("lite_topic"):
        raise Refused(pb.UNSUPPORTED, "lite topics are not served: send to a plain topic")
    if said.message_type == pb.PRIORITY or said.HasField("priority"):
        raise Refused(pb.UNSUPPORTED, "priorities are not served: send a normal message")
    if said.message_type == pb.TRANSACTION:
        kind = MessageType.TRANSACTION
    elif said.HasField("delivery_timestamp"):
        kind = MessageType.DELAY
    elif said.HasField("message_group"):
        kind = MessageType.FIFO
    else:
        kind = MessageType.NORMAL
    named = _KINDS.get(said.message_type, kind)
    if named is not kind:
        raise Refused(
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"the message says that it is {named.value}, its properties that it is {kind.value}",
        )
    return kind


def _body(message: pb.Message, max_body: int) -> bytes:
    body: bytes = message.body
    if not body:
        raise Refused(pb.MESSAGE_BODY_EMPTY, "a message has a body: send at least a byte")
    if len(body) > max_body:
        raise Refused(
            pb.MESSAGE_BODY_TOO_LARGE, f"the body has {len(body)} bytes, {max_body} are the most"
        )
    said = message.system_properties
    if said.HasField("body_digest") and not _matches(said.body_digest, body):
        raise Refused(
            pb.MESSAGE_CORRUPTED,
            f"the body is not the one whose {pb.DigestType.Name(said.body_digest.type)} was told",
        )
    return _as_zlib(body) if said.body_encoding == pb.GZIP else body


def _matches(digest: pb.Digest, body: bytes) -> bool:
    told = digest.checksum.upper()
    if digest.type == pb.MD5:
        return told == hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    if digest.type == pb.SHA1:
        return told == hashlib.sha1(body, usedforsecurity=False).hexdigest().upper()
    if digest.type == pb.CRC32:
        # Java writes it in hex, Node.js as a number.
        crc = zlib.crc32(body)
        return told.lstrip("0") in (f"{crc:X}", str(crc)) or (not crc and not told.strip("0"))
    return True


def _as_zlib(body: bytes) -> bytes:
    inflater = zlib.decompressobj(_GZIP)
    try:
        plain = inflater.decompress(body, DEFAULT_LIMIT)
    except zlib.error as error:
        raise Refused(pb.MESSAGE_CORRUPTED, f"the body is not gzip: {error}") from error
    if inflater.unconsumed_tail:
        raise Refused(
            pb.MESSAGE_BODY_TOO_LARGE, f"the body inflates to more than {DEFAULT_LIMIT} bytes"
        )
    if not inflater.eof or inflater.unused_data:
        raise Refused(pb.MESSAGE_CORRUPTED, "the body is not one whole gzip member")
    return zlib.compress(plain, _LEVEL)


def _properties(message: pb.Message, config: ProxyConfig) -> dict[str, str | None]:
    said = message.system_properties
    if not said.message_id or len(said.message_id) > 255 or _CONTROL.search(said.message_id):
        raise Refused(pb.ILLEGAL_MESSAGE_ID, "a message has an id of 1 to 255 plain characters")
    found: dict[str, str | None] = dict(message.user_properties)
    if len(found) > config.max_user_properties:
        raise Refused(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"{len(found)} user properties, {config.max_user_properties} are the most",
        )
    size = 0
    for name, value in message.user_properties.items():
        if not is_users(name):
            raise Refused(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"{name!r} is a name of RocketMQ's own")
        if not name.strip() or not value or _CONTROL.search(name) or _CONTROL.search(value):
            raise Refused(
                pb.ILLEGAL_MESSAGE_PROPERTY_KEY,
                f"user property {name[:60]!r} is blank, or has a control character in it",
            )
        size += len(name.encode()) + len(value.encode())
    found[well_known.UNIQ_KEY] = said.message_id
    if said.tag:  # an empty one is none, as for RocketMQ's proxy
        tag = said.tag
        if not tag.strip() or "|" in tag or _CONTROL.search(tag):
            raise Refused(pb.ILLEGAL_MESSAGE_TAG, f"tag {tag[:60]!r}: not blank, and without '|'")
        found[well_known.TAGS] = tag
        size += len(tag.encode())
    if said.keys:
        for key in said.keys:
            if not key.strip() or _CONTROL.search(key):
                raise Refused(pb.ILLEGAL_MESSAGE_KEY, f"key {key[:60]!r} is blank, or not text")
        found[well_known.KEYS] = joined = " ".join(said.keys)
        size += len(joined.encode())
    if size > config.max_properties_bytes:
        raise Refused(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag and keys have {size} bytes, {config.max_properties_bytes} are the "
            "most",
        )
    if said.HasField("message_group"):
        group = said.message_group
        if (
            not group.strip()
            or len(group.encode()) >= config.max_message_group
            or _CONTROL.search(group)
        ):
            raise Refused(
                pb.ILLEGAL_MESSAGE_GROUP,
                f"message group {group[:60]!r}: 1 to {config.max_message_group - 1} bytes of text",
            )
        found[well_known.SHARDING_KEY] = group
    if said.trace_context:
        found[well_known.TRACE_CONTEXT] = said.trace_context
    return found


def _add_recovery(
    said: pb.SystemProperties, properties: dict[str, str | None], config: ProxyConfig
) -> None:
    if not said.HasField("orphaned_transaction_recovery_duration"):
        return
    wait_ms = ms_of(said.orphaned_transaction_recovery_duration)
    if not 0 <= wait_ms <= config.max_recovery_ms:
        raise Refused(
            pb.BAD_REQUEST,
            f"orphaned_transaction_recovery_duration is {wait_ms} ms: "
            f"it goes from 0 to {config.max_recovery_ms}",
        )
    if wait_ms:
        properties[well_known.CHECK_IMMUNITY_SECONDS] = str(-(-wait_ms // 1000))
