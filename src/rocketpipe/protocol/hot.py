"""Sends and pulls on the wire, many at a time: bytes in, bytes out, no command in between.

``scan`` finds the frames of a whole receive buffer, ``read_send`` and ``read_pull`` pick a header
apart, ``send_reply`` and ``pull_reply_head`` write the answers. What is right is defined by
``frame``, ``fields`` and the request classes; a header that is at all unusual reads as None here
and is for the general path. Two liberties only: a number spelled ``1.0`` or ``1e2`` counts as
whole, and fields that no lane looks at are not checked.

Arguments are positional. ``_hot.pyx`` is the compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from struct import Struct
from typing import Annotated, Final

import msgspec

from rocketpipe import compiled
from rocketpipe.protocol.codes import OUR_VERSION, RequestCode
from rocketpipe.protocol.command import ONEWAY
from rocketpipe.protocol.frame import MAX_FRAME_BYTES, Bytes, bounds_at
from rocketpipe.protocol.json_dialect import quote

_Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

_HEAD: Final = Struct(">iI")
_unpack_head: Final = _HEAD.unpack_from
_pack_head: Final = _HEAD.pack
_WIDEST_JSON_WORD: Final = 0x00FFFFFF
_WIDEST_WORD: Final = 0x01FFFFFF

SEND: Final = int(RequestCode.SEND_MESSAGE)
SEND_V2: Final = int(RequestCode.SEND_MESSAGE_V2)
SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
PULL: Final = int(RequestCode.PULL_MESSAGE)
PULL_LITE: Final = int(RequestCode.LITE_PULL_MESSAGE)


def scan(
    data: Bytes, at: int, end: int, max_frame_bytes: int = MAX_FRAME_BYTES
) -> list[tuple[int, int, int]]:
    """Find the whole frames in ``data[at:end]``: where each starts, its body starts, it ends.

    What follows the last one is a frame still to come. A broken frame ends the list; the scan that
    starts at it raises.

    Raises:
        FrameError: If the first bytes are no frame, or one beyond the limit.
    """
    frames: list[tuple[int, int, int]] = []
    longest = max_frame_bytes - 4
    while end - at >= 8:
        length, word = _unpack_head(data, at)
        stop = at + 4 + length
        body = at + 8 + (word & _WIDEST_JSON_WORD)
        if length < 4 or length > longest or word > _WIDEST_WORD or body > stop:
            if not frames:
                bounds_at(data, at, end, max_frame_bytes)
                raise AssertionError("a frame that is broken in one place only")
            break
        if stop > end:
            break
        frames.append((at, body, stop))
        at = stop
    return frames


class _Aside(msgspec.Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """What else real peers put into a send, and no lane looks at.

    With any other field it is not for a lane: the general path takes either spelling of a name.
    """

    access_key: str = msgspec.field(name="AccessKey", default="")
    signature: str = msgspec.field(name="Signature", default="")
    channel: str = msgspec.field(name="OnsChannel", default="")
    token: str = msgspec.field(name="SecurityToken", default="")
    stream: str = msgspec.field(name="ReqT", default="")


class SendLetters(_Aside, frozen=True, gc=False, kw_only=True):
    """What a send says of its message, under the letters of code 310."""

    producer_group: str = msgspec.field(name="a")
    topic: str = msgspec.field(name="b")
    default_topic: str = msgspec.field(name="c")
    default_queues: _Int32 = msgspec.field(name="d")
    queue_id: _Int32 = msgspec.field(name="e")
    sys_flag: _Int32 = msgspec.field(name="f")
    born_ms: _Int64 = msgspec.field(name="g")
    flag: _Int32 = msgspec.field(name="h")
    properties: str = msgspec.field(name="i", default="")
    reconsume_times: _Int32 = msgspec.field(name="j", default=0)
    unit_mode: bool = msgspec.field(name="k", default=False)
    # Not None: the text "null" would be that.
    max_reconsume_times: _Int32 | msgspec.UnsetType = msgspec.field(name="l", default=msgspec.UNSET)
    batch: bool = msgspec.field(name="m", default=False)
    broker_name: str = msgspec.field(name="n", default="")


class SendNames(_Aside, frozen=True, gc=False, kw_only=True):
    """The same under the long names of code 10."""

    producer_group: str = msgspec.field(name="producerGroup")
    topic: str
    default_topic: str = msgspec.field(name="defaultTopic")
    default_queues: _Int32 = msgspec.field(name="defaultTopicQueueNums")
    queue_id: _Int32 = msgspec.field(name="queueId")
    sys_flag: _Int32 = msgspec.field(name="sysFlag")
    born_ms: _Int64 = msgspec.field(name="bornTimestamp")
    flag: _Int32
    properties: str = ""
    reconsume_times: _Int32 = msgspec.field(name="reconsumeTimes", default=0)
    unit_mode: bool = msgspec.field(name="unitMode", default=False)
    max_reconsume_times: _Int32 | msgspec.UnsetType = msgspec.field(
        name="maxReconsumeTimes", default=msgspec.UNSET
    )
    batch: bool = False
    broker_name: str = msgspec.field(name="bname", default="")


class PullNames(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pull asks for."""

    consumer_group: str
    topic: str
    queue_id: _Int32
    queue_offset: _Int64
    max_msg_nums: _Int32
    sys_flag: _Int32
    commit_offset: _Int64
    suspend_timeout_millis: _Int64
    sub_version: _Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: _Int32 | None = None
    bulk: bool | None = None


class SendHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a send in letters."""

    code: _Int32
    opaque: _Int32
    fields: SendLetters = msgspec.field(name="extFields")
    flag: _Int32 = 0
    version: _Int32 = 0


class LongSendHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a send in long names; its attributes are those of SendHeader."""

    code: _Int32
    opaque: _Int32
    fields: SendNames = msgspec.field(name="extFields")
    flag: _Int32 = 0
    version: _Int32 = 0


class PullHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a pull."""

    code: _Int32
    opaque: _Int32
    fields: PullNames = msgspec.field(name="extFields")
    flag: _Int32 = 0
    version: _Int32 = 0


# Values are strings on the wire; lax decoding turns them into numbers in the same pass.
_decode_send: Final = msgspec.json.Decoder(SendHeader, strict=False).decode
_decode_long_send: Final = msgspec.json.Decoder(LongSendHeader, strict=False).decode
_decode_pull: Final = msgspec.json.Decoder(PullHeader, strict=False).decode
_LONG_SEND_START: Final = b'{"code":10,'
_LONG_SEND_START_BYTES: Final = len(_LONG_SEND_START)


def read_send(data: Bytes, at: int, body: int) -> SendHeader | LongSendHeader | None:
    """Read the header of the frame at ``at`` if it is a send, of one message or of a batch.

    A send in a binary header and anything unusual are None. ``flag`` may be ONEWAY, else it is 0.
    """
    if data[at + 4]:
        return None
    start = at + 8
    header: SendHeader | LongSendHeader
    try:
        if data[start : start + _LONG_SEND_START_BYTES] == _LONG_SEND_START:
            header = _decode_long_send(data[start:body])
        else:
            header = _decode_send(data[start:body])
    except (ValueError, RecursionError):
        return None
    code = header.code
    if code != SEND_V2 and code != SEND and code != SEND_BATCH:
        return None
    return header if not header.flag or header.flag == ONEWAY else None


def read_pull(data: Bytes, at: int, body: int) -> PullHeader | None:
    """Read the header of the frame at ``at`` if it is a pull, else give None."""
    if data[at + 4]:
        return None
    try:
        header = _decode_pull(data[at + 8 : body])
    except (ValueError, RecursionError):
        return None
    if header.flag or (header.code != PULL and header.code != PULL_LITE):
        return None
    return header


def send_reply_tail(region: str, trace_on: bool, transaction_id: str | None = None) -> bytes:
    """The fields of a send's answer that rarely change, for ``send_reply``.

    Java producers fail on an answer without the region and the trace switch.
    """
    transaction = f'"transactionId":{quote(transaction_id)},' if transaction_id is not None else ""
    switch = "true" if trace_on else "false"
    return f'{transaction}"MSG_REGION":{quote(region)},"TRACE_ON":"{switch}"'.encode()


_SEND_REPLY: Final = (
    b'{"code":%%d,"extFields":{"msgId":"%%b%%016X","queueId":"%%d","queueOffset":"%%d",%%b},'
    b'"flag":1,"language":"PYTHON","opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
) % OUR_VERSION


def send_reply(
    opaque: int,
    code: int,
    host: bytes,
    log_offset: int,
    queue_id: int,
    queue_offset: int,
    tail: bytes,
) -> bytes:
    """The frame that tells a producer its message is stored, and by ``code`` how durable it is.

    ``host`` is the store's address and port as upper-case hex, which starts every message id;
    ``tail`` is of ``send_reply_tail``.
    """
    header = _SEND_REPLY % (code, host, log_offset, queue_id, queue_offset, tail, opaque)
    size = len(header)
    return _pack_head(size + 4, size) + header


def message_ids(host: bytes, log_offsets: list[int]) -> bytes:
    """The ids of a batch's messages but the last, for ``send_reply`` as its ``host``."""
    return b"".join([b"%b%016X," % (host, each) for each in log_offsets]) + host


_PULL_REPLY: Final = (
    b'{"code":%%d,"extFields":{"suggestWhichBrokerId":"%%d","nextBeginOffset":"%%d",'
    b'"minOffset":"%%d","maxOffset":"%%d"},"flag":1,"language":"PYTHON","opaque":%%d,'
    b'"remark":"%%b","serializeTypeCurrentRPC":"JSON","version":%d}'
) % OUR_VERSION


def pull_reply_head(
    opaque: int,
    code: int,
    broker_id: int,
    next_offset: int,
    min_offset: int,
    max_offset: int,
    remark: bytes,
    body_bytes: int,
) -> bytes:
    """The start of a pull's answer; ``body_bytes`` bytes of records must follow it.

    ``remark`` is a word that needs no quoting.
    """
    header = _PULL_REPLY % (code, broker_id, next_offset, min_offset, max_offset, opaque, remark)
    size = len(header)
    return _pack_head(size + 4 + body_bytes, size) + header


compiled.take_over(globals(), "rocketpipe.protocol._hot")
