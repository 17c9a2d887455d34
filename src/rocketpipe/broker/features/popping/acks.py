"""What becomes of popped messages: acknowledged, or hidden for another while.

A receipt is good as long as the broker knows the pop that it names: until every message of it was
acknowledged or showed again. One that nobody was ever given is as unknown as one that is too old,
and is refused the same way; one that was acknowledged already is acknowledged again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from rocketpipe.broker.features.popping.check_points import CheckPoint, check_point
from rocketpipe.broker.features.popping.in_flight import Acked, Flight
from rocketpipe.broker.features.popping.revive_log import ReviveLog
from rocketpipe.broker.tables.order import NotPopped, OrderedPop, OrderTable
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected
from rocketpipe.model.ids import ReceiptHandle
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode

#: Told of topic, group and queue when a queue popped in order may give its next messages.
Freed = Callable[[str, str, int], None]

#: RocketMQ's timer, which hides its messages, takes no longer delays.
MAX_INVISIBLE_MS: Final = 3 * 24 * 3600 * 1000
#: Of so many pops acknowledgements are written down together.
_AT_ONCE: Final = 256


class Receipt(NamedTuple):
    """Messages of one pop that somebody is done with."""

    topic: str
    group: str
    handle: ReceiptHandle
    offsets: Sequence[QueueOffset]


class Acks:
    """Takes acknowledgements, and wishes for more time."""

    def __init__(
        self, revive_log: ReviveLog, orders: OrderTable, clock: Clock, broker: str, freed: Freed
    ) -> None:
        """``broker`` is the name that receipts of this broker have."""
        self._revive_log = revive_log
        self._orders = orders
        self._clock = clock
        self._broker = broker
        self._freed = freed

    async def acknowledge(
        self, topic: str, group: str, handle: ReceiptHandle, offsets: Sequence[QueueOffset]
    ) -> None:
        """Have messages of one pop never show again.

        Raises:
            RequestRejected: The receipt is of no pop that is known, or the store takes nothing.
        """
        await self.acknowledge_all([Receipt(topic, group, handle, offsets)])

    async def acknowledge_all(self, receipts: Sequence[Receipt]) -> None:
        """Have messages of several pops never show again, written down together.

        Raises:
            RequestRejected: As `acknowledge`, of one of them; the others are acknowledged.
        """
        refused: RequestRejected | None = None
        for receipt in receipts:
            if receipt.handle.is_ordered:
                try:
                    await self._acknowledge_in_order(receipt)
                except RequestRejected as error:
                    refused = refused or error
        others = [receipt for receipt in receipts if not receipt.handle.is_ordered]
        for first in range(0, len(others), _AT_ONCE):
            turn: list[Acked] = []
            for receipt in others[first : first + _AT_ONCE]:
                try:
                    self._take(receipt, turn)
                except RequestRejected as error:
                    refused = refused or error
            try:
                await self.acknowledge_together(turn)
            except RequestRejected as error:
                refused = error  # rather than of one whose time is over: this may be asked again
        if refused is not None:
            raise refused

    async def _acknowledge_in_order(self, receipt: Receipt) -> None:
        self._check_broker(receipt.handle)
        for offset in receipt.offsets:
            await self._acknowledge_ordered(receipt.topic, receipt.group, receipt.handle, offset)

    def _take(self, receipt: Receipt, turn: list[Acked]) -> None:
        """Mark what can be acknowledged, to be written down with the rest of a turn."""
        handle, offsets = receipt.handle, receipt.offsets
        self._check_broker(handle)
        flight = self._flight(receipt.topic, receipt.group, handle, offsets)
        if flight is None:
            return
        in_time = [offset for offset in offsets if not flight.is_shown(offset)]
        if in_time:
            turn.append(Acked(flight, in_time))
        if len(in_time) < len(offsets):
            raise _unknown(handle)  # the others show again, and may be with somebody else by now

    def open_flight(
        self, topic: str, group: str, handle: ReceiptHandle, offset: int
    ) -> Flight | None:
        """The pop whose message can be acknowledged; None if more than that is to be done.

        Raises:
            RequestRejected: The receipt is of no pop that is known.
        """
        self._check_broker(handle)
        if handle.is_ordered:
            return None
        flight = self._flight(topic, group, handle, (QueueOffset(offset),))
        return None if flight is None or flight.is_shown(offset) else flight

    async def acknowledge_together(self, turn: Sequence[Acked]) -> None:
        """Have messages of several pops never show again; each pop was found by `open_flight`.

        Raises:
            RequestRejected: The store takes nothing now, or it is not known whether it did.
        """
        if turn:
            await self._revive_log.acked_together(turn)

    async def hide(
        self,
        topic: str,
        group: str,
        handle: ReceiptHandle,
        offset: QueueOffset,
        invisible_ms: int,
    ) -> tuple[int, int]:
        """Have a message show again later or sooner; gives its new pop and invisible times.

        Raises:
            RequestRejected: The receipt is of no pop that is known, or the store takes nothing.
        """
        self._check_broker(handle)
        if not 0 <= invisible_ms <= MAX_INVISIBLE_MS:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"invisibleTime {invisible_ms} is illegal: it goes from 0 to {MAX_INVISIBLE_MS}",
            )
        now_ms = self._clock.now_ms()
        if handle.is_ordered:
            return await self._hide_ordered(topic, group, handle, offset, now_ms + invisible_ms)
        flight = self._flight(topic, group, handle, [offset])
        if flight is None or flight.is_acked(offset):
            raise _unknown(handle)
        point = check_point(
            topic=topic,
            group=group,
            queue_id=handle.queue_id,
            start=offset,
            offsets=[offset],
            pop_ms=now_ms,
            invisible_ms=invisible_ms,
            broker=self._broker,
        )
        if point.key == flight.point.key:
            # The pop was of this message alone, and of this very millisecond.
            point = msgspec.structs.replace(
                point, pop_ms=now_ms + 1, invisible_ms=max(0, invisible_ms - 1)
            )
        await self._revive_log.moved(flight, offset, point)
        return point.pop_ms, point.invisible_ms

    async def _hide_ordered(
        self, topic: str, group: str, handle: ReceiptHandle, offset: QueueOffset, until_ms: int
    ) -> tuple[int, int]:
        place = (topic, group, handle.queue_id)
        before = self._orders.get(*place)
        pop = self._orders.hide(*place, offset, handle.pop_ms, until_ms)
        if pop is None:
            raise _unknown(handle)
        try:
            # Noted before it is answered: a broker that is killed would show it to another
            # while whoever asked for more time is at it.
            await self._revive_log.ordered(self._noted(*place, pop), pop.next_offset, wait=True)
        except RequestRejected:
            if self._orders.get(*place) == pop:
                self._orders.put_back(*place, before)
            raise
        if not self._orders.is_blocked(*place, None, self._clock.now_ms()):
            self._freed(*place)
        return handle.pop_ms, until_ms - handle.pop_ms

    def _check_broker(self, handle: ReceiptHandle) -> None:
        if handle.broker != self._broker:
            raise RequestRejected(
                ResponseCode.NO_MESSAGE,
                f"the receipt is of broker {handle.broker[:64]!r}, this one is {self._broker!r}",
            )

    def _flight(
        self, topic: str, group: str, handle: ReceiptHandle, offsets: Sequence[QueueOffset]
    ) -> Flight | None:
        """The pop that a receipt is of; None if all of it was acknowledged."""
        key = (topic, group, handle.queue_id, handle.start_offset, handle.pop_ms)
        flight = self._revive_log.flights.get(key)
        if flight is None:
            if self._revive_log.flights.was_finished(key):
                return None
            raise _unknown(handle)
        if not all(flight.holds(offset) for offset in offsets):
            raise _unknown(handle)
        return flight

    async def _acknowledge_ordered(
        self, topic: str, group: str, handle: ReceiptHandle, offset: QueueOffset
    ) -> None:
        queue_id = handle.queue_id
        place = self._revive_log.places.next(group, topic, queue_id)
        if place is not None and offset < place:
            return  # it was acknowledged before
        try:
            pop = self._orders.acknowledge(topic, group, queue_id, offset, handle.pop_ms)
        except NotPopped:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{place}, "
                f"commit:{offset}: the last pop did not give it",
            ) from None
        if pop is None:
            raise _unknown(handle)
        point = self._noted(topic, group, queue_id, pop)
        await self._revive_log.ordered(point, pop.next_offset, wait=True)
        if not self._orders.is_blocked(topic, group, queue_id, None, self._clock.now_ms()):
            self._freed(topic, group, queue_id)

    def _noted(self, topic: str, group: str, queue_id: int, pop: OrderedPop) -> CheckPoint:
        return check_point(
            topic=topic,
            group=group,
            queue_id=queue_id,
            start=pop.offsets[0],
            offsets=pop.offsets,
            pop_ms=pop.pop_ms,
            invisible_ms=pop.invisible_ms or 0,
            broker=self._broker,
            ordered=True,
            acked=pop.acked,
            shows_ms=pop.shows_ms,
        )


def _unknown(handle: ReceiptHandle) -> RequestRejected:
    return RequestRejected(
        ResponseCode.NO_MESSAGE,
        f"the receipt handle [{handle}] is not valid: its time is over, or nobody was given it; "
        "the message comes again unless it was acknowledged",
    )
