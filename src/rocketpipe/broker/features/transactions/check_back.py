"""Asks producers how the transactions ended of which they said nothing.

    every transactionCheckInterval     what is older than transactionTimeOut, or than the immunity
                                       that its producer asked for, is put again with one check
                                       more, and then some member of its group is asked
    after transactionCheckMax of them  it goes to TRANS_CHECK_MAX_TIME_TOPIC, and a warning says so

A producer that is gone need not come back: any producer of its group will do. Where there is none
the check counts all the same, as it does at RocketMQ's brokers: nothing waits for ever. What was
put again is at the end of the log, so nothing that waits is removed with age; what its producer
wants left alone for longer than the log is kept is given up before it would be removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, cast

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.features.transactions.decisions import Asked, Decisions
from rocketpipe.broker.features.transactions.open_transactions import OpenTransactions, Outcome
from rocketpipe.broker.intake import half_messages
from rocketpipe.broker.intake.half_messages import Half
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.clock import Clock
from rocketpipe.errors import ConnectionLost, RecordError, RequestRejected, StoreError
from rocketpipe.model import properties
from rocketpipe.model.ids import offset_id
from rocketpipe.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.callbacks import CheckTransactionState
from rocketpipe.record.codec import RecordView, encode_record
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.store.errors import RecordCorrupt, RecordMissing
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.store.message_store import MessageStore

log = logging.getLogger(__name__)

#: So many are put again with one write, and no more bytes than these if they are long.
_BATCH: Final = 32
_BATCH_BYTES: Final = 256 * 1024
_HOUR_MS: Final = 3_600_000
#: Refusals that are about the store, and not about the message: the round is over.
_NOT_NOW: Final = (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLUSH_DISK_TIMEOUT)


class CheckBack:
    """Looks for open transactions from time to time, and asks about them."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        waiting: OpenTransactions,
        decisions: Decisions,
        topic_provider: TopicProvider,
        ask: Callable[[Put, Appended], None],
        clock: Clock,
    ) -> None:
        """``ask`` has a producer asked about a half message."""
        self._config = config
        self._store = store
        self._waiting = waiting
        self._decisions = decisions
        self._topic_provider = topic_provider
        self._ask = ask
        self._clock = clock
        self._looked_ms = clock.monotonic_ms()

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings from now on."""
        self._config = config

    async def keep_asking(self) -> None:
        """Ask from time to time, until cancelled."""
        try:
            while True:
                await self._clock.sleep(self._config.transaction_check_every_ms)
                try:
                    await self.ask_all()
                except (StoreError, RequestRejected) as error:
                    log.warning("open transactions wait, and are tried again reason=%s", error)
                except Exception:
                    log.exception("open transactions wait, and are tried again")
        finally:
            self._store.flush()
            self._waiting.save_place(closing=True)

    async def ask_all(self) -> None:
        """Ask about every transaction that is due, and give up those that were asked too often.

        Raises:
            StoreError: The log cannot be read.
            RequestRejected: The store takes nothing now; what is left is for the next time.
        """
        self._waiting.catch_up()
        self._warn_of_lost()
        self._look()
        now_ms = self._clock.monotonic_ms()
        again: list[tuple[Half, RecordView]] = []
        size = 0
        for half in self._waiting:
            if self._waiting.get(half.origin) is not half:
                continue  # it was decided while the others were written
            age_ms = _age_ms(half, now_ms)
            is_spared = age_ms <= half.spared_ms(self._config.transaction_timeout_ms)
            # It would go with its part of the log before long, were it left alone. What may be
            # asked about is put again instead, however old: a clock that jumped while the broker
            # was down looks like age.
            too_old = is_spared and age_ms > self._store.config.reserved_hours * _HOUR_MS
            if is_spared and not too_old:
                continue
            try:
                newest = RecordView(self._store.record_at(half.log_offset))
            except (RecordCorrupt, RecordMissing, RecordError) as error:
                log.error("half message is damaged, and cannot be asked about reason=%s", error)
                continue
            if await self._decisions.was_committed(half, newest):
                continue
            if self._decisions.is_gone(newest):
                await self._decisions.write(half, newest, Outcome.ROLLED_BACK)
                continue
            if too_old or (half.checks and half.checks >= self._config.transaction_check_max):
                await self._try_to_give_up(half, newest)
                continue
            if again and (len(again) == _BATCH or size + newest.size > _BATCH_BYTES):
                await self._put_again(again)
                again, size = [], 0
            again.append((half, newest))
            size += newest.size
        if again:
            await self._put_again(again)
        self._waiting.save_place()

    def _look(self) -> None:
        """Note how old each is that was not there before; from then on time itself counts.

        Whatever the wall clock says: none that came in this run is older than the last look, and
        none is younger than nothing.
        """
        wall_ms, now_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        for half in self._waiting:
            if half.seen_ms is None:
                age_ms = wall_ms - half.began_ms
                if not half.inherited:
                    age_ms = min(age_ms, now_ms - self._looked_ms)
                half.seen_ms, half.age_ms = now_ms, max(0, age_ms)
        self._looked_ms = now_ms

    def _warn_of_lost(self) -> None:
        lost = self._waiting.lost()
        if lost:
            log.error(
                "half messages expired with the log, undecided count=%d keys=%s",
                len(lost),
                ",".join(half.key for half in lost[:5]),
            )

    async def _try_to_give_up(self, half: Half, newest: RecordView) -> None:
        try:
            await self._give_up(half, newest)
        except RequestRejected as error:
            if error.code in _NOT_NOW:
                raise
            log.error(
                "transaction cannot be given up, and is left open key=%s reason=%s",
                half.key,
                error.remark,
            )

    async def _give_up(self, half: Half, newest: RecordView) -> None:
        log.warning(
            "transaction is given up, its message is kept for you in TRANS_CHECK_MAX_TIME_TOPIC "
            "topic=%s key=%s group=%s checks=%d",
            newest.properties.get(properties.REAL_TOPIC),
            half.key,
            newest.properties.get(properties.PRODUCER_GROUP),
            half.checks,
        )
        await self._topic_provider.ensured(CHECK_MAX_TIME_TOPIC, queues=1)
        if self._waiting.get(half.origin) is half:
            await self._decisions.write(half, newest, Outcome.GIVEN_UP)

    async def _put_again(self, some: list[tuple[Half, RecordView]]) -> None:
        try:
            asked = await self._decisions.put_again(some)
        except RequestRejected as error:
            if error.code != ResponseCode.MESSAGE_ILLEGAL:
                raise
            # One of them is to blame, and is not to keep the others from being asked about.
            if len(some) > 1:
                for each in some:
                    await self._put_again([each])
                return
            asked = [self._where_it_is(*some[0])]
        for put, placed in asked:
            self._ask(put, placed)
        await asyncio.sleep(0)  # whoever wants to be served has a turn

    def _where_it_is(self, half: Half, newest: RecordView) -> Asked:
        """A half message that has no room to be put again, to be asked about where it is.

        How often that was is counted as long as the broker runs.
        """
        log.warning(
            "half message has no room to be put again, and is asked about where it is key=%s",
            half.key,
        )
        half.checks += 1
        place = Appended(newest.log_offset, newest.size, newest.queue_offset, newest.stored_ms)
        return half_messages.as_stored(newest), place


def _age_ms(half: Half, now_ms: int) -> int:
    return 0 if half.seen_ms is None else half.age_ms + now_ms - half.seen_ms


class ProducerGroups:
    """Asks the producers of a group in turn, each time another one."""

    def __init__(
        self,
        connected: ClientTable,
        broker_name: str,
        store_host: bytes,
        may_decide: Callable[[Any, str], bool] = lambda by, topic: True,
    ) -> None:
        """``may_decide`` tells whether somebody may send to a topic, and so be shown a message."""
        self._may_decide = may_decide
        self._connected = connected
        self._broker_name = broker_name
        self._store_host = store_host
        self._turn = 0

    def ask(self, half: Put, placed: Appended) -> None:
        """Ask one producer of the half message's group, if there is one that listens."""
        said = properties.decode_bytes(half.properties)
        group = said.get(properties.PRODUCER_GROUP, "")
        key = said.get(properties.UNIQ_KEY)
        question = CheckTransactionState(
            topic=HALF_TOPIC,
            tran_state_table_offset=placed.queue_offset,
            commit_log_offset=placed.log_offset,
            msg_id=key,
            transaction_id=key,
            offset_msg_id=offset_id(self._store_host, placed.log_offset),
            broker_name=self._broker_name,
            message=encode_record(half_messages.as_asked(half, placed, self._store_host)),
        )
        topic = said.get(properties.REAL_TOPIC, "")
        # Whoever connects may say to be of a group: the message is for those who could send it.
        members = [
            each for each in self._connected.producers(group) if self._may_decide(each.by, topic)
        ]
        self._turn += 1
        for number in range(len(members)):
            client = members[(self._turn + number) % len(members)]
            peer = cast("PeerConnection", client.connection)
            if peer.is_slow:
                continue  # it does not take what is there
            try:
                peer.tell(question)
            except ConnectionLost:
                continue  # it is about to be forgotten
            return
        log.info("nobody is there to ask about a transaction group=%s key=%s", group, key)
