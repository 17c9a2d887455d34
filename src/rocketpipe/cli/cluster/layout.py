"""Which processes a cluster has, and on which ports: chosen once, then kept in its directory.

    DIR/cluster.json      this
    DIR/running.json      process ids, for who has to end what was left over
    DIR/cluster.lock      held by the process that supervises
    DIR/control.sock      where it is told what to do
    DIR/conf/NAME.conf    RocketMQ's settings for each broker, written at each start
    DIR/logs/NAME.log
    DIR/NAME/             what each keeps

Ports stay the same for as long as the directory lives, so that a process that is started again is
found where it was, and clients need not be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from rocketpipe.cli.children.ports import LastingPorts
from rocketpipe.errors import ConfigError

HOST: Final = "127.0.0.1"
#: Where a cluster lives if nobody says where.
USUAL_DIRECTORY: Final = "rocketpipe-cluster"
FILE_NAME: Final = "cluster.json"

MOST_REPLICAS: Final = 9
MOST_ZOOKEEPERS: Final = 7

_FORMAT: Final = 1


class Mode(StrEnum):
    """The five ways to run brokers that RocketMQ is described by."""

    SINGLE = "single"
    TWO_MASTERS = "two-masters"
    ASYNC = "async"
    SYNC = "sync"
    ELECTED = "elected"

    @property
    def usual_replicas(self) -> int:
        """How many copies each group of brokers has if nobody says."""
        return {Mode.ASYNC: 2, Mode.SYNC: 2, Mode.ELECTED: 3}.get(self, 1)


class Kind(StrEnum):
    """What a process is."""

    BROKER = "broker"
    NAMESRV = "namesrv"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One process: its name, and the ports that are its own."""

    kind: Kind
    name: str
    port: int
    #: The name that it shares with its replicas; of brokers only.
    group: str = ""
    #: Its id among them, where roles are fixed: 0 is the master.
    broker_id: int = 0
    ha_port: int = 0
    #: The relays that lie between this process and others, by the name of who is reached through
    #: them. Under its own name: the one through which others reach its HA port.
    relays: dict[str, int] = field(default_factory=dict)
    #: Where nodes of one ensemble reach each other.
    peer_port: int = 0
    election_port: int = 0

    @property
    def address(self) -> str:
        """Where its clients reach it."""
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All processes of a cluster."""

    mode: Mode
    replicas: int
    places: tuple[Place, ...]
    session_ms: int = 3_000
    version: int = _FORMAT

    def of_kind(self, kind: Kind) -> list[Place]:
        """The processes of one kind, in the order of their making."""
        return [place for place in self.places if place.kind is kind]

    @property
    def name_server(self) -> str:
        """What clients are given."""
        return self.of_kind(Kind.NAMESRV)[0].address

    def save(self, directory: Path) -> None:
        """Keep it, whole or not at all."""
        text = msgspec.json.format(msgspec.json.encode(self), indent=2)
        unfinished = directory / f"{FILE_NAME}.tmp"
        unfinished.write_bytes(text + b"\n")
        unfinished.replace(directory / FILE_NAME)


def load(directory: Path) -> Layout | None:
    """What a directory has of a cluster; None if it has none.

    Raises:
        ConfigError: If what is there cannot be read.
    """
    path = directory / FILE_NAME
    try:
        layout = msgspec.json.decode(path.read_bytes(), type=Layout)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, OSError) as error:
        raise ConfigError(
            str(path), f"is no cluster's layout ({error}): name another directory with --data"
        ) from error
    if layout.version != _FORMAT or not layout.of_kind(Kind.NAMESRV):
        raise ConfigError(str(path), f"is of another version of RocketPipe ({layout.version})")
    return layout


def laid_out(
    known: Layout | None,
    *,
    mode: Mode | None,
    replicas: int | None,
    zookeepers: int | None,
    session_ms: int | None,
    namesrv_port: int | None = None,
) -> Layout:
    """The cluster that was asked for: a new one, or a known one as it was, with replicas added.

    Raises:
        ConfigError: If that cannot be: the known one is of another mode, or has more.
    """
    if known is None:
        made = _made(mode or Mode.ELECTED, replicas, zookeepers, namesrv_port)
        return replace(made, session_ms=session_ms or made.session_ms)
    if mode is not None and mode is not known.mode:
        raise ConfigError(
            "--mode", f"this cluster is {known.mode}, and stays it: name another directory"
        )
    nodes = len(known.of_kind(Kind.ZOOKEEPER))
    if zookeepers is not None and zookeepers != nodes:
        raise ConfigError(
            "--zookeepers", f"this cluster has {nodes}, and keeps them: name another directory"
        )
    if namesrv_port is not None and namesrv_port != known.of_kind(Kind.NAMESRV)[0].port:
        raise ConfigError(
            "--namesrv-port", f"this cluster's is {known.name_server}: name another directory"
        )
    if session_ms is not None:
        known = replace(known, session_ms=session_ms)
    if replicas is None or replicas == known.replicas:
        return known
    if replicas < known.replicas:
        raise ConfigError(
            "--replicas",
            f"this cluster has {known.replicas}: they are not taken away; leave one out with "
            "`rocketpipe cluster kill NAME`, or name another directory",
        )
    _check(known.mode, replicas, zookeepers)
    ports = LastingPorts(HOST, (port for place in known.places for port in _ports_of(place)))
    added = [
        place
        for place in _brokers(known.mode, replicas, known.of_kind(Kind.ZOOKEEPER), ports)
        if place.name not in {each.name for each in known.places}
    ]
    return replace(known, replicas=replicas, places=(*known.places, *added))


def _made(
    mode: Mode, replicas: int | None, zookeepers: int | None, namesrv_port: int | None
) -> Layout:
    count = replicas or mode.usual_replicas
    _check(mode, count, zookeepers)
    ports = LastingPorts(HOST)
    nodes = [
        Place(
            kind=Kind.ZOOKEEPER,
            name=f"zookeeper-{number}",
            port=next(ports),
            peer_port=next(ports),
            election_port=next(ports),
        )
        for number in range(1, (zookeepers or 1) + 1 if mode is Mode.ELECTED else 1)
    ]
    namesrv = Place(kind=Kind.NAMESRV, name="namesrv", port=namesrv_port or next(ports))
    brokers = _brokers(mode, count, nodes, ports)
    return Layout(mode=mode, replicas=count, places=(*nodes, namesrv, *brokers))


def _check(mode: Mode, replicas: int, zookeepers: int | None) -> None:
    if mode in (Mode.SINGLE, Mode.TWO_MASTERS) and replicas != 1:
        raise ConfigError("--replicas", f"{mode} has none: choose --mode async, sync or elected")
    if mode in (Mode.ASYNC, Mode.SYNC) and replicas < 2:
        raise ConfigError("--replicas", f"{mode} has 2 or more: a master and its slaves")
    if replicas > MOST_REPLICAS:
        raise ConfigError("--replicas", f"{replicas} on one machine: at most {MOST_REPLICAS}")
    if zookeepers is not None and mode is not Mode.ELECTED:
        raise ConfigError("--zookeepers", f"{mode} has none: only --mode elected asks a ZooKeeper")
    if zookeepers is not None and zookeepers > MOST_ZOOKEEPERS:
        raise ConfigError("--zookeepers", f"{zookeepers} on one machine: at most {MOST_ZOOKEEPERS}")


def _brokers(mode: Mode, replicas: int, nodes: list[Place], ports: Iterator[int]) -> list[Place]:
    groups = ["broker-a"] if mode in (Mode.SINGLE, Mode.ELECTED) else ["broker-a", "broker-b"]
    made = []
    for group in groups:
        for number in range(replicas):
            name = group
            reached: list[str] = []
            if mode is Mode.ELECTED:
                name = f"{group}-{number + 1}"
                reached = [name, *(node.name for node in nodes)]
            elif number:
                name = f"{group}-s" if number == 1 else f"{group}-s{number}"
                reached = [group]
            made.append(
                Place(
                    kind=Kind.BROKER,
                    name=name,
                    group=group,
                    broker_id=0 if mode is Mode.ELECTED else number,
                    port=next(ports),
                    ha_port=next(ports) if replicas > 1 or mode is Mode.ELECTED else 0,
                    relays={each: next(ports) for each in reached},
                )
            )
    return made


def _ports_of(place: Place) -> Iterator[int]:
    yield from (place.port, place.ha_port, place.peer_port, place.election_port)
    yield from place.relays.values()
