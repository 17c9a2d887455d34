"""Claims the queues that are this member's share, and releases those that are not any more.

Members of a group never talk to each other. Each asks a broker who the members are, shares out the
queues by the group's strategy, and compares its share with what it owns. Between a change and the
moment when everybody has noticed, a queue may have two readers or none: that is why messages come
at least once. Order is kept by locks, which are the claimant's business.

It happens when a broker or NameServer says that something changed, and every 20 seconds in case
nobody did. What could not be claimed or released is tried again a second later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, Protocol

from rocketpipe.client.consumer.group.assignment import (
    AssignmentFailed,
    Strategy,
    ids_in_order,
    in_order,
)
from rocketpipe.client.session import Session
from rocketpipe.clock import within
from rocketpipe.errors import NoRoute, RocketPipeError
from rocketpipe.model.route import MessageQueue, TopicRoute
from rocketpipe.model.subscription import MessageModel
from rocketpipe.protocol.requests.clients import GetConsumerListByGroup
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

EVERY_MS: Final = 20_000
#: So far apart are two rounds, whatever happens.
AT_LEAST_MS: Final = 1000

#: So many queues are being claimed, or released, at a time.
AT_ONCE: Final = 16

#: So many queues are named in a line of the log.
MAX_LISTED: Final = 16

_warnings = LogBudget()


class Claims(Protocol):
    """Who reads the queues that the rebalancer says are ours."""

    async def claim(self, queue: MessageQueue) -> bool:
        """Begin to read a queue. False if that is not possible now: it is tried again."""
        ...

    async def release(self, queue: MessageQueue) -> bool:
        """Stop reading a queue. False if it is still needed: it is tried again."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done so that what is owned becomes what is ours; releases come first."""

    release: tuple[MessageQueue, ...]
    claim: tuple[MessageQueue, ...]

    @classmethod
    def between(cls, owned: Collection[MessageQueue], ours: Collection[MessageQueue]) -> Change:
        """Compare what is owned with what is ours; both lists come in order."""
        return cls(tuple(in_order(set(owned) - set(ours))), tuple(in_order(set(ours) - set(owned))))


class Rebalancer:
    """Keeps one member's queues what the group's strategy says they are."""

    def __init__(
        self,
        session: Session,
        group: str,
        model: MessageModel,
        strategy: Strategy,
        claims: Claims,
        *,
        changed: Callable[[str], Awaitable[None]] | None = None,
        every_ms: int = EVERY_MS,
    ) -> None:
        """Take who claims, and who is told of each topic whose queues here changed."""
        self._session = session
        self._group = group
        self._model = model
        self._strategy = strategy
        self._claims = claims
        self._changed = changed
        self._every_ms = every_ms
        self._topics: set[str] = set()
        self._owned: set[MessageQueue] = set()
        self._round = asyncio.Lock()
        self._notice = asyncio.Event()
        self._ended_ms: int | None = None
        self._closed = False

    @property
    def owned(self) -> frozenset[MessageQueue]:
        """The queues that were claimed and not released yet."""
        return frozenset(self._owned)

    def watch(self, topic: str) -> None:
        """Share out the queues of a topic, from the next round on."""
        self._topics.add(topic)

    def unwatch(self, topic: str) -> None:
        """Have no queue of a topic, from the next round on."""
        self._topics.discard(topic)

    def notify(self) -> None:
        """Something changed: the next round comes as soon as it may."""
        self._notice.set()

    def forget(self, queue: MessageQueue) -> None:
        """Take note that its reader gave a queue up by itself; the next round may claim it again.

        The next round comes as soon as it may. Nobody is asked to release the queue.
        """
        self._owned.discard(queue)
        self.notify()

    async def run(self) -> None:
        """Go round until this is cancelled."""
        wait_ms = self._every_ms
        while True:
            await self._wait(wait_ms)
            balanced = await self.balance()
            wait_ms = self._every_ms if balanced else AT_LEAST_MS

    async def balance(self) -> bool:
        """Do one round now. False if something was left undone, which another round may do."""
        async with self._round:
            if self._closed:
                return True
            self._notice.clear()
            done = True
            for topic in sorted(self._topics):
                try:
                    done &= await self._balance_topic(topic)
                except RocketPipeError as error:
                    _warn("not rebalanced", self._group, topic, error)
                    done = False
            strangers = [queue for queue in self._owned if queue.topic not in self._topics]
            done &= await self._release(in_order(strangers))
            self._ended_ms = self._session.clock.monotonic_ms()
            return done

    async def close(self) -> None:
        """Release everything, once; no round claims anything after that."""
        async with self._round:
            self._closed = True
            await self._release(in_order(self._owned))
            self._owned.clear()

    # One topic

    async def _balance_topic(self, topic: str) -> bool:
        try:
            route = await self._session.routes.get(topic)
        except NoRoute:
            # A retry topic appears with the group's first heartbeat; a lost topic may come back.
            return True
        queues = in_order(route.readable_queues(topic))
        if not queues:
            return await self._become(topic, [])
        if self._model is MessageModel.BROADCASTING:
            return await self._become(topic, queues)
        members = await self._members(topic, route)
        if not members:
            return False
        done = await self._become(topic, self._share(queues, members))
        if self._session.client_id not in members:
            # That broker does not know us, perhaps because it was started again.
            await self._session.beat()
            return False
        return done

    def _share(self, queues: list[MessageQueue], members: list[str]) -> list[MessageQueue]:
        try:
            return self._strategy(self._session.client_id, queues, members)
        except RocketPipeError:
            raise
        except Exception as error:
            # Somebody's own strategy, or a part of one: its mistake must not stop the rounds.
            reason = f"strategy {self._strategy.name} failed: {error!r}"
            raise AssignmentFailed(reason) from error

    async def _members(self, topic: str, route: TopicRoute) -> list[str]:
        """Who is in the group, as some broker of the topic says; nobody if none says."""
        session = self._session
        brokers = list(route.brokers)
        session.chance.shuffle(brokers)
        # Followers are told who is there as well, and are asked if nobody else answers.
        addresses = [
            (number > 0, each.broker_name, address)
            for each in brokers
            for number, (_, address) in enumerate(sorted(each.addresses.items()))
        ]
        request = GetConsumerListByGroup(consumer_group=self._group)
        for _, name, address in sorted(addresses, key=itemgetter(0)):
            try:
                reply = await session.caller.call(address, request, session.timeout_ms)
            except RocketPipeError as error:
                session.routes.learn(topic, name, address, error)
                _warn("no members told", self._group, topic, error)
                continue
            return ids_in_order(reply.members.consumer_ids)
        return []

    async def _become(self, topic: str, share: Iterable[MessageQueue]) -> bool:
        before = {queue for queue in self._owned if queue.topic == topic}
        ours = {queue for queue in share if queue.topic == topic}
        change = Change.between(before, ours)
        if not change.release and not change.claim:
            return True
        done = await self._release(change.release)
        done &= await self._claim(change.claim)
        after = {queue for queue in self._owned if queue.topic == topic}
        if after != before:
            log.info(
                "rebalanced group=%s topic=%s claimed=%s released=%s owned=%d",
                self._group,
                topic,
                _listed(after - before),
                _listed(before - after),
                len(after),
            )
            if self._changed is not None:
                await self._changed(topic)
        return done

    async def _claim(self, queues: Sequence[MessageQueue]) -> bool:
        return await self._each(self._claim_one, queues)

    async def _release(self, queues: Sequence[MessageQueue]) -> bool:
        return await self._each(self._release_one, queues)

    async def _claim_one(self, queue: MessageQueue) -> bool:
        claimed = await self._claims.claim(queue)
        if claimed:
            self._owned.add(queue)
        return claimed

    async def _release_one(self, queue: MessageQueue) -> bool:
        released = await self._claims.release(queue)
        if released:
            self._owned.discard(queue)
        return released

    async def _each(
        self, act: Callable[[MessageQueue], Awaitable[bool]], queues: Sequence[MessageQueue]
    ) -> bool:
        """Do it with every queue, some at a time; False if one of them has to wait."""
        done = True
        for at in range(0, len(queues), AT_ONCE):
            some = queues[at : at + AT_ONCE]
            done &= all(await asyncio.gather(*(self._try(act, queue) for queue in some)))
        return done

    async def _try(
        self, act: Callable[[MessageQueue], Awaitable[bool]], queue: MessageQueue
    ) -> bool:
        try:
            return await act(queue)
        except RocketPipeError as error:
            where = f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"
            _warn("queue put off", self._group, where, error)
            return False
        except Exception:
            if _warnings.allows():
                log.exception("queue put off group=%s queue=%s", self._group, queue)
            return False

    # Time

    async def _wait(self, wait_ms: int) -> None:
        """Until the time has come, or somebody gives notice; but rounds are a second apart."""
        clock = self._session.clock
        if not self._notice.is_set():
            await within(clock, wait_ms, self._notice.wait())
        if self._ended_ms is not None:
            rest_ms = self._ended_ms + AT_LEAST_MS - clock.monotonic_ms()
            if rest_ms > 0:
                await clock.sleep(rest_ms)


def _warn(what: str, group: str, topic: str, error: RocketPipeError) -> None:
    if _warnings.allows(f"{what}: {error}"):
        log.warning(
            "%s group=%s topic=%s reason=%s%s", what, group, topic, error, _warnings.suppressed()
        )


def _listed(queues: Collection[MessageQueue]) -> str:
    """Queues of one topic for a line of the log, which says of the last ones how many they are."""
    named = [f"{queue.broker_name}:{queue.queue_id}" for queue in sorted(queues)[:MAX_LISTED]]
    more = len(queues) - MAX_LISTED
    return ",".join([*named, f"and {more} more"] if more > 0 else named) or "none"
