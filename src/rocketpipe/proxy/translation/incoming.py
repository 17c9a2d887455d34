"""A stored message as a gRPC consumer receives it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.model import flags
from rocketpipe.model import properties as well_known
from rocketpipe.proxy.translation.outgoing import is_users
from rocketpipe.proxy.translation.times import set_ms
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.record.codec import RecordView

_DELAYS: Final = (
    well_known.DELAY,
    well_known.TIMER_DELIVER_MS,
    well_known.TIMER_DELAY_SEC,
    well_known.TIMER_DELAY_MS,
    well_known.START_DELIVER_TIME,
)


def stored(record: RecordView, topic: pb.Resource) -> pb.Message:
    """Translate what is the same for whoever reads it; ``topic`` is as the client named it.

    Raises:
        RecordError: The body is not the one that was stored.
    """
    properties = record.properties
    body, encoding = _body(record)
    message = pb.Message(topic=topic, body=body)
    users = message.user_properties
    for name, value in properties.items():
        if is_users(name):
            users[name] = value
    said = message.system_properties
    _add_named(said, properties)
    said.message_id = properties.get(well_known.UNIQ_KEY) or record.offset_id
    said.body_encoding = encoding
    said.body_digest.type = pb.MD5
    said.body_digest.checksum = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    said.message_type = kind_of(properties)
    set_ms(said.born_timestamp, record.born_ms)
    said.born_host = str(record.born_host)
    set_ms(said.store_timestamp, record.stored_ms)
    said.store_host = str(record.store_host)
    said.queue_id = record.queue_id
    said.queue_offset = record.queue_offset
    said.delivery_attempt = record.reconsume_times + 1
    return message


def received(message: PoppedMessage, topic: pb.Resource, handle: str) -> pb.Message:
    """Translate a message that is handed out for a while.

    Raises:
        RecordError: The body is not the one that was stored.
    """
    found = stored(message, topic)
    said = found.system_properties
    said.receipt_handle = handle
    set_ms(said.invisible_duration, message.handle.invisible_ms)
    return found


def takes_long(record: RecordView) -> bool:
    """Whether its body has to be inflated."""
    sys_flag = record.sys_flag
    return bool(sys_flag & flags.COMPRESSED) and not _is_zlib(sys_flag)


def kind_of(properties: Mapping[str, str]) -> pb.MessageType:
    """What kind of message it was sent as."""
    if properties.get(well_known.TRANSACTION_PREPARED, "").lower() == "true":
        return pb.TRANSACTION
    if any(name in properties for name in _DELAYS):
        return pb.DELAY
    return pb.FIFO if well_known.SHARDING_KEY in properties else pb.NORMAL


def _body(record: RecordView) -> tuple[bytes, pb.Encoding]:
    """The body as it travels: clients inflate zlib where gzip is announced, and nothing else."""
    sys_flag = record.sys_flag
    if sys_flag & flags.COMPRESSED and _is_zlib(sys_flag):
        return record.stored_body, pb.GZIP
    return record.body, pb.IDENTITY


def _is_zlib(sys_flag: int) -> bool:
    return flags.compression_of(sys_flag) is flags.Compression.ZLIB


def _add_named(said: pb.SystemProperties, properties: Mapping[str, str]) -> None:
    get = properties.get
    if tag := get(well_known.TAGS):
        said.tag = tag
    if keys := get(well_known.KEYS):
        said.keys.extend(well_known.split_keys(keys))
    if group := get(well_known.SHARDING_KEY):
        said.message_group = group
    if trace := get(well_known.TRACE_CONTEXT):
        said.trace_context = trace
    due = get(well_known.TIMER_DELIVER_MS) or get(well_known.TIMER_OUT_MS) or ""
    if due.isascii() and due.isdigit() and len(due) < 15:
        set_ms(said.delivery_timestamp, int(due))
    if (dead := get(well_known.DLQ_ORIGIN_TOPIC)) is not None:
        said.dead_letter_queue.topic = dead
        said.dead_letter_queue.message_id = get(well_known.DLQ_ORIGIN_MESSAGE_ID, "")
