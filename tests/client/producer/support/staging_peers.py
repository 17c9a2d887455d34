"""Brokers that stage, and NameServers that know them, as far as a client's session asks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from rocketpipe.client.name_servers import NameServerClient, NameServers
from rocketpipe.client.routes import RouteCache
from rocketpipe.errors import ConnectionLost, RequestRejected, RocketPipeError
from rocketpipe.model.ids import UniqueKeys
from rocketpipe.model.route import BrokerAddresses, ClusterBrokers
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.kv import GetKeyValue, KeyValueReply, PutKeyValue
from rocketpipe.protocol.requests.routes import GetBrokerClusterInfo
from rocketpipe.protocol.requests.staging import (
    AskStages,
    AskStagesReply,
    CommitStages,
    CommitStagesReply,
    PrepareStages,
    PrepareStagesReply,
    SettleStages,
    StageList,
    StageMessages,
    StageMessagesReply,
)
from rocketpipe.testing.clock import ManualClock


class Peer:
    """A broker: what was staged there, and what it committed."""

    def __init__(self) -> None:
        self.parts: dict[tuple[str, int], bytes] = {}
        self.committed: dict[tuple[str, int], StageList] = {}
        self.failures: list[RocketPipeError] = []
        self.asked = 0
        #: Stages that it has no more.
        self.lost: set[str] = set()
        #: What happens when it has committed.
        self.then: Callable[[], None] | None = None
        self.prepared: list[tuple[tuple[str, int], str, dict[str, int]]] = []
        self.settled: list[tuple[str, int]] = []

    def answer(self, request: Any) -> Any:
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        if isinstance(request, SettleStages):
            self.settled.append((request.application, request.batch))
            return None
        if isinstance(request, PrepareStages):
            batch = (request.application, request.batch)
            self.prepared.append((batch, request.home, dict(request.named.stages)))
            shown = self.committed.get(batch)
            told = StageList(content=shown.content if shown else None)
            return PrepareStagesReply(committed=shown is not None, outcome=told)
        if isinstance(request, AskStages):
            return AskStagesReply(decided=(request.application, request.batch) in self.committed)
        if isinstance(request, StageMessages):
            batch = (request.application, request.batch)
            if batch in self.committed:
                return StageMessagesReply(committed=True)
            self.parts[request.stage, request.part] = request.body
            return StageMessagesReply()
        assert isinstance(request, CommitStages)
        batch = (request.application, request.batch)
        if request.batch < 0:
            return CommitStagesReply()
        first = self.committed.get(batch)
        if first is None:
            for stage in self.lost.intersection(request.named.stages):
                raise RequestRejected(
                    ResponseCode.INVALID_PARAMETER, f"there is no stage {stage!r}"
                )
            self.committed[batch] = request.named
            if self.then is not None:
                self.then()
        named = first or request.named
        told = StageList(plan=named.plan, content=named.content)
        return CommitStagesReply(duplicate=first is not None, outcome=told)


class Peers:
    """A session's caller, directory and clock, with these brokers behind them."""

    timeout_ms = 3000

    def __init__(self, **brokers: Peer) -> None:
        self.brokers: Mapping[str, Peer] = brokers
        self.clock = ManualClock()
        self.keys = UniqueKeys(bytes(4), 1, 1)
        self.caller = self
        self.directory = self
        self.name_servers = NameServers.parse("n1:9876;n2:9876")
        #: It knows no topic: who stages here is told where brokers are.
        self.routes = RouteCache(cast(NameServerClient, self), clock=self.clock)
        #: What each NameServer keeps; one that is not there does not answer.
        self.refuses_to_keep = False
        self.on_keep: Callable[[dict[str, str]], None] | None = None
        self.kept: dict[str, dict[str, str]] = {n: {} for n in self.name_servers.addresses}

    async def ask(self, request: GetBrokerClusterInfo) -> Any:
        table = {
            name: BrokerAddresses(cluster="c", broker_name=name, addresses={0: f"{name}:1"})
            for name in self.brokers
        }
        return type("Reply", (), {"cluster_brokers": ClusterBrokers(brokers=table)})()

    async def route(self, topic: str) -> None: ...

    def check_process(self) -> None: ...

    def turn(self) -> None: ...

    async def call(self, address: str, request: Any, timeout_ms: int) -> Any:
        if address in self.name_servers.addresses:
            return self._keep(address, request)
        peer = self.brokers.get(address.removesuffix(":1"))
        if peer is None:
            raise ConnectionLost(address, "nobody there")
        return peer.answer(request)

    def _keep(self, address: str, request: GetKeyValue | PutKeyValue) -> Any:
        kept = self.kept.get(address)
        if kept is None:
            raise ConnectionLost(address, "nobody there")
        if isinstance(request, PutKeyValue):
            if self.refuses_to_keep:
                raise RequestRejected(ResponseCode.SYSTEM_ERROR, "read-only")
            kept[request.key] = request.value
            if self.on_keep is not None:
                self.on_keep(kept)
            return None
        if request.key not in kept:
            raise RequestRejected(ResponseCode.QUERY_NOT_FOUND, "no such key")
        return KeyValueReply(value=kept[request.key])
