"""How each process of a cluster is started: its command, and the settings that it reads."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketpipe.cli.cluster.layout import HOST, Kind, Layout, Mode, Place
from rocketpipe.coordination import zookeeper_server
from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.java import java_program


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What `cluster up` was told about the servers, this time."""

    profile: str = "dev"
    flush: str | None = None
    #: More settings, for every broker.
    config: Sequence[Path] = ()


class Commands:
    """Gives the command of each process of one cluster."""

    def __init__(self, layout: Layout, directory: Path, wishes: Wishes) -> None:
        self._layout = layout
        self._directory = directory
        self._wishes = wishes
        self._java: Path | None = None

    def check(self) -> None:
        """Look for what is needed, before anything is started.

        Raises:
            ConfigError: A ZooKeeper is to run, and brokers could not speak to it.
            JavaNotFound: A ZooKeeper is to run, and there is no Java.
            ZooKeeperNotFound: The same, for its jars.
        """
        if self._layout.of_kind(Kind.ZOOKEEPER):
            if importlib.util.find_spec("kazoo") is None:
                raise ConfigError(
                    "--mode",
                    "elected brokers speak to ZooKeeper through kazoo: "
                    "`pip install kazoo`; sync and async need nothing more",
                )
            zookeeper_server.find_jars()
            self._java = java_program(os.environ, "ZooKeeper")

    def of(self, place: Place) -> list[str]:
        """The command that runs one process in the foreground.

        Raises:
            OSError: If its settings cannot be written.
        """
        if place.kind is Kind.ZOOKEEPER:
            assert self._java is not None, "checked before"
            nodes = self._layout.of_kind(Kind.ZOOKEEPER)
            own = _node(place)
            others = [_node(each) for each in nodes if each is not place]
            return zookeeper_server.server_command(
                self._java, self._directory / place.name, own, others
            )
        command = [sys.executable, "-m", "rocketpipe.cli.main", place.kind.value]
        command += ["--port", str(place.port), "--profile", self._wishes.profile]
        command += ["--log-level", "info", "-o", "json"]
        if place.kind is Kind.NAMESRV:
            return command
        for each in self._wishes.config:
            command += ["-c", str(each.absolute())]
        command += ["-c", str(self._written(place)), "-n", self._layout.name_server]
        command += ["--data", str(self._directory / place.name)]
        if self._wishes.flush:
            command += ["--flush", self._wishes.flush]
        return command

    def _written(self, place: Place) -> Path:
        path = self._directory / "conf" / f"{place.name}.conf"
        path.parent.mkdir(exist_ok=True)
        lines = [f"{key}={value}\n" for key, value in broker_settings(self._layout, place).items()]
        path.write_text("".join(lines))
        return path


def broker_settings(layout: Layout, place: Place) -> dict[str, str]:
    """What makes a broker one of this cluster, under RocketMQ's keys."""
    settings = {"brokerName": place.group}
    if layout.mode in (Mode.SINGLE, Mode.TWO_MASTERS):
        return settings
    settings["haListenPort"] = str(place.ha_port)
    if layout.mode is Mode.ELECTED:
        nodes = [place.relays[node.name] for node in layout.of_kind(Kind.ZOOKEEPER)]
        settings["zookeeperAddr"] = ";".join(f"{HOST}:{port}" for port in nodes)
        settings["zookeeperSessionTimeout"] = str(layout.session_ms)
        # The others are told the relay, which can be cut.
        settings["brokerIP2"] = f"{HOST}:{place.relays[place.name]}"
        if layout.replicas == 1:
            settings["minInSyncReplicas"] = "1"
        return settings
    settings["brokerId"] = str(place.broker_id)
    if place.broker_id:
        settings["brokerRole"] = "SLAVE"
        settings["haMasterAddress"] = f"{HOST}:{place.relays[place.group]}"
    else:
        settings["brokerRole"] = f"{layout.mode.upper()}_MASTER"
    return settings


def _node(place: Place) -> zookeeper_server.Node:
    number = int(place.name.rpartition("-")[2])
    return zookeeper_server.Node(number, place.port, place.peer_port, place.election_port)
