"""One kind of server that is compared: what starts it, what it serves, when it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.broker.generator import TOPIC
from benchmarks.broker.scenarios import Kind, Scenario

#: What the generator calls the requests of RocketMQ.
ROCKETMQ: Final[Mapping[Kind, str]] = {
    "send": "send",
    "batch": "batch",
    "pull": "pull",
    "pop": "pop",
    "popbatch": "popbatch",
    "delay": "send",
    "timer": "send",
    "transaction": "transaction",
    "stream": "send",
}
BROKER: Final = "broker-a"
#: How far apart the ports of several brokers are.
PORT_STEP: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A server about to be started: where it keeps its files, where it listens, when it answers."""

    directory: Path
    port: int
    sync: bool
    #: As many topics are there from the start, if it has to be told of topics.
    topics: int = 0


@dataclass(frozen=True, slots=True)
class Durability:
    """When a message is answered for: as a rule, and where the answer waits for the disk."""

    usual: str
    #: None if it cannot wait.
    sync: str | None


def _nothing(port: int) -> None:
    """Servers that need no fresh stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One kind of server."""

    name: str
    title: str
    durability: Durability
    #: The generator's name for each kind of request that it serves.
    protocols: Mapping[Kind, str]
    command: Callable[[Start], list[str]]
    environment: Mapping[str, str] | None = None
    #: Whether it does its work on one core, and so is given one.
    one_core: bool = False
    #: How many there are of it, on ports that are ten apart.
    brokers: int = 1
    #: The most topics that it is measured with.
    most_topics: int = 10_000
    #: How long it is under load before anything is measured; a JVM compiles meanwhile.
    warmup_s: float = 1.0
    #: Lets go of what earlier runs left, so that every run begins alike; given the port.
    prepare: Callable[[int], None] = field(default=_nothing)

    def serves(self, scenario: Scenario) -> bool:
        """Whether there is something to measure."""
        if scenario.sync and self.durability.sync is None:
            return False
        return scenario.kind in self.protocols and scenario.topics <= self.most_topics

    def ports(self, first: int) -> list[int]:
        """Where all of it listen."""
        return [first + number * PORT_STEP for number in range(self.brokers)]

    @property
    def broker_names(self) -> list[str]:
        """How all of it are called, where brokers have names."""
        if self.brokers == 1:
            return [BROKER]
        return [f"{BROKER}-{number}" for number in range(self.brokers)]


def write_topics(store: Path, count: int) -> None:
    """Put that many topics of one queue into the tables of a store of RocketMQ's that is new."""
    (store / "config").mkdir(parents=True)
    (store / "commitlog").mkdir()  # several brokers share a directory's tables if it has a log
    names = [f"{TOPIC}{number:05}" for number in range(count)]
    table = {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000},
        "topicConfigTable": {
            name: {
                "attributes": {},
                "order": False,
                "perm": 6,
                "readQueueNums": 1,
                "topicFilterType": "SINGLE_TAG",
                "topicName": name,
                "topicSysFlag": 0,
                "writeQueueNums": 1,
            }
            for name in names
        },
    }
    (store / "config" / "topics.json").write_text(json.dumps(table))
