"""The parts of a broker that stage messages, on a store and a clock that tests turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tests.broker.support.sending_parts import HOST, Sender, SendingParts

from rocketpipe.broker.delivery.deferral import Deferral
from rocketpipe.broker.features.staging.handlers import StagingHandlers
from rocketpipe.broker.features.staging.messages import StagedMessages
from rocketpipe.broker.features.staging.records import LEDGER_QUEUE
from rocketpipe.broker.features.staging.stages import StageTable
from rocketpipe.broker.features.staging.staging import Staging
from rocketpipe.model.names import STAGING_TOPIC
from rocketpipe.protocol.request import Request, read_reply, to_command
from rocketpipe.protocol.requests.staging import (
    CommitStages,
    CommitStagesReply,
    PrepareStages,
    StageList,
    StageMessages,
)
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.remoting.router import Router
from rocketpipe.store.log.puts import Put
from rocketpipe.store.upkeep.retention import Pins, Retention
from rocketpipe.testing.clock import ManualClock

EXPIRY_MS = 60_000
LEDGER_MS = 3_600_000


class StagingParts(SendingParts):
    """Everything between a staged send and its topic."""

    def __init__(
        self, root: Path, clock: ManualClock, *, max_staged_bytes: int = 1 << 20, **rest: Any
    ) -> None:
        super().__init__(root, clock, **rest)
        topics = self.tables.topics
        if not topics.was_deleted_since("t", 0):
            topics.ensure("t", queues=4, now_ms=clock.now_ms())
            self.tables.save()
        disk = rest.get("disk")
        self.pins = Pins()
        self.retention = Retention(self.store, disk=cast("Any", disk), clock=clock, pins=self.pins)
        self.messages = StagedMessages(
            self.stamp,
            self.deferral,
            self.config.max_message_bytes,
            unlimited=Deferral(self.delays, clock, most_ms=None),
        )
        self.staging = Staging(
            self.store,
            self.visibility,
            self.retention,
            clock,
            StageTable(max_staged_bytes),
            expiry_ms=EXPIRY_MS,
            ledger_ms=LEDGER_MS,
            messages=self.messages,
            own=self._own,
            destinations=self.destinations,
        )
        self._staging_router = Router(
            StagingHandlers(
                self.config, self.intake, self.topic_provider, self.staging, self.messages
            )
        )

    def _own(self, body: bytes) -> Put:
        return Put(STAGING_TOPIC, LEDGER_QUEUE, body, b"", 0, 0, self.clock.now_ms(), HOST)

    async def ask(self, request: Request[Any], version: int = 479) -> Any:
        """What a client hears."""
        command = to_command(request, 1)
        answer = await self._staging_router.answer(command, cast("Any", Sender()))
        return read_reply(request, answer)

    async def stage(self, stage: str, *bodies: bytes, **changes: Any) -> bool:
        """Stage a part; whether its batch was committed before."""
        return (await self.ask(staged(stage, *bodies, **changes))).committed

    async def commit(
        self, named: dict[str, int], *, app: str = "app", batch: int = 0, **rest: str | None
    ) -> CommitStagesReply:
        """Commit stages; ``rest`` are plan, content and token."""
        request = CommitStages(
            producer_group="p",
            application=app,
            batch=batch,
            named=StageList(stages=named, **rest),  # type: ignore[arg-type]
        )
        return await self.ask(request)

    async def prepare(
        self, named: dict[str, int], *, batch: int = 0, home: str = "home", token: str = "t1"
    ) -> bool:
        """Prepare stages; whether the batch was committed before."""
        request = PrepareStages(
            producer_group="p",
            application="app",
            batch=batch,
            home=home,
            named=StageList(stages=named, token=token),
        )
        return (await self.ask(request)).committed

    def bodies(self, topic: str = "t") -> list[bytes]:
        """What consumers of the topic's queues see."""
        return [record.body for queue_id in range(4) for record in self.stored(topic, queue_id)]


def staged(stage: str, *bodies: bytes, properties: bytes = b"", **changes: Any) -> StageMessages:
    """A part as writers make it."""
    fields: dict[str, Any] = {
        "producer_group": "p",
        "application": "app",
        "batch": 0,
        "stage": stage,
        "part": 0,
        "topic": "t",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "born_timestamp": 5,
        "body": encode_batch([Entry(0, body, properties) for body in bodies]) if bodies else b"",
    }
    return StageMessages(**{**fields, **changes})
