"""Push consumption by pulls: each queue has one owner in the group, which pulls ahead of handlers.

``PopFlow`` is the other way. Both are begun on a stack whose end is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from rocketpipe.background import running
from rocketpipe.client.consumer.group.offsets import OffsetStore
from rocketpipe.client.consumer.group.rebalance import Rebalancer
from rocketpipe.client.consumer.group.subscriptions import Subscriptions
from rocketpipe.client.consumer.handling.handlers import Handlers
from rocketpipe.client.consumer.pushing.claims import QueueClaims
from rocketpipe.client.consumer.pushing.fetch_loop import FetchLoop
from rocketpipe.client.consumer.pushing.ordered import OrderedWorkers
from rocketpipe.client.consumer.pushing.plan import PushPlan
from rocketpipe.client.consumer.pushing.workers import ConcurrentWorkers, Workers
from rocketpipe.client.session import Session
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue


class PullFlow:
    """Pulls for one consumer, and has what it got handled."""

    def __init__(
        self,
        session: Session,
        plan: PushPlan,
        handlers: Handlers,
        subscriptions: Subscriptions,
        claims: QueueClaims,
        offsets: OffsetStore,
    ) -> None:
        self._session = session
        self._plan = plan
        self._subscriptions = subscriptions
        self._claims = claims
        self._workers = _workers(session, plan, handlers, claims, offsets)
        self._fetch = FetchLoop(
            session,
            plan.group,
            offsets,
            self._workers,
            tuning=plan.tuning,
            subscription=subscriptions.told_of,
            room=claims.room,
            commits=not plan.broadcast,
        )
        self._rebalancer = Rebalancer(
            session, plan.group, plan.model, plan.strategy, claims, changed=self._on_share_changed
        )
        claims.connect(self._fetch, self._workers, self._rebalancer.forget)

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues that are its share now."""
        return self._rebalancer.owned

    def suspend(self) -> None:
        """Pull no more; what is in hand is consumed."""
        self._fetch.suspend()

    def resume(self) -> None:
        """Pull again."""
        self._fetch.resume()

    def notify(self) -> None:
        """Something changed: share the queues out anew."""
        self._rebalancer.notify()

    def moved(self, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """Go on where an operator says."""
        self._claims.moved(offsets)

    async def begin(self, stack: AsyncExitStack, *, suspended: bool = False) -> None:
        """Pull from now on; leaving ``stack`` lets handlers finish, saves offsets, gives queues up.

        The consumer is a member of its group already.
        """
        claims, group = self._claims, self._plan.group
        if suspended:
            self.suspend()
        for topic in self._subscriptions.topics:
            self._rebalancer.watch(topic)
        # The retry topic came to be with the first heartbeat, at the latest.
        await self._subscriptions.find_retries()
        stack.push_async_callback(claims.close)
        await stack.enter_async_context(running(self._workers.run(), f"workers of {group}"))
        # From here on the order is that of closing, read from the bottom: nothing new is claimed,
        # handlers finish, offsets are saved and queues given up, and the group is left.
        if self._plan.locks_queues:
            await stack.enter_async_context(running(claims.keep_locks(), f"locks of {group}"))
        stack.push_async_callback(self._rebalancer.close)
        stack.push_async_callback(claims.drain)
        for timer in (claims.keep_saved(), claims.keep_clean()):
            await stack.enter_async_context(running(timer, f"timer of {group}"))
        await self._rebalancer.balance()
        await stack.enter_async_context(running(self._rebalancer.run(), f"rebalance of {group}"))

    async def _on_share_changed(self, topic: str) -> None:
        self._subscriptions.renew(topic)
        await self._session.beat()
        self._subscriptions.told(topic)


def _workers(
    session: Session, plan: PushPlan, handlers: Handlers, claims: QueueClaims, offsets: OffsetStore
) -> Workers:
    returns = plan.returns(session)
    if plan.ordered:
        return OrderedWorkers(
            handlers,
            offsets,
            returns,
            clock=session.clock,
            tuning=plan.tuning,
            concurrency=plan.concurrency,
            lost=claims.lost,
        )
    return ConcurrentWorkers(
        handlers,
        offsets,
        None if plan.broadcast else returns,
        clock=session.clock,
        tuning=plan.tuning,
        concurrency=plan.concurrency,
    )
