"""The parts of a broker that store and decide half messages, on a clock that tests turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tests.broker.support.sending_parts import HOST, Sender, SendingParts, sent

from rocketpipe.broker.features.transactions.check_back import CheckBack
from rocketpipe.broker.features.transactions.decisions import Decisions
from rocketpipe.broker.features.transactions.handlers import TransactionHandlers
from rocketpipe.broker.features.transactions.open_transactions import OpenTransactions
from rocketpipe.broker.intake import half_messages
from rocketpipe.model.flags import Transaction
from rocketpipe.model.names import CHECK_MAX_TIME_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.request import read_reply, to_command
from rocketpipe.protocol.requests.transactions import EndTransaction, ResumeChecks
from rocketpipe.record.codec import RecordView
from rocketpipe.remoting.router import Router
from rocketpipe.store.log.puts import Appended, Put
from rocketpipe.testing.clock import ManualClock

__all__ = ["HalfSent", "TransactingParts"]


@dataclass(frozen=True)
class HalfSent:
    """Where a half message went, as its producer heard it."""

    offset: int
    log_offset: int
    key: str

    @classmethod
    def of(cls, record: RecordView) -> HalfSent:
        return cls(record.queue_offset, record.log_offset, record.message_id)

    def end(self, state: Transaction, **changes: Any) -> EndTransaction:
        fields: dict[str, Any] = {
            "producer_group": "p",
            "tran_state_table_offset": QueueOffset(self.offset),
            "commit_log_offset": LogOffset(self.log_offset),
            "commit_or_rollback": int(state),
            "msg_id": self.key,
        }
        return EndTransaction(**{**fields, **changes})


@dataclass
class Asked:
    """Whom the broker would have asked."""

    questions: list[tuple[Put, Appended]] = field(default_factory=list)

    def ask(self, put: Put, placed: Appended) -> None:
        self.questions.append((put, placed))

    def places(self) -> list[HalfSent]:
        """Where the half messages are by now that were asked about since the last look."""
        found = [
            HalfSent(placed.queue_offset, placed.log_offset, "") for _, placed in self.questions
        ]
        self.questions.clear()
        return found


class TransactingParts(SendingParts):
    """Everything of a broker that transactions need; nothing runs unless a test says so."""

    def __init__(self, root: Path, clock: ManualClock, **changes: Any) -> None:
        super().__init__(root, clock, **changes)
        self.waiting = OpenTransactions(self.store, self.tables.offsets)
        self.decisions = Decisions(
            self.store,
            self.intake,
            self.visibility,
            self.waiting,
            done=self._done,
            park=self.deferral.parked,
            destinations=self.destinations,
        )
        self.asked = Asked()
        self.checks = CheckBack(
            self.config,
            self.store,
            self.waiting,
            self.decisions,
            self.topic_provider,
            self.asked.ask,
            clock,
        )
        self._ending = Router(
            TransactionHandlers(self.config, self.store, self.intake, self.decisions, clock)
        )

    def takes_half(self, most: int) -> bool:
        return self.waiting.has_room(most)

    def _done(self, offsets: list[QueueOffset]) -> Put:
        return half_messages.done(offsets, self.stamp.new_key(), self.clock.now_ms(), HOST)

    async def half(self, body: bytes = b"half", more: str = "", **changes: Any) -> HalfSent:
        """Send a half message, as a producer of group ``p``."""
        key = f"K-{body.decode()}"
        text = f"UNIQ_KEY\x01{key}\x02TRAN_MSG\x01true\x02PGROUP\x01p\x02TAGS\x01A\x02{more}"
        fields = {"born_timestamp": self.clock.now_ms(), "queue_id": 2, **changes}
        request = sent(body=body, properties=text, **fields)
        reply = await self.ask(request)
        return HalfSent(reply.queue_offset, int(reply.msg_id[-16:], 16), key)

    async def decide(self, half: HalfSent, state: Transaction, **changes: Any) -> None:
        """What a producer hears that decides."""
        request = half.end(state, **changes)
        answer = await self._ending.answer(to_command(request, 1), cast("Any", Sender()))
        read_reply(request, answer)

    async def resume(self, offset_id: str | None) -> None:
        """What an operator hears who has a transaction asked about again."""
        request = ResumeChecks(msg_id=offset_id)
        answer = await self._ending.answer(to_command(request, 1), cast("Any", Sender()))
        read_reply(request, answer)

    async def given_up(self) -> str:
        """Let time pass until a half message is given up; gives its offset id."""
        for _ in range(self.config.transaction_check_max + 1):
            await self.clock.advance(self.config.transaction_check_every_ms)
            await self.checks.ask_all()
        return self.stored(CHECK_MAX_TIME_TOPIC)[-1].offset_id

    def bodies(self, topic: str = "t", queue_id: int = 2) -> list[bytes]:
        """What a consumer sees."""
        return [message.body for message in self.stored(topic, queue_id)]
