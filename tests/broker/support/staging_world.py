"""Several brokers that stage, a NameServer and a writer, with a net that loses what it likes.

The brokers' parts are the real ones, each on a disk of its own; so are the writer's. Calls get lost
before or after they did something, and brokers are killed at either moment, as a seed says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, cast

from tests.broker.support.staging_parts import EXPIRY_MS, StagingParts

from rocketpipe.broker.features.staging.asking import StageAsking
from rocketpipe.client.name_servers import NameServers
from rocketpipe.client.producer.staging.content import Content, checksum
from rocketpipe.client.producer.staging.stages import Batch, Committer, StageWriter, brokers_of
from rocketpipe.errors import CallTimeout, ConnectionLost, RequestRejected
from rocketpipe.model.route import BrokerAddresses, ClusterBrokers, MessageQueue
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.kv import GetKeyValue, KeyValueReply, PutKeyValue
from rocketpipe.protocol.requests.routes import GetBrokerClusterInfo
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk
from rocketpipe.testing.simulation.small_store import ROOT

NAME_SERVER = "n:9876"
TOPIC = "t"

Hook = Callable[[str, Any, bool], None]
"""Told of each call at a broker, before (False) and after (True) it did something; may raise."""


class World:
    """What a session's caller, directory and clock are to a client, and a caller to a broker."""

    timeout_ms = 3000

    def __init__(self, brokers: Sequence[str], seed: int = 0) -> None:
        self.clock = ManualClock()
        self.caller = self.directory = self
        self.name_servers = NameServers.parse(NAME_SERVER)
        self.kept: dict[str, str] = {}
        self.disks = {name: SimDisk(seed) for name in brokers}
        self.running: dict[str, StagingParts] = {}
        self.asking: dict[str, StageAsking] = {}
        self.hook: Hook | None = None
        for name in brokers:
            self.start(name)

    # Brokers

    def start(self, name: str) -> None:
        """Start a broker on the disk that the last run left."""
        parts = StagingParts(ROOT, self.clock, disk=self.disks[name], config={"name": name})
        self.running[name] = parts
        self.asking[name] = StageAsking(
            parts.staging,
            cast("Any", self),
            self.clock,
            name,
            (NAME_SERVER,),
            expiry_ms=EXPIRY_MS,
        )

    def kill(self, name: str) -> None:
        """End a broker between two instructions."""
        self.running.pop(name)
        self.disks[name].crash("everything")

    def lose(self, name: str) -> None:
        """End a broker, and put an empty disk into its place."""
        self.running.pop(name, None)
        self.disks[name] = SimDisk(99)

    async def tend(self) -> None:
        """Have every broker do what it does from time to time."""
        for name in sorted(self.running):
            if name in self.running:
                await self.running[name].staging.tend()
                await self.asking[name].ask_once()

    def shown(self) -> list[bytes]:
        """What consumers see at the brokers that run."""
        return [body for name in sorted(self.running) for body in self.running[name].bodies(TOPIC)]

    # The net

    async def ask(self, request: GetBrokerClusterInfo) -> Any:
        """What NameServers say of brokers; one that was killed is not taken out at once."""
        table = {
            name: BrokerAddresses(cluster="c", broker_name=name, addresses={0: f"{name}:1"})
            for name in self.disks
        }
        return type("Reply", (), {"cluster_brokers": ClusterBrokers(brokers=table)})()

    async def call(self, address: str, request: Any, timeout_ms: int) -> Any:
        """One request and its answer."""
        if address == NAME_SERVER:
            return await self._name_server(request)
        name = address.removesuffix(":1")
        self._happen(name, request, False)
        if name not in self.running:
            raise ConnectionLost(address, "nobody there")
        answer = await self.running[name].ask(request)
        self._happen(name, request, True)
        if name not in self.running:
            raise ConnectionLost(address, "it ended")
        return answer

    def _happen(self, name: str, request: Any, after: bool) -> None:
        if self.hook is not None:
            self.hook(name, request, after)

    async def _name_server(self, request: Any) -> Any:
        if isinstance(request, GetBrokerClusterInfo):
            return await self.ask(request)
        if isinstance(request, PutKeyValue):
            self.kept[request.key] = request.value
            return None
        assert isinstance(request, GetKeyValue)
        if request.key not in self.kept:
            raise RequestRejected(ResponseCode.QUERY_NOT_FOUND, "no such key")
        return KeyValueReply(value=self.kept[request.key])

    # The writer

    async def write(self, number: int, rows: Sequence[bytes]) -> bool:
        """One attempt at a batch; raises whatever goes wrong."""
        batch = Batch("app", number)
        session = cast("Any", self)
        writer = StageWriter(session, "g", batch)
        queues = [MessageQueue(topic=TOPIC, broker_name=name, queue_id=0) for name in self.disks]
        brokers = brokers_of(queues)
        contents: dict[str, Content] = {}
        for row in rows:
            total = checksum(TOPIC, 0, row, b"")
            name = brokers[total % len(brokers)]
            contents.setdefault(name, Content()).add(TOPIC, total, len(row))
            if name in writer.committed_at:
                continue
            [queue] = [queue for queue in queues if queue.broker_name == name]
            body = encode_batch([Entry(0, row, b"")])
            await writer.put(writer.ticket(queue), body, 1, f"{name}:1", 1000)
        plan = {name: {writer.name: count} for name, count in writer.parts.items()}
        return await Committer(session, "g", 0).commit(batch, plan, contents)


def hazards(world: World, chance: random.Random) -> Hook:
    """A net, and power, that fail now and then."""

    def happen(name: str, request: Any, after: bool) -> None:
        roll = chance.random()
        if roll < 0.05 and name in world.running:
            world.kill(name)
        elif roll < 0.12:
            raise CallTimeout(name, type(request).__name__, 1)

    return happen
