"""What brokers are told about a client, and when.

Every broker of the known routes is told all that the client does: from time to time, at once when
that changed, and at once over a new connection, because a broker forgets a client with its old one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from rocketpipe.client.members import Member
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.route import LEADER_ID, BrokerAddresses
from rocketpipe.protocol.requests.clients import (
    ConsumerData,
    Heartbeat,
    HeartbeatData,
    ProducerData,
    UnregisterClient,
)
from rocketpipe.remoting.caller import CALL_TIMEOUT_MS, Caller

log = logging.getLogger(__name__)

#: To so many brokers heartbeats are under way at a time.
AT_ONCE: Final = 32


def heartbeat_data(client_id: str, members: Iterable[Member]) -> HeartbeatData:
    """All that the members of a client do, in one order whatever theirs is."""
    producers: set[str] = set()
    consumers: dict[str, ConsumerData] = {}
    for member in members:
        producers.update(member.producer_groups())
        consumers.update((consumer.group_name, consumer) for consumer in member.consumers())
    return HeartbeatData(
        client_id=client_id,
        producers=tuple(ProducerData(group_name=group) for group in sorted(producers)),
        consumers=tuple(consumers[group] for group in sorted(consumers)),
    )


def targets(brokers: Iterable[BrokerAddresses], data: HeartbeatData) -> list[str]:
    """The addresses that are told: followers only by who reads, nobody by who does nothing."""
    if not data.consumers and not data.producers:
        return []
    found = {
        address
        for broker in brokers
        for broker_id, address in broker.addresses.items()
        if data.consumers or broker_id == LEADER_ID
    }
    return sorted(found)


class Heartbeats:
    """Tells brokers what a client does, one round at a time."""

    def __init__(
        self,
        caller: Caller,
        data: Callable[[], HeartbeatData],
        brokers: Callable[[], Mapping[str, BrokerAddresses]],
        *,
        timeout_ms: int = CALL_TIMEOUT_MS,
    ) -> None:
        self._caller = caller
        self._data = data
        self._brokers = brokers
        self._timeout_ms = timeout_ms
        self._round = asyncio.Lock()
        self._begun = 0
        self._done = 0
        #: Addresses with a connection that no heartbeat went over yet.
        self._new: set[str] = set()
        self._failing: set[str] = set()

    def on_connected(self, address: str) -> None:
        """Note a new connection: whoever is there does not know us yet."""
        self._new.add(address)

    async def beat(self) -> None:
        """Tell every broker what the client does now; one that is out of reach is left out.

        Who asks while a round is under way shares the next one.
        """
        wanted = self._begun + 1
        async with self._round:
            if self._done >= wanted:
                return
            self._begun += 1
            this = self._begun
            data = self._data()
            addresses = targets(self._brokers().values(), data)
            self._failing.intersection_update(addresses)
            await _each(addresses, lambda address: self._tell_one(address, data))
            self._done = this

    async def beat_new(self) -> None:
        """Tell those brokers that are connected anew."""
        async with self._round:
            # Those that are no brokers of ours are NameServers: forgotten.
            new, self._new = self._new, set()
            data = self._data()
            known = targets(self._brokers().values(), data)
            # One that is lost again is not connected for this: whoever is there hangs up on us.
            here = [each for each in known if each in new and self._caller.connected(each)]
            await _each(here, lambda address: self._tell_one(address, data))

    async def unregister(
        self, producer_groups: Collection[str], consumer_groups: Collection[str]
    ) -> None:
        """Take the client out of groups, at every broker that is connected: others forgot it."""
        requests = [
            *(self._leaving(producer_group=group) for group in sorted(producer_groups)),
            *(self._leaving(consumer_group=group) for group in sorted(consumer_groups)),
        ]
        addresses = {
            address
            for broker in self._brokers().values()
            for address in broker.addresses.values()
            if requests and self._caller.connected(address) is not None
        }
        await _each(sorted(addresses), lambda address: self._unregister(address, requests))

    def _leaving(
        self, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> UnregisterClient:
        return UnregisterClient(
            client_id=self._data().client_id,
            producer_group=producer_group,
            consumer_group=consumer_group,
        )

    async def _unregister(self, address: str, requests: Sequence[UnregisterClient]) -> None:
        try:
            for request in requests:
                await self._caller.call(address, request, self._timeout_ms)
        except RocketPipeError as error:
            log.debug("not unregistered broker=%s reason=%s", address, error)

    async def _tell_one(self, address: str, data: HeartbeatData) -> None:
        try:
            await self._caller.call(address, Heartbeat(data=data), self._timeout_ms)
        except RocketPipeError as error:
            if address not in self._failing:
                self._failing.add(address)
                log.warning("heartbeat not taken broker=%s reason=%s", address, error)
            return
        self._new.discard(address)
        if address in self._failing:
            self._failing.discard(address)
            log.info("heartbeat taken again broker=%s", address)


async def _each(addresses: Sequence[str], act: Callable[[str], Awaitable[None]]) -> None:
    for at in range(0, len(addresses), AT_ONCE):
        await asyncio.gather(*(act(address) for address in addresses[at : at + AT_ONCE]))
