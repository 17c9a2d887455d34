"""What scenarios of consumers share: topics, a history of deliveries, and its checker.

A delivery has a cause when it is the first, or when the queue changed hands since the last one: its
earlier reader's share lost the queue, or that reader was closed or killed. Whatever else comes
twice is an anomaly, and so is what never comes.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.scenarios.support.members import Servers
from tests.waiting import PATIENCE_S

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.client.consumer.group.assignment import AVERAGE, Strategy
from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.route import MessageQueue
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.protocol.requests.topics import UpdateAndCreateTopic
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig


async def create_topic(broker: str, topic: str, queues: int) -> None:
    request = UpdateAndCreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
    )
    async with Caller() as caller:
        await caller.call(broker, request, PATIENCE_S * 1000)


async def until_topic(name_server: str, topic: str) -> None:
    """Wait until a NameServer knows a topic."""
    async with Caller() as caller, asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await caller.call(name_server, GetRouteInfoByTopic(topic=topic))
            except RocketPipeError:
                await asyncio.sleep(0.01)
            else:
                return


@asynccontextmanager
async def quick_servers(
    data: Path, *, clock: Clock | None = None, **store: Any
) -> AsyncIterator[Servers]:
    """Run both in this process, with a store set as ``store`` says."""
    async with name_server(NamesrvConfig(port=0)) as names:
        config = BrokerConfig(
            data=data,
            name_servers=(names,),
            port=0,
            store=StoreConfig.embedded(data, **store),
        )
        async with broker(config, clock=clock) as address:
            yield Servers(names, address)


@dataclass(frozen=True)
class Got:
    """A message came to a member."""

    member: str
    queue: MessageQueue
    body: bytes


@dataclass(frozen=True)
class Share:
    """A member's share of the queues was worked out anew."""

    member: str
    queues: frozenset[MessageQueue]


@dataclass(frozen=True)
class Gone:
    """A member has left, or was killed."""

    member: str


@dataclass
class History:
    """What happened, in order."""

    events: list[Got | Share | Gone] = field(default_factory=list)
    bodies: set[bytes] = field(default_factory=set)

    def got(self, member: str, queue: MessageQueue, body: bytes) -> None:
        self.events.append(Got(member, queue, body))
        self.bodies.add(body)

    def gone(self, member: str) -> None:
        self.events.append(Gone(member))

    def strategy(self, member: str) -> Strategy:
        """Share out by average, and note what the member's share is."""

        def share(
            me: str, queues: Sequence[MessageQueue], members: Sequence[str]
        ) -> list[MessageQueue]:
            mine = AVERAGE(me, queues, members)
            self.events.append(Share(member, frozenset(mine)))
            return mine

        return Strategy(AVERAGE.name, share)


def anomalies(history: History, sent: Iterable[bytes]) -> list[str]:
    """What is wrong with a history: lost messages, strangers, duplicates without a cause."""
    wanted = set(sent)
    found = [f"lost {body!r}" for body in sorted(wanted - history.bodies)]
    found += [f"never sent {body!r}" for body in sorted(history.bodies - wanted)]
    #: For each member, the queues that left its share since a message was last delivered to it.
    left: defaultdict[str, set[MessageQueue]] = defaultdict(set)
    had: dict[str, frozenset[MessageQueue]] = {}
    last: dict[bytes, Got] = {}
    lost_since: dict[bytes, bool] = {}
    for event in history.events:
        if isinstance(event, Share):
            gone = had.get(event.member, frozenset()) - event.queues
            left[event.member] |= gone
            had[event.member] = event.queues
            for body, got in last.items():
                if got.member == event.member and got.queue in gone:
                    lost_since[body] = True
        elif isinstance(event, Gone):
            for body, got in last.items():
                if got.member == event.member:
                    lost_since[body] = True
        else:
            before = last.get(event.body)
            if before is not None and before.member == event.member:
                if not lost_since[event.body]:
                    found.append(f"{event.body!r} came twice to {event.member} without a cause")
            elif before is not None and not (
                lost_since[event.body]
                or event.queue in left[event.member]
                or event.queue in had.get(event.member, frozenset())
            ):
                found.append(f"{event.body!r} came to {event.member}, who never had its queue")
            last[event.body] = event
            lost_since[event.body] = False
    return found
