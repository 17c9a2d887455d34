"""Asks whoever leads a queue's brokers, and follows where the leader goes.

lost, refused by one that does not lead, or nobody leads
    another address is known by now        asked at once
    or else the route is renewed           and who leads then is asked
    or else                                an error; who is patient waits for its time, also
                                           for a leader that lacks replicas
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from rocketpipe.client.leaders import awaits_leader, is_moved
from rocketpipe.client.routes import RouteCache
from rocketpipe.clock import Clock, in_time
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.route import LEADER_ID, MessageQueue, TopicRoute
from rocketpipe.protocol.request import Request
from rocketpipe.remoting.caller import Caller

log = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT")


class LeaderCalls:
    """What a session's members ask of leaders."""

    def __init__(
        self,
        caller: Caller,
        routes: RouteCache,
        clock: Clock,
        leader_of: Callable[[MessageQueue, TopicRoute], str],
    ) -> None:
        self._caller = caller
        self._routes = routes
        self._clock = clock
        self._leader_of = leader_of

    async def ask(
        self,
        queue: MessageQueue,
        request: Request[ReplyT],
        timeout_ms: int,
        *,
        patient: bool = False,
    ) -> ReplyT:
        """Ask the leader of a queue; one that is to come in this time too, for who is ``patient``.

        It may be asked twice, where it is not known whether the first one heard it.

        Raises:
            NoRoute: If the queue has no leader.
            ConnectionLost, CallTimeout: If it is out of reach, or does not answer.
            RequestRejected: If it refuses.
        """
        routes, topic, clock = self._routes, queue.topic, self._clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        tried: set[str] = set()
        while True:
            address: str | None = None
            try:
                address = self._leader_of(queue, await routes.get(topic))
                left_ms = max(1, deadline_ms - clock.monotonic_ms())
                return await self._caller.call(address, request, left_ms)
            except RocketPipeError as error:
                # Before the route is renewed: what is learned begins with that.
                calm = patient or routes.is_calm(topic)
                routes.learn(topic, queue.broker_name, address, error)
                if not (awaits_leader(error) if patient else is_moved(error)):
                    raise
                if address is not None:
                    tried.add(address)
                if self._is_new(queue, tried):
                    continue
                left_ms = deadline_ms - clock.monotonic_ms()
                if not calm or left_ms <= 0:
                    raise
                await in_time(clock, left_ms, routes.renew(topic), partial(_same, error))
                if patient:
                    tried.clear()
                elif not self._is_new(queue, tried):
                    raise

    async def ask_anybody(
        self, queue: MessageQueue, request: Request[ReplyT], timeout_ms: int
    ) -> ReplyT:
        """Ask the leader of a queue, or while there is none a follower, which may be behind.

        Raises: as ``ask`` does, if no follower answers either.
        """
        try:
            return await self.ask(queue, request, timeout_ms)
        except RocketPipeError as error:
            if not is_moved(error):
                raise
            for address in self._followers(queue):
                try:
                    return await self._caller.call(address, request, timeout_ms)
                except RocketPipeError as refusal:
                    # That it does not know does not mean that the leader would not.
                    log.debug("follower not of use address=%s reason=%s", address, refusal)
            raise

    def _followers(self, queue: MessageQueue) -> list[str]:
        route = self._routes.remembered(queue.topic)
        broker = route.broker(queue.broker_name) if route else None
        known = sorted(broker.addresses.items()) if broker else ()
        return [address for number, address in known if number != LEADER_ID]

    def _is_new(self, queue: MessageQueue, tried: set[str]) -> bool:
        route = self._routes.remembered(queue.topic)
        broker = route.broker(queue.broker_name) if route else None
        leader = broker.addresses.get(LEADER_ID) if broker else None
        return leader is not None and leader not in tried


def _same(error: RocketPipeError) -> RocketPipeError:
    return error
