"""Locks of queues at their brokers, so that one member of a group consumes each in order.

A broker's lock lasts a minute from the last request; it is asked for again every 20 seconds. Times
count from when a request was sent, never from its answer: the broker's minute began later.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, TypeVar

from rocketpipe.client.consumer.pushing.held_queue import HeldQueue, Lease
from rocketpipe.client.session import Session
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.clients import LockBatch, QueueClaim, UnlockBatch
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)
_warnings: Final = LogBudget()

ReplyT = TypeVar("ReplyT")


class QueueLocks:
    """Asks brokers for the locks of one group's queues."""

    def __init__(self, session: Session, group: str, life_ms: int) -> None:
        self._session = session
        self._group = group
        self._life_ms = life_ms

    async def lock(self, queue: MessageQueue) -> Lease | None:
        """Lock a queue; None when another member has it.

        Raises:
            RocketPipeError: If its broker cannot be asked.
        """
        sent_ms = self._session.clock.monotonic_ms()
        reply = await self._ask(queue, LockBatch(claim=self._claim([queue])))
        return Lease(sent_ms) if queue in reply.locked.queues else None

    async def unlock(self, queue: MessageQueue) -> None:
        """Give a lock back; where the broker cannot be told, it ends by itself."""
        try:
            await self._ask(queue, UnlockBatch(claim=self._claim([queue])))
        except RocketPipeError as error:
            log.info("queue not unlocked queue=%s reason=%s", queue, error)

    async def renew(self, held: Iterable[HeldQueue]) -> list[HeldQueue]:
        """Renew locks, by one request to each broker; gives the queues that are lost.

        Where a broker cannot be asked nothing is lost yet: that the lock grows old will show.
        """
        by_broker: defaultdict[str, list[HeldQueue]] = defaultdict(list)
        for each in held:
            by_broker[each.queue.broker_name].append(each)
        lost: list[HeldQueue] = []
        for name, some in by_broker.items():
            try:
                lost += await self._renew_at(some)
            except RocketPipeError as error:
                if _warnings.allows(error):
                    left_out = _warnings.suppressed()
                    log.warning("locks not renewed broker=%s reason=%s%s", name, error, left_out)
        return lost

    async def _renew_at(self, some: list[HeldQueue]) -> list[HeldQueue]:
        sent_ms = self._session.clock.monotonic_ms()
        claim = self._claim([each.queue for each in some])
        reply = await self._ask(some[0].queue, LockBatch(claim=claim))
        granted = frozenset(reply.locked.queues)
        lost: list[HeldQueue] = []
        for each in some:
            lease = each.lease
            # After its life a lock is a new one, and somebody may have had the queue in between.
            unbroken = lease is not None and lease.lasts(sent_ms, self._life_ms)
            if lease is not None and unbroken and each.queue in granted:
                lease.renewed_ms = max(lease.renewed_ms, sent_ms)
            else:
                lost.append(each)
        return lost

    async def _ask(self, queue: MessageQueue, request: Request[ReplyT]) -> ReplyT:
        # Followers keep no locks: two members could have the same from two brokers.
        return await self._session.leaders.ask(queue, request, self._session.timeout_ms)

    def _claim(self, queues: list[MessageQueue]) -> QueueClaim:
        return QueueClaim(
            consumer_group=self._group, client_id=self._session.client_id, queues=tuple(queues)
        )
