"""What a push consumer asks of brokers, and what came of its acknowledgements."""

from __future__ import annotations

from typing import TypeVar

from rocketpipe import Session
from rocketpipe.client.consumer.popped import PoppedMessage
from rocketpipe.client.leader_calls import LeaderCalls
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.popping import AckMessage
from rocketpipe.testing.histories.decision_recorder import DecisionRecorder

ReplyT = TypeVar("ReplyT")


class RecordedCalls(LeaderCalls):
    """A push consumer's calls; of its acknowledgements it is recorded what came of them.

    Whoever was held up, by a machine that is busy with other things, acknowledges too late.
    """

    def __init__(self, session: Session, record: DecisionRecorder, group: str) -> None:
        super().__init__(session.caller, session.routes, session.clock, session.leader_of)
        self._record = record
        self._group = group
        self.handled: dict[str, PoppedMessage] = {}

    async def ask(
        self,
        queue: MessageQueue,
        request: Request[ReplyT],
        timeout_ms: int,
        *,
        patient: bool = False,
    ) -> ReplyT:
        if not isinstance(request, AckMessage):
            return await super().ask(queue, request, timeout_ms, patient=patient)
        with self._record.acking(self._group, self.handled[request.extra_info]):
            return await super().ask(queue, request, timeout_ms, patient=patient)
