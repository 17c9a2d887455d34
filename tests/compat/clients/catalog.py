"""Which clients are run, what each of their libraries can do, and how its program is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tests.compat.clients import installing
from tests.compat.clients.driver import Driver, driving
from tests.compat.clients.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a client's program is started."""

    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Someone else's client library."""

    name: str
    #: The scenarios that it has the means for.
    can: frozenset[str]
    #: Installs it if need be; told a NameServer, a name and a directory for its logs.
    start: Callable[[str, str, Path], Start]
    #: Ways to send; with ``oneway`` there is no answer.
    hows: tuple[str, ...] = ("sync",)
    #: It can set properties of the user's own.
    has_properties: bool = True
    #: A message's id stays the same when it is delayed; else it is where it is stored.
    unique_ids: bool = True
    #: It tells brokers when a consumer leaves; else they see its connection end.
    unregisters: bool = True
    #: It looks for new routes every 30 s and cannot be told otherwise.
    slow_routes: bool = False
    #: How many scenarios it runs at a time.
    at_once: int = 16
    #: A send to a topic that is not there lets the broker create it.
    creates_topics: bool = True
    #: Words for `Outgoing.order`: with ali-ons, a word that would choose queue 0 chooses any.
    order_words: tuple[str, ...] = ("a", "b", "c", "d")

    @property
    def word(self) -> str:
        """Its name as a part of those of groups and topics, which have no dots."""
        return self.name.replace(".", "_")

    def drive(self, target: Target, name: str, scratch: Path) -> AbstractContextManager[Driver]:
        start = self.start(target.name_server, name, scratch)
        return driving(name, start.command, scratch, start.environ)


def start_ali_ons(name_server: str, name: str, scratch: Path) -> Start:
    node = installing.node()
    program = installing.node_packages(node) / "ali-ons.js"
    return Start(command=(str(node), str(program), name_server, name))


def start_rocketmq_nodejs(name_server: str, name: str, scratch: Path) -> Start:
    node = installing.node()
    program = installing.node_packages(node) / "rocketmq-nodejs.js"
    # It writes logs into the home directory as well.
    return Start(
        command=(str(node), str(program), name_server, name, str(scratch / f"{name}-logs")),
        environ={**os.environ, "HOME": str(scratch)},
    )


def start_rocketmq_python(name_server: str, name: str, scratch: Path) -> Start:
    packages = installing.python_packages()
    program = installing.HERE / "python" / "rocketmq_cpp.py"
    return Start(
        command=(sys.executable, str(program), name_server, name),
        environ={**os.environ, "HOME": str(scratch), "PYTHONPATH": str(packages)},
    )


def start_java(version: str) -> Callable[[str, str, Path], Start]:
    def start(name_server: str, name: str, scratch: Path) -> Start:
        java, made = installing.java_client(version)
        return Start(
            command=(
                str(java),
                *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
                *(f"-Duser.home={scratch}", f"-Djava.io.tmpdir={scratch}"),
                f"-Drocketmq.client.localOffsetStoreDir={scratch / name}",
                "-Drocketmq.client.rebalance.waitInterval=1000",
                "-Drocketmq.client.logUseSlf4j=true",
                *("-cp", f"{made / 'classes'}:{made / 'jars'}/*"),
                *("Client", name_server, name),
            )
        )

    return start


def start_go(name_server: str, name: str, scratch: Path) -> Start:
    return Start(
        command=(str(installing.go_program()), name_server, name),
        environ={**os.environ, "HOME": str(scratch)},
    )


EVERYWHERE = frozenset({"normal", "tagged", "shared", "retried"})

ALI_ONS = Client(
    name="ali-ons",
    can=EVERYWHERE | {"ordered", "delayed", "sql", "broadcast", "dead", "unknown"},
    start=start_ali_ons,
    unique_ids=False,
    creates_topics=False,
    order_words=("a", "b", "e", "i"),
)
ROCKETMQ_NODEJS = Client(
    name="rocketmq-nodejs",
    can=EVERYWHERE,
    start=start_rocketmq_nodejs,
    has_properties=False,
    slow_routes=True,
)
ROCKETMQ_PYTHON = Client(
    name="rocketmq-python",
    # Its batches are not what Apache's broker takes for one either.
    can=EVERYWHERE | {"ordered", "delayed", "broadcast"},
    start=start_rocketmq_python,
    slow_routes=True,
    # Used by several threads, it loses routes and messages, at Apache's servers too.
    at_once=1,
)
JAVA_CAN = EVERYWHERE | {"ordered", "delayed", "batched", "sql", "broadcast", "dead", "unknown"}
JAVA_CAN |= {"held_up", "lookups", "transactions", "checked", "timed", "asked"}
HOWS = ("sync", "async", "oneway")
JAVAS = tuple(
    Client(name=f"java-{version}", can=JAVA_CAN, start=start_java(version), hows=HOWS)
    for version in ("5.5.0", "5.3.3", "4.9.8")
)
GO_CAN = EVERYWHERE | {"ordered", "delayed", "batched", "sql", "broadcast", "dead", "held_up"}
GO_CAN |= {"transactions", "checked"}
GO = Client(
    name="go-2.1.2", can=GO_CAN, start=start_go, hows=HOWS, unregisters=False, slow_routes=True
)

#: Those that `make test` runs, and those that only `make compat` does.
QUICK = (ALI_ONS, ROCKETMQ_NODEJS, ROCKETMQ_PYTHON)
SLOW = (*JAVAS, GO)
