"""Asks other brokers what they decided of batches that lie here too, prepared.

A writer commits at the home of its application, and then here. If it dies in between, or this
broker was away, nobody comes: so the broker asks.

    home decided, and this broker has a share   the share shows, and home hears of it
    home decided, for others only               what was prepared is dropped
    not decided                                 it is kept; once it is older than ``stagedExpiry``,
                                                home is told first that no commit may count on it
    home is out of reach                        it is kept, however long that takes

Ages are those that this run saw.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from rocketpipe.broker.features.staging.prepared import Preparation
from rocketpipe.broker.features.staging.stages import Batch
from rocketpipe.broker.features.staging.staging import Staging
from rocketpipe.clock import Clock
from rocketpipe.errors import CallTimeout, ConnectionLost, RequestRejected, RocketPipeError
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.kv import GetKeyValue
from rocketpipe.protocol.requests.routes import GetBrokerClusterInfo
from rocketpipe.protocol.requests.staging import (
    HOMES_NAMESPACE,
    AskStages,
    AskStagesReply,
    SettleStages,
    StageList,
    home_key,
    read_plan,
)
from rocketpipe.remoting.caller import Caller

log = logging.getLogger(__name__)

TICK_MS: Final = 10_000
#: Its writer is given so long to come by itself; what an earlier run prepared is asked for at once.
WAIT_MS: Final = 30_000
TIMEOUT_MS: Final = 3000
#: At most so many batches are asked for in one go.
_MOST: Final = 1000


class StageAsking:
    """Finds out what became of what is prepared."""

    def __init__(
        self,
        staging: Staging,
        caller: Caller,
        clock: Clock,
        name: str,
        name_servers: Sequence[str],
        *,
        expiry_ms: int,
    ) -> None:
        """``name`` is this broker's own."""
        self._staging = staging
        self._caller = caller
        self._clock = clock
        self._name = name
        self._name_servers = name_servers
        self._expiry_ms = expiry_ms
        self._began_ms = clock.monotonic_ms()
        self._told: dict[Batch, str] = {}

    async def keep_asking(self) -> None:
        """Ask for as long as the broker runs."""
        while True:
            await self.ask_once()
            await self._clock.sleep(TICK_MS)

    async def ask_once(self) -> None:
        """Ask of each batch that has waited for long enough."""
        prepared = self._staging.book.prepared
        self._told = {batch: why for batch, why in self._told.items() if prepared.of(batch)}
        due = [batch for batch in prepared.batches() if self._is_due(prepared.of(batch))][:_MOST]
        if not due:
            return
        addresses = await self._brokers()
        silent: set[str] = set()
        for batch in due:
            waiting = prepared.of(batch)
            if not waiting or waiting[-1].home in silent:
                continue  # one that does not answer is not waited for again and again
            if not await self._ask(batch, waiting, addresses):
                silent.add(waiting[-1].home)

    def _is_due(self, waiting: Sequence[Preparation]) -> bool:
        newest_ms = max((each.since_ms for each in waiting), default=0)
        found = newest_ms <= self._began_ms
        return found or self._clock.monotonic_ms() - newest_ms >= WAIT_MS

    async def _ask(
        self, batch: Batch, waiting: Sequence[Preparation], addresses: dict[str, str]
    ) -> bool:
        """Ask of one batch, and do what the answer says; False if home does not answer."""
        home = waiting[-1].home
        tokens = [each.token for each in waiting]
        newest_ms = max(each.since_ms for each in waiting)
        is_old = self._clock.monotonic_ms() - newest_ms >= self._expiry_ms
        request = AskStages(
            application=batch[0],
            batch=batch[1],
            broker_name=self._name,
            given_up=",".join(tokens) if is_old else None,
        )
        try:
            reply = await self._answer(home, request, addresses)
            await self._heed(batch, tokens, reply, is_old, addresses.get(home))
        except (RocketPipeError, msgspec.MsgspecError) as error:
            self._tell(batch, home, str(error))
            return not isinstance(error, ConnectionLost | CallTimeout)
        return True

    async def _answer(
        self, home: str, request: AskStages, addresses: dict[str, str]
    ) -> AskStagesReply:
        if home not in addresses and home != self._name:
            # An operator may have let go of one that is gone for good; then another was chosen.
            home = await self._chosen(request.application) or home
        if home == self._name:
            batch = (request.application, request.batch)
            given_up = (request.given_up or "").split(",") if request.given_up else ()
            decided, plan = await self._staging.outcome(batch, given_up)
            return AskStagesReply(decided=decided, outcome=StageList(plan=plan))
        address = addresses.get(home)
        if address is None:
            raise RequestRejected(
                ResponseCode.SERVICE_NOT_AVAILABLE, f"broker {home!r} is not registered now"
            )
        return await self._caller.call(address, request, TIMEOUT_MS)

    async def _chosen(self, application: str) -> str | None:
        """Who decides for an application now, as far as a NameServer says."""
        request = GetKeyValue(namespace=HOMES_NAMESPACE, key=home_key(application))
        for server in self._name_servers:
            try:
                return (await self._caller.call(server, request, TIMEOUT_MS)).value
            except RocketPipeError:
                continue
        return None

    async def _heed(
        self,
        batch: Batch,
        tokens: Sequence[str],
        reply: AskStagesReply,
        is_old: bool,
        home: str | None,
    ) -> None:
        if not reply.decided:
            if is_old:
                log.info("prepared stages expired application=%s batch=%d", *batch)
                self._staging.let_go(batch, tokens)
            return
        plan = read_plan(reply.outcome.plan) if reply.outcome.plan else {}
        share = plan.get(self._name)
        if share is None:
            self._staging.let_go(batch, tokens)
            return
        if self._staging.book.stages.missing(batch, share.stages) is not None and is_old:
            self._staging.let_go(batch, tokens)  # of another attempt, which is over by now
            return
        named = StageList(stages=share.stages, content=share.content or None)
        await self._staging.commit(batch, named)
        log.info("a batch shows here as its home decided application=%s batch=%d", *batch)
        if home is not None:
            done = SettleStages(application=batch[0], batch=batch[1], share=self._name)
            await self._caller.call(home, done, TIMEOUT_MS)

    async def _brokers(self) -> dict[str, str]:
        """Where each broker is, by name, as far as a NameServer says."""
        for server in self._name_servers:
            try:
                reply = await self._caller.call(server, GetBrokerClusterInfo(), TIMEOUT_MS)
            except RocketPipeError:
                continue
            brokers = reply.cluster_brokers.brokers
            return {name: each.leader for name, each in brokers.items() if each.leader is not None}
        return {}

    def _tell(self, batch: Batch, home: str, reason: str) -> None:
        if self._told.get(batch) != reason:
            self._told[batch] = reason
            log.warning(
                "it is not known what became of a batch, and what is prepared of it is kept "
                "application=%s batch=%d home=%s reason=%s",
                *batch,
                home,
                reason,
            )
