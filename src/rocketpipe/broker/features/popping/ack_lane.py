"""Acknowledgements in the fast path: those of one turn of the loop are written down together.

Consumers acknowledge message by message, and most acknowledgements of a turn are of a few pops. For
each pop one note is written, all of them at once, and then everybody is answered. Only what is
right by all rules is taken: ``handlers`` define these, and refuse what is not.
"""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache
from typing import Annotated, Final

import msgspec

from rocketpipe.broker.features.popping.acks import Acks
from rocketpipe.broker.features.popping.handlers import AckHandlers
from rocketpipe.broker.features.popping.in_flight import Acked, Flight
from rocketpipe.errors import InvalidName, RequestRejected
from rocketpipe.model.ids import ReceiptHandle
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import OUR_VERSION, RequestCode, ResponseCode
from rocketpipe.protocol.command import Command, refusal
from rocketpipe.protocol.connection import Frame
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.remoting.connection import PeerConnection

log = logging.getLogger(__name__)

_Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_START: Final = b'{"code":200051,'
_REPLY: Final = (
    b'{"code":0,"flag":1,"language":"PYTHON","opaque":%%d,"serializeTypeCurrentRPC":"JSON",'
    b'"version":%d}'
) % OUR_VERSION


class _Fields(msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    consumer_group: str
    topic: str
    queue_id: _Int32
    extra_info: str
    offset: _Int64
    bname: str = ""
    #: Others have looked at these.
    access_key: str = msgspec.field(name="AccessKey", default="")
    signature: str = msgspec.field(name="Signature", default="")


class _Header(msgspec.Struct, frozen=True, gc=False):
    code: _Int32
    opaque: _Int32
    fields: _Fields = msgspec.field(name="extFields")
    flag: _Int32 = 0
    version: _Int32 = 0


_decode: Final = msgspec.json.Decoder(_Header, strict=False).decode


class AckLane:
    """Takes acknowledgements of single messages."""

    def __init__(self, handlers: AckHandlers, acks: Acks) -> None:
        self._handlers = handlers
        self._acks = acks
        self._turn: dict[Flight, Acked] = {}
        #: Who waits for an answer, and to which request.
        self._waiting: list[tuple[PeerConnection, int]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, buffer: bytes, frame: Frame, peer: PeerConnection) -> bool:
        """Keep an acknowledgement for the end of the turn; False if it is for the router."""
        at, body, end = frame
        if buffer[at + 4] or not buffer.startswith(_START, at + 8) or body != end:
            return False
        try:
            header = _decode(buffer[at + 8 : body])
        except (ValueError, RecursionError):
            return False
        asked = header.fields
        prefix, _, last = asked.extra_info.rpartition(" ")
        handle = _handle(prefix)
        if header.flag or handle is None or last != str(asked.offset):
            return False
        try:
            topic = self._handlers.checked(
                asked.topic, asked.consumer_group, handle, asked.queue_id, asked.offset
            )
            flight = self._acks.open_flight(topic, asked.consumer_group, handle, asked.offset)
        except RequestRejected:
            return False
        if flight is None:
            return False
        # Marked at once: or it might show again before the turn is over.
        offset = QueueOffset(asked.offset)
        acked = self._turn.get(flight)
        if acked is None:
            acked = self._turn[flight] = Acked(flight)
        acked.add(offset)
        self._waiting.append((peer, header.opaque))
        return True

    def end_turn(self) -> None:
        """Write down what was acknowledged in this turn."""
        if self._turn:
            turn, waiting = list(self._turn.values()), self._waiting
            self._turn, self._waiting = {}, []
            task = asyncio.ensure_future(self._settle(turn, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Return once everything that was taken is answered."""
        self.end_turn()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _settle(self, turn: list[Acked], waiting: list[tuple[PeerConnection, int]]) -> None:
        refused: RequestRejected | None = None
        try:
            await self._acks.acknowledge_together(turn)
        except RequestRejected as error:
            refused = error
        except Exception:
            log.exception("acknowledgements failed requests=%d", len(waiting))
            refused = RequestRejected(
                ResponseCode.SYSTEM_ERROR, "AckMessage failed; the log says why"
            )
        for peer, opaque in waiting:
            peer.post(reply_to(opaque, refused))
        for peer in {peer: None for peer, _ in waiting}:
            peer.flush()


def reply_to(opaque: int, refused: RequestRejected | None) -> bytes:
    """The frame that says how a request of this number went."""
    if refused is not None:
        asked = Command(code=RequestCode.ACK_MESSAGE, opaque=opaque)
        return encode_frame(refusal(asked, refused.code, refused.remark))
    header = _REPLY % opaque
    size = len(header)
    return b"%b%b%b" % ((size + 4).to_bytes(4, "big"), size.to_bytes(4, "big"), header)


@lru_cache(maxsize=1024)
def _handle(prefix: str) -> ReceiptHandle | None:
    """The receipt of a pop, which is that of its messages but for their offsets; None if wrong."""
    try:
        return ReceiptHandle.parse(prefix)
    except InvalidName:
        return None
