"""The servers that an operator's call goes to: the brokers of a cluster, or all NameServers.

What changes many servers may succeed at some and fail at others. Then it is carried out where it
can be, and the error says at which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.names import TOOLS_CONSUMER_GROUP
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import BrokerAddresses, ClusterBrokers
from rocketpipe.model.subscription import EVERYTHING, TAG
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.refusals import leader_in
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.pulling import PullMessage, PullMessageReply
from rocketpipe.protocol.requests.routes import GetBrokerClusterInfo

ReplyT = TypeVar("ReplyT")
KeyT = TypeVar("KeyT")
ResultT = TypeVar("ResultT")

#: So many servers, or queues, are asked at a time.
AT_ONCE: Final = 32

_MAX_NAMED: Final = 5
#: So many messages are asked for at a time.
_A_PULL: Final = 32


class NoBroker(RocketPipeError):
    """No broker, or no cluster, has this name; or the broker has no leader."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}: {hint}")
        self.hint = hint


class PartlyDone(RocketPipeError):
    """Some servers did what was asked, ``done``, and some did not: ``failed`` says why."""

    def __init__(self, done: Sequence[str], failed: Mapping[str, RocketPipeError]) -> None:
        reasons = [f"{name} ({error})" for name, error in list(failed.items())[:_MAX_NAMED]]
        if len(failed) > _MAX_NAMED:
            reasons.append(f"{len(failed) - _MAX_NAMED} more")
        self.hint = "put right what it says, then do the same again"
        super().__init__(
            f"done at {', '.join(done) or 'none'}, not at {'; '.join(reasons)}: {self.hint}"
        )
        self.done = tuple(done)
        self.failed = dict(failed)
        self.retryable = all(error.retryable for error in failed.values())


class Fleet:
    """All servers that a session's NameServers know, and they themselves."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def everyone(self) -> ClusterBrokers:
        """Every cluster and broker.

        Raises:
            ConnectionLost: If no NameServer answers.
        """
        return (await self.session.directory.ask(GetBrokerClusterInfo())).cluster_brokers

    async def brokers(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[str, BrokerAddresses]:
        """Brokers by name: all of them, those of one cluster, or one.

        Raises:
            NoBroker: If there is none.
            ConnectionLost: If no NameServer answers.
        """
        known = await self.everyone()
        if cluster is not None and cluster not in known.clusters:
            raise NoBroker(f"no cluster {cluster!r}", _known("clusters", known.clusters))
        found = dict(known.brokers if cluster is None else known.members(cluster))
        if broker is not None:
            if broker not in found:
                raise NoBroker(f"no broker {broker!r}", _known("brokers", found))
            found = {broker: found[broker]}
        if not found:
            raise NoBroker("no broker at all", "start one, and give it these NameServers")
        return dict(sorted(found.items()))

    async def leaders(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[str, str]:
        """The address of each leader by its broker's name.

        Raises:
            NoBroker: If there is none, or a broker has none: what is changed would be lost there.
            ConnectionLost: If no NameServer answers.
        """
        found: dict[str, str] = {}
        for name, addresses in (await self.brokers(cluster=cluster, broker=broker)).items():
            if addresses.leader is None:
                raise NoBroker(f"broker {name!r} has no leader", "wait for one, or start it")
            found[name] = addresses.leader
        return found

    async def ask(self, servers: Mapping[str, str], request: Request[ReplyT]) -> dict[str, ReplyT]:
        """Ask servers, given by name and address; all of them must answer.

        Raises:
            RocketPipeError: What the first of them failed with.
        """
        return await each(servers, lambda name: self.call(servers[name], request))

    async def attempt(
        self, servers: Mapping[str, str | None], request: Request[ReplyT]
    ) -> dict[str, ReplyT | RocketPipeError]:
        """Ask servers, given by name and address; who does not answer stands with the reason.

        A broker without an address is one that has no leader now.
        """

        async def ask(name: str) -> ReplyT | RocketPipeError:
            address = servers[name]
            if address is None:
                return NoBroker(f"broker {name!r} has no leader", "wait for one, or start it")
            try:
                return await self.call(address, request)
            except RocketPipeError as error:
                return error

        return await each(servers, ask)

    async def tell(self, servers: Mapping[str, str], request: Request[Any]) -> None:
        """Have servers do something, each whether or not the others can.

        Raises:
            PartlyDone: If some did not, and others may have.
            RocketPipeError: What it failed with, if there is only one server.
        """
        await self.carry_out({name: (address, request) for name, address in servers.items()})

    async def carry_out(self, requests: Mapping[str, tuple[str, Request[ReplyT]]]) -> None:
        """Have each server do its own request, given by name with an address.

        Raises:
            PartlyDone: If some did not, and others may have.
            RocketPipeError: What it failed with, if there is only one server.
        """

        async def attempt(name: str) -> RocketPipeError | None:
            try:
                await self.call(*requests[name])
            except RocketPipeError as error:
                return error
            return None

        results = await each(requests, attempt)
        failed = {name: error for name, error in results.items() if error is not None}
        if failed and len(requests) == 1:
            raise next(iter(failed.values()))
        if failed:
            raise PartlyDone([name for name in results if name not in failed], failed)

    async def call(self, address: str, request: Request[ReplyT]) -> ReplyT:
        """Ask one server; or the leader that it names, if it refuses because it is none."""
        caller, timeout_ms = self.session.caller, self.session.timeout_ms
        try:
            return await caller.call(address, request, timeout_ms)
        except RequestRejected as error:
            leader = leader_in(error.remark)
            is_elsewhere = error.code == ResponseCode.SERVICE_NOT_AVAILABLE and leader != address
            if leader is None or not is_elsewhere:
                raise
            return await caller.call(leader, request, timeout_ms)

    async def pull(
        self,
        address: str,
        topic: str,
        queue_id: int,
        offset: QueueOffset,
        *,
        broker: str | None = None,
        most: int = _A_PULL,
    ) -> PullMessageReply:
        """Ask one broker for messages of a queue from ``offset`` on, without waiting for any.

        Raises:
            RequestRejected: If it has no such queue, or refuses.
            ConnectionLost: If it is out of reach.
        """
        request = PullMessage(
            consumer_group=TOOLS_CONSUMER_GROUP,
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=most,
            sys_flag=int(PullFlag.SUBSCRIPTION),
            commit_offset=QueueOffset(0),
            suspend_timeout_millis=0,
            subscription=EVERYTHING,
            sub_version=0,
            expression_type=TAG,
            broker_name=broker,
        )
        return await self.call(address, request)

    @property
    def name_servers(self) -> dict[str, str]:
        """The NameServers, which are named by their addresses."""
        return {address: address for address in self.session.name_servers.addresses}


async def each(
    keys: Mapping[KeyT, Any] | Sequence[KeyT], act: Callable[[KeyT], Awaitable[ResultT]]
) -> dict[KeyT, ResultT]:
    """Do something for every key, a few of them at a time; gives the results in order."""
    todo, results = list(keys), dict[KeyT, ResultT]()
    for at in range(0, len(todo), AT_ONCE):
        some = todo[at : at + AT_ONCE]
        done = await asyncio.gather(*(act(key) for key in some))
        results.update(zip(some, done, strict=True))
    return results


def _known(what: str, names: Mapping[str, Any]) -> str:
    shown = sorted(names)[:_MAX_NAMED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"there are these {what}: {', '.join(shown) or 'none'}{more}"
