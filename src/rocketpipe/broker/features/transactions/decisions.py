"""Ends transactions: the first decision counts, whoever comes with it and however often.

A committed message and the op message by which its half message is done are one group of the log:
a broker that dies has written both or neither. So a decision that is repeated after that finds the
message there, and does not store it twice.

    late, and the same as the first           answered as the first was
    late, and commits what was rolled back    201 TRANSACTION_SHOULD_ROLLBACK
    late, and rolls back what was committed   200 TRANSACTION_SHOULD_COMMIT
    late, and it was given up meanwhile       202 TRANSACTION_STATE_UNKNOW
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from rocketpipe.broker.delivery.destinations import Destinations
from rocketpipe.broker.features.transactions.open_transactions import (
    Ended,
    OpenTransactions,
    Outcome,
)
from rocketpipe.broker.intake import half_messages
from rocketpipe.broker.intake.half_messages import Half
from rocketpipe.broker.intake.intake import Intake, is_safe, unavailable
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.errors import RecordError, RequestRejected, StoreError
from rocketpipe.model import properties
from rocketpipe.model.flags import Transaction, transaction_of
from rocketpipe.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.record.codec import RecordView
from rocketpipe.store.errors import RecordCorrupt, RecordMissing
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

#: Messages with one unique key that are looked at for one that was committed.
_MOST_ALIKE: Final = 64
_FOREVER_MS: Final = (1 << 62) - 1
#: Where a message waits that was committed with a delay.
_PARKED: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)
_ANSWERS: Final = {
    Outcome.COMMITTED: ResponseCode.TRANSACTION_SHOULD_COMMIT,
    Outcome.ROLLED_BACK: ResponseCode.TRANSACTION_SHOULD_ROLLBACK,
    Outcome.GIVEN_UP: ResponseCode.TRANSACTION_STATE_UNKNOW,
}


#: A half message as it was put again, and where.
Asked = tuple[Put, Appended]


class Decisions:
    """Writes how transactions end, and that they are asked about."""

    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        visibility: Visibility,
        waiting: OpenTransactions,
        *,
        done: Callable[[list[QueueOffset]], Put],
        park: Callable[[Put], Put],
        destinations: Destinations | None = None,
        ended: Callable[[Half, Outcome], None] | None = None,
    ) -> None:
        """``done`` makes op messages; ``park`` has a message wait that is committed with a delay.

        ``ended`` is told of every end that is stored.

        ``park`` raises ``RequestRejected`` if its delay is one that nobody can wait for.
        """
        self._store = store
        self._intake = intake
        self._room = intake.room
        self._destinations = destinations
        self._visibility = visibility
        self._waiting = waiting
        self._done = done
        self._park = park
        self._ended = ended
        #: Unique keys of what is about to be a half message again.
        self._resuming: set[str] = set()

    async def end(self, half: RecordView, outcome: Outcome) -> None:
        """End the transaction of a half message; on return that is as durable as it has to be.

        ``half`` may be any copy of it.

        Raises:
            RequestRejected: It has ended otherwise, or its end could not be stored.
        """
        self._waiting.catch_up()
        origin = Half.of(half).origin
        await self._waiting.settled(origin)
        known = self._waiting.get(origin)
        if known is None:
            await self._come_late(half, origin, outcome)
            return
        newest = half if known.offset == half.queue_offset else self._read(known.log_offset)
        if await self.was_committed(known, newest):
            await self._come_late(half, origin, outcome)
        else:
            await self.write(known, newest, outcome)

    async def was_committed(self, known: Half, newest: RecordView) -> bool:
        """Whether a half message that another run left was committed; then it waits no longer.

        Apache's brokers write op messages some seconds after the messages, and die in between.

        Raises:
            RequestRejected: It was, and this could not be stored.
        """
        if not known.inherited:
            return False
        if self._find_outcome(newest) is not Outcome.COMMITTED:
            known.inherited = False
            return False
        log.info("half message was committed by another run key=%s", known.key)
        await self._write(known, [self._done([known.offset])], Outcome.COMMITTED)
        return True

    async def write(self, known: Half, newest: RecordView, outcome: Outcome) -> None:
        """Write the end of a transaction that is open now, and wait until it stays.

        Raises:
            RequestRejected: It could not be stored, and is open still; or it is not known whether
                its end stays.
        """
        op = self._done([known.offset])
        if self.is_gone(newest):
            group = [op]  # with its topic
        elif outcome is Outcome.COMMITTED:
            message = half_messages.committed(newest)
            if message is None:
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR,
                    f"half message {newest.offset_id} does not say which topic it belongs to",
                )
            parked = self._park(message)
            if parked is message:
                group = [self._room.squeezed(message, grouped=True), op]
            else:
                group = [self._room.fitted(parked, grouped=True) or parked, op]
        elif outcome is Outcome.GIVEN_UP:
            given_up = half_messages.given_up(newest)
            # With all that a resumed one needs, if that can be.
            given_up = self._room.fitted(given_up, grouped=True) or self._room.squeezed(
                given_up, grouped=True
            )
            group = [given_up, op]
        else:
            group = [op]
        await self._write(known, group, outcome)

    def is_gone(self, half: RecordView) -> bool:
        """Whether a half message is of a topic that was deleted since."""
        topic, gone = half.properties.get(properties.REAL_TOPIC, ""), self._destinations
        return gone is not None and gone.is_gone(topic, half.log_offset)

    async def _write(self, known: Half, group: Sequence[Put], outcome: Outcome) -> None:
        # From here to the append nothing is awaited: two decisions cannot both be the first.
        ended = self._waiting.end(known, outcome)
        before = self._store.positions.written
        try:
            stored = await self._intake.take(group, wait=True)
        except BaseException:
            if self._store.positions.written == before:
                self._waiting.reopen(known)
            raise
        finally:
            if ended.end is None:
                ended.end = self._store.positions.written
        if self._ended is not None:
            self._ended(known, outcome)
        self._check_safe(stored.code)

    async def resume(self, message: RecordView) -> None:
        """Have a transaction asked about from the first check on, given up or open still.

        What was given up is a half message again. To ask for the same twice changes nothing.

        Raises:
            RequestRejected: It was decided, or it is no half message; or it could not be stored.
        """
        self._waiting.catch_up()
        if message.topic == HALF_TOPIC:
            await self._begin_again(message)
            return
        said = message.properties
        key, topic = said.get(properties.UNIQ_KEY, ""), said.get(properties.REAL_TOPIC)
        if message.topic != CHECK_MAX_TIME_TOPIC or topic is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"{message.offset_id} is no half message, and none that was given up: those are "
                f"in {CHECK_MAX_TIME_TOPIC}",
            )
        if self._waiting.is_open(key):
            return
        if key in self._resuming:
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, "it is being resumed: ask again")
        if any(_is_committed(found) for found in self._alike(key, (topic, *_PARKED))):
            raise _decided(Outcome.COMMITTED)
        self._resuming.add(key)
        try:
            stored = await self._intake.take([half_messages.resumed(message)], wait=True)
        finally:
            self._resuming.discard(key)
        self._check_safe(stored.code)

    async def _begin_again(self, message: RecordView) -> None:
        origin = Half.of(message).origin
        await self._waiting.settled(origin)
        known = self._waiting.get(origin)
        if known is None:
            ended = self._waiting.ended(origin)
            raise _decided(self._find_outcome(message) if ended is None else ended.outcome)
        checks, known.checks = known.checks, -1  # one more makes none
        try:
            await self.put_again([(known, self._read(known.log_offset))])
        finally:
            if known.checks < 0:
                known.checks = checks

    async def put_again(self, some: Sequence[tuple[Half, RecordView]]) -> list[Asked]:
        """Put half messages again, each with one check more; gives those that are open still.

        Raises:
            RequestRejected: They could not be stored, and are where they were.
        """
        still = [(half, newest) for half, newest in some if self._waiting.get(half.origin) is half]
        if not still:
            return []
        halves = [half for half, _ in still]
        puts = []
        for half, newest in still:
            put = half_messages.asked_again(newest, half)
            puts.append(self._room.fitted(put, grouped=True) or put)
        op = self._done([half.offset for half in halves])
        self._waiting.move(halves)
        placed: list[Appended] = []
        try:
            stored = await self._intake.take([*puts, op], wait=True)
            placed = list(stored.placed[:-1])
        finally:
            self._waiting.moved(halves, placed)
        return list(zip(puts, placed, strict=True))

    async def _come_late(self, half: RecordView, origin: QueueOffset, outcome: Outcome) -> None:
        ended = self._waiting.ended(origin) or Ended(self._find_outcome(half))
        if ended.outcome is not outcome:
            raise _decided(ended.outcome)
        end = ended.end or self._store.positions.written
        try:
            code = await self._visibility.settled(end, wait=True)
        except StoreError as error:
            raise unavailable(error) from error
        self._check_safe(code)

    def _check_safe(self, code: int) -> None:
        refusal = self._visibility.refused(code)
        if refusal is not None:
            raise RequestRejected(*refusal)
        if not is_safe(code):
            raise RequestRejected(
                code,
                "the decision is stored and not durable yet: repeat it, and the answer says when "
                "it is",
            )

    def _find_outcome(self, half: RecordView) -> Outcome:
        """How a transaction ended long ago, as the log has it."""
        said = half.properties
        key, topic = said.get(properties.UNIQ_KEY), said.get(properties.REAL_TOPIC)
        if key is None or topic is None:
            return Outcome.ROLLED_BACK
        origin = Half.of(half).origin
        for found in self._alike(key, (topic, *_PARKED, CHECK_MAX_TIME_TOPIC)):
            outcome = _outcome_in(found, half, origin)
            if outcome is not None:
                return outcome
        return Outcome.ROLLED_BACK

    def _alike(self, key: str, topics: Sequence[str]) -> Iterator[RecordView]:
        """Messages with a unique key, in one topic after another."""
        for topic in topics:
            for log_offset in islice(
                self._store.find_by_key(topic, key, 0, _FOREVER_MS), _MOST_ALIKE
            ):
                try:
                    yield RecordView(self._store.record_at(log_offset))
                except (RecordCorrupt, RecordMissing, RecordError) as error:
                    log.error("message is damaged, and cannot be compared reason=%s", error)

    def _read(self, log_offset: LogOffset) -> RecordView:
        try:
            return RecordView(self._store.record_at(log_offset))
        except StoreError as error:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"Find prepared transaction message failed: {error}"
            ) from error


def _outcome_in(message: RecordView, half: RecordView, origin: QueueOffset) -> Outcome | None:
    """How a transaction ended, if a message with its key is what came of it."""
    prepared = message.properties.get(properties.TRANSACTION_PREPARED_QUEUE_OFFSET)
    if message.topic == CHECK_MAX_TIME_TOPIC:
        # One that was never asked about is given up when it is as old as the log.
        return Outcome.GIVEN_UP if prepared in (None, str(origin)) else None
    if not _is_committed(message):
        return None
    if message.prepared_offset == half.log_offset or prepared == str(origin):
        return Outcome.COMMITTED
    # Copies that Apache's brokers made do not say of which one: their key has to do.
    said = half.properties
    is_theirs = (
        properties.TRANSACTION_CHECK_TIMES in said
        and properties.TRANSACTION_PREPARED_QUEUE_OFFSET not in said
    )
    return Outcome.COMMITTED if is_theirs else None


def _is_committed(message: RecordView) -> bool:
    """Whether a message is there because a transaction was committed."""
    return transaction_of(message.sys_flag) is Transaction.COMMITTED


def _decided(outcome: Outcome) -> RequestRejected:
    return RequestRejected(
        _ANSWERS[outcome], f"the transaction was {outcome.value} before, which stays so"
    )
