"""The one way by which messages get into the store: sends, send-backs and what falls due.

What the store says no to becomes the code and the remark that RocketMQ's producers know:

    too long, or not a message at all             13 MESSAGE_ILLEGAL
    disk full, store failed or closed             14 SERVICE_NOT_AVAILABLE
    stored, but not synced in time                10 FLUSH_DISK_TIMEOUT, which is an answer
    stored, and no slave is there to have it      11 SLAVE_NOT_AVAILABLE, likewise
    stored, but not acknowledged in time          12 FLUSH_SLAVE_TIMEOUT, likewise; where leaders
                                                  are elected 1, as producers take 12 for success
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rocketpipe.broker.counts import sizes_of
from rocketpipe.broker.intake.admission import Admission
from rocketpipe.broker.intake.message_type import letter_of, message_type
from rocketpipe.broker.intake.room import Room
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.broker.stats import Stats
from rocketpipe.errors import (
    InvalidName,
    RecordError,
    RequestRejected,
    RocketPipeError,
    StoreError,
)
from rocketpipe.model.ids import offset_id
from rocketpipe.model.names import is_dlq_topic
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.store.errors import RecordTooLarge
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.store.message_store import MessageStore

#: What can only be wrong with the message: another one may go through.
UNSTORABLE: Final = (RecordError, RecordTooLarge, InvalidName)


@dataclass(frozen=True, slots=True)
class Stored:
    """Where messages went, and how a send that stored them is answered."""

    placed: Sequence[Appended]
    code: int

    @property
    def is_safe(self) -> bool:
        """Whether they are as safe as the broker can make them now, or that is not known yet."""
        return is_safe(self.code)

    @property
    def first_offset(self) -> QueueOffset:
        """The place of the first in its queue."""
        return self.placed[0].queue_offset


class Intake:
    """Stores messages, and waits until they are as safe as they have to be."""

    def __init__(
        self,
        store: MessageStore,
        visibility: Visibility,
        admission: Admission,
        store_host: bytes,
        stats: Stats | None = None,
    ) -> None:
        """``store_host`` is this broker as message ids name it: 8 or 20 bytes."""
        self._stats = stats
        self._store = store
        #: How much a message may have, so that this takes what becomes of it later.
        self.room = Room(store.commit_log.segment_bytes)
        self._visibility = visibility
        self._admission = admission
        self._store_host = store_host

    def admit(self) -> None:
        """Let one more request in that stores something.

        Raises:
            RequestRejected: The broker is too busy, or takes nothing now.
        """
        refusal = self._admission.refusal()
        if refusal is not None:
            raise RequestRejected(*refusal)

    async def send(self, puts: Sequence[Put], *, wait: bool) -> Stored:
        """Store what a client sent, as `take` does; what is not known to stay may be an error too.

        Raises:
            RequestRejected: They were not stored, or it is not known whether they stay.
        """
        stored = await self.take(puts, wait=wait)
        refusal = self._visibility.refused(stored.code)
        if refusal is not None:
            raise RequestRejected(*refusal)
        return stored

    async def take(self, puts: Sequence[Put], *, wait: bool, together: bool = True) -> Stored:
        """Store messages together, all of them or none.

        Not ``together``, they are stored with one write, and a kill may leave the first of them.
        Without ``wait`` the page cache is enough, whatever the broker promises otherwise.

        Raises:
            RequestRejected: They were not stored, or it is not known whether they stay.
        """
        self._visibility.check_leads()
        try:
            began_ms = self._stats.now_ms if self._stats is not None else 0
            groups = self._store.append([puts] if together else [[put] for put in puts])
            placed = [each for group in groups for each in group]
            if self._stats is not None:
                self._stats.stored_in(self._stats.now_ms - began_ms)
            code = await self._visibility.settled(placed[-1].end, wait=wait)
        except UNSTORABLE as error:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: {error}"
            ) from error
        except StoreError as error:
            if self._stats is not None:
                self._stats.put_failed()
            raise unavailable(error) from error
        self._count(puts, placed)
        return Stored(placed, code)

    async def put(self, puts: Sequence[Put]) -> LogOffset:
        """Store messages of the broker's own with one write; gives the log's end behind them.

        They show as soon as the broker's promise allows; nobody waits for that here.

        Raises:
            StoreError: The store takes nothing now, or one of them does not fit; none was stored.
            RecordError: One of them is no message; none was stored.
            InvalidName: The same.
        """
        try:
            self._visibility.check_leads()
        except RequestRejected as error:
            raise StoreError(error.remark) from error
        placed = self._store.append([[put] for put in puts])
        end = placed[-1][-1].end
        self._count(puts, [each for (each,) in placed])
        await self._visibility.settled(end, wait=False)
        return end

    def _count(self, puts: Sequence[Put], placed: Sequence[Appended]) -> None:
        if self._stats is not None:
            for put, each in zip(puts, placed, strict=True):
                self._stats.put(put.topic, 1, each.size, sizes_of((each.size,)), message_type(put))
                if is_dlq_topic(put.topic):
                    self._stats.counts.dead_letter(*letter_of(put))

    def ids(self, stored: Stored) -> str:
        """The offset ids of stored messages, joined by commas as a batch's answer has them."""
        return ",".join(offset_id(self._store_host, each.log_offset) for each in stored.placed)


def is_safe(code: int) -> bool:
    """Whether what was stored with this code is as safe as the broker can make it now."""
    return code in (ResponseCode.SUCCESS, ResponseCode.SLAVE_NOT_AVAILABLE)


def unsettled(code: int) -> RequestRejected:
    """The refusal of what is stored with this code, where nobody may go on before it is safe."""
    done = "synced" if code == ResponseCode.FLUSH_DISK_TIMEOUT else "acknowledged"
    return RequestRejected(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        f"service not available now: stored, but not {done} in time; ask again",
    )


def unavailable(error: StoreError) -> RequestRejected:
    """The refusal of a send that the store does not take now, or may have lost."""
    return RequestRejected(
        ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {error}"
    )


def unreadable(error: RocketPipeError) -> RequestRejected:
    """The refusal of a read: to be asked again where the store is about to put it right."""
    code = ResponseCode.SYSTEM_BUSY if error.retryable else ResponseCode.SYSTEM_ERROR
    return RequestRejected(code, str(error))
