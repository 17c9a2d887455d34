"""The parts of a broker that store messages, on a real store and a clock that tests turn."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.delivery.deferral import Deferral
from rocketpipe.broker.delivery.delay import DelayLevels
from rocketpipe.broker.delivery.destinations import Destinations
from rocketpipe.broker.delivery.retry import Retries
from rocketpipe.broker.delivery.single_sends import SingleSends
from rocketpipe.broker.handlers.sending import SendHandlers
from rocketpipe.broker.intake.admission import Admission, AdmissionLimits
from rocketpipe.broker.intake.intake import Intake
from rocketpipe.broker.intake.open_transaction_limit import OpenTransactionLimit
from rocketpipe.broker.intake.sent_properties import BrokerProperties
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.tables.queue_locks import QueueLocks
from rocketpipe.broker.tables.tables import Tables
from rocketpipe.model.ids import UniqueKeys
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.request import Request, read_reply, to_command
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Router
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Pins
from rocketpipe.testing.clock import ManualClock

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


class Sender:
    """Where a request comes from, as far as handlers look at it."""

    address = "10.0.0.3:50001"


class SendingParts:
    """Everything between a send and the log; nothing runs unless a test says so."""

    def __init__(
        self,
        root: Path,
        clock: ManualClock,
        *,
        limits: AdmissionLimits | None = None,
        disk: Disk | None = None,
        config: dict[str, Any] | None = None,
        **store: Any,
    ) -> None:
        self.clock = clock
        disk = disk or Disk()
        self.config = BrokerConfig(data=root, name_servers=(), **(config or {}))
        self.store = MessageStore.open(
            StoreConfig.embedded(root, **{"segment_bytes": 1 << 20, **store}),
            disk=disk,
            clock=clock,
            store_host=HOST,
            threads=False,
        )
        self.tables = Tables(
            disk,
            StoreLayout(root).config,
            clock,
            default_topic_queues=8,
            auto_create_topics=self.config.auto_create_topics,
            auto_create_groups=self.config.auto_create_groups,
        )
        self.tables.load()
        self.visibility = Visibility(self.store, clock)
        self.visibility.dispatch()
        self.admission = Admission(self.store, self.visibility, clock, limits)
        self.intake = Intake(self.store, self.visibility, self.admission, HOST)
        topics, chance = self.tables.topics, random.Random(7)
        registrar = Registrar(self.config, "127.0.0.1:10911", topics, Caller(), clock)
        self.topic_provider = TopicProvider(
            topics, self.tables.groups, registrar, clock, chance, self.tables.group_kept
        )
        self.stamp = BrokerProperties(self.config, UniqueKeys(HOST[:4], 1, 2), clock)
        self.pins = Pins()
        self.destinations = Destinations(topics, self.topic_provider)
        self.delays = DelayLevels(
            self.store, self.intake, self.tables.delays, clock, self.pins, self.destinations
        )
        most_ms = self.store.config.timer_max_delay_ms
        self.deferral = Deferral(self.delays, clock, most_ms=most_ms)
        self.locks = QueueLocks()
        self.retries = Retries(self.store, self.topic_provider, self.delays, self.locks, clock)
        self.transaction_limit = OpenTransactionLimit(
            self.config.max_open_transactions, self.takes_half
        )
        self.singles = SingleSends(self.config, self.stamp, self.deferral, self.transaction_limit)
        self._router = Router(
            SendHandlers(
                self.config,
                self.intake,
                self.topic_provider,
                self.stamp,
                self.singles,
                self.retries,
            )
        )

    def takes_half(self, most: int) -> bool:
        """Whether one more half message may wait: here nobody counts them."""
        return True

    async def ask(self, request: Request[Any], version: int = 479) -> Any:
        """What a client of this version hears."""
        command = replace(to_command(request, 1), version=version)
        return read_reply(request, await self._router.answer(command, cast("Any", Sender())))

    def stored(self, topic: str, queue_id: int = 0) -> list[RecordView]:
        """What a consumer of the queue sees from its start."""
        found: list[RecordView] = []
        while True:
            at = QueueOffset(found[-1].queue_offset + 1 if found else 0)
            read = self.store.read(topic, queue_id, at, max_count=1000)
            if not read.count:
                return found
            found += view_records(read.records)

    def abandon(self) -> None:
        """End as a process that is killed does: what it wrote is there, tables are as saved."""
        self.store.abandon()


def sent(topic: str = "t", body: bytes = b"body", **changes: Any) -> SendMessage:
    """A send as producers make it."""
    fields: dict[str, Any] = {
        "producer_group": "p",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 5,
        "flag": 0,
        "properties": "UNIQ_KEY\x01K1\x02TAGS\x01A",
        "body": body,
    }
    return SendMessage(**{**fields, **changes})


def put(topic: str = "t", body: bytes = b"body", **changes: Any) -> Put:
    """A message for the store."""
    fields: dict[str, Any] = {
        "topic": topic,
        "queue_id": 0,
        "body": body,
        "properties": b"UNIQ_KEY\x01K1\x02",
        "flag": 0,
        "sys_flag": 0,
        "born_ms": 5,
        "born_host": HOST,
    }
    return Put(**{**fields, **changes})
