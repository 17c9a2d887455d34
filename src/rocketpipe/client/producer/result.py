"""What a producer learns about a message that it sent."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import msgspec

from rocketpipe.errors import HeaderError, rejection
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import RESPONSE, Command

#: What Java's clients assume where a broker does not say.
DEFAULT_REGION: Final = "DefaultRegion"

SUCCESS: Final = int(ResponseCode.SUCCESS)
_STORED: Final = frozenset(
    {
        SUCCESS,
        int(ResponseCode.FLUSH_DISK_TIMEOUT),
        int(ResponseCode.SLAVE_NOT_AVAILABLE),
        int(ResponseCode.FLUSH_SLAVE_TIMEOUT),
    }
)


# A struct where the house has dataclasses: one is made for each message, in a tenth of the time.
class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message went."""

    #: The id that the producer gave it; consumers see the same.
    message_id: str
    #: The queue that it went to.
    queue: MessageQueue
    #: Its place in that queue.
    queue_offset: QueueOffset
    #: Whether the broker has it as safe as it is set to; None when that is not known: flush or
    #: replication took too long, or the message did not ask for it.
    durable: bool | None
    #: Where it is stored: the broker's address and the place in its log.
    offset_id: str = ""
    #: Where the broker says that it is.
    region: str = DEFAULT_REGION
    #: Of a half message: how its transaction is called.
    transaction_id: str | None = None
    #: What ``Producer.recall`` takes, of a message that waits for its moment.
    recall_handle: str | None = None


class Stored(NamedTuple):
    """What a broker answered to a send, of one message or of a batch."""

    #: Whether it says that all is as safe as it is set to.
    sure: bool
    #: Of a batch, all of them joined by commas.
    offset_ids: str
    queue: MessageQueue
    queue_offset: int
    region: str
    transaction_id: str | None
    traced: bool
    recall_handle: str | None = None


_Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_HEADER_AT: Final = 8


class _SentFields(msgspec.Struct, frozen=True, gc=False):
    offset_ids: str = msgspec.field(name="msgId")
    queue_id: _Int32 = msgspec.field(name="queueId")
    queue_offset: _Int64 = msgspec.field(name="queueOffset")
    transaction_id: str | None = msgspec.field(name="transactionId", default=None)
    region: str | None = msgspec.field(name="MSG_REGION", default=None)
    trace_on: str | None = msgspec.field(name="TRACE_ON", default=None)
    recall_handle: str | None = msgspec.field(name="recallHandle", default=None)


class Sent(msgspec.Struct, frozen=True, gc=False):
    """The header of an answer that says where a message is stored."""

    code: _Int32
    opaque: _Int32
    flag: _Int32
    fields: _SentFields = msgspec.field(name="extFields")


# Values are strings on the wire; lax decoding turns them into numbers in the same pass.
_decode_sent: Final = msgspec.json.Decoder(Sent, strict=False).decode


def read_sent(buffer: bytes, at: int, body: int) -> Sent | None:
    """Read the answer in the frame at ``at``; None unless it says that a message is stored.

    Refusals, binary headers and anything unusual are for ``read_stored``, by way of a command.
    """
    if buffer[at + 4]:
        return None
    try:
        sent = _decode_sent(buffer[at + _HEADER_AT : body])
    except (ValueError, RecursionError):
        return None
    return sent if sent.flag & RESPONSE and sent.code in _STORED else None


def result_of_sent(sent: Sent, queue: MessageQueue, message_id: str) -> SendResult:
    """What the sender of a plain message is told, when all is as safe as it is set to."""
    assert sent.code == SUCCESS, "more is to be said of it"
    fields = sent.fields
    if fields.queue_id != queue.queue_id:  # it was left to the broker
        queue = msgspec.structs.replace(queue, queue_id=fields.queue_id)
    return SendResult(
        message_id,
        queue,
        QueueOffset(fields.queue_offset),
        True,
        fields.offset_ids,
        fields.region or DEFAULT_REGION,
        fields.transaction_id,
        fields.recall_handle,
    )


def stored_of(sent: Sent, queue: MessageQueue) -> Stored:
    """The same as ``read_stored``, of an answer that was read by ``read_sent``."""
    fields = sent.fields
    if fields.queue_id != queue.queue_id:  # it was left to the broker
        queue = msgspec.structs.replace(queue, queue_id=fields.queue_id)
    return Stored(
        sent.code == SUCCESS,
        fields.offset_ids,
        queue,
        fields.queue_offset,
        fields.region or DEFAULT_REGION,
        fields.transaction_id,
        fields.trace_on != "false",
        fields.recall_handle,
    )


def read_stored(command: Command, queue: MessageQueue) -> Stored:
    """Read the answer to a send to ``queue``.

    It does what ``read_reply`` does for a ``SendMessage``, in a fraction of the time.

    Raises:
        RequestRejected: If the broker refused the message.
        HeaderError: If the answer does not say where the message is.
    """
    code = command.code
    if code not in _STORED:
        raise rejection(code, command.remark or "refused without a remark")
    fields = command.fields
    try:
        queue_id = int(fields["queueId"])
        queue_offset = int(fields["queueOffset"])
        offset_ids = fields["msgId"]
    except KeyError as missing:
        raise HeaderError(f"the custom field <{missing.args[0]}> is null") from None
    except ValueError:
        raise HeaderError("an answer to a send whose queue is no number") from None
    if queue_id != queue.queue_id:  # it was left to the broker
        queue = msgspec.structs.replace(queue, queue_id=queue_id)
    return Stored(
        code == SUCCESS,
        offset_ids,
        queue,
        queue_offset,
        fields.get("MSG_REGION") or DEFAULT_REGION,
        fields.get("transactionId"),
        fields.get("TRACE_ON") != "false",
        fields.get("recallHandle"),
    )
