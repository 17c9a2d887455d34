"""Pulls at a follower: what is confirmed here is handed out, and nobody is moved.

A follower may be behind, and may have removed what its leader still has. So it corrects no offset:
who asks beyond its end waits for it, and is told to ask the leader; who asks for what is gone here
is sent there, and so is a group that an operator has moved. What a pull would commit is left alone,
as the leader keeps offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from rocketpipe.broker.delivery.pull_plan import PullPlan
from rocketpipe.broker.handlers.pulling import PullHandlers
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pulling import PullMessage, PullMessageReply

_COMMIT: Final = int(PullFlag.COMMIT_OFFSET)
LEADER_ID: Final = 0


class FollowerPullHandlers(PullHandlers):
    """Reads queues to consumers, as far as a follower may."""

    #: Whom consumers are to ask next: the leader, or this follower while there is none.
    suggested: Callable[[], int] = staticmethod(lambda: LEADER_ID)

    def moved_to(self, request: PullMessage) -> QueueOffset | None:
        """Where an operator wants the group to go on: for the leader to tell, and to forget."""
        place = (request.consumer_group, request.topic, request.queue_id)
        moved = self._offsets.resets.get(place)
        return None if moved == request.queue_offset else moved

    async def answer(
        self, plan: PullPlan, request: PullMessage, *, again: bool = False
    ) -> PullMessageReply:
        """Answer with what the queue has here; see `PullHandlers.answer`.

        Raises:
            RequestRejected: If the store cannot read it.
        """
        asked = replace(request, sys_flag=request.sys_flag & ~_COMMIT)
        reply = await super().answer(plan, asked, again=again)
        code = ResponseCode(reply.code)
        ahead = request.queue_offset > reply.max_offset
        if code is ResponseCode.PULL_OFFSET_MOVED:
            waits = ahead or self.suggested() != LEADER_ID
            code = ResponseCode.PULL_NOT_FOUND if waits else ResponseCode.PULL_RETRY_IMMEDIATELY
            return replace(
                reply,
                code=code,
                next_begin_offset=QueueOffset(request.queue_offset),
                suggest_which_broker_id=self.suggested(),
            )
        return replace(reply, suggest_which_broker_id=self.suggested())
