"""A ZooKeeper of our own, for trying, tests and small deployments: from jars that are there anyway.

PySpark brings ZooKeeper among its jars, so nothing is installed but the extras ``spark`` and, on a
machine without Java, ``java``. Other jars are named by ``ZOOKEEPER_JARS``, a directory.

    directory/zoo.cfg     written at each start, from the node's ports
    directory/data/       what ZooKeeper keeps; ``myid`` there says which node it is
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketpipe.errors import RocketPipeError

#: Names a directory of jars to take instead of PySpark's.
JARS_VARIABLE: Final = "ZOOKEEPER_JARS"

#: Those of PySpark's jars that ZooKeeper runs on: 10 MB of 400.
_NEEDED: Final = re.compile(
    r"(zookeeper(-jute)?|netty-(buffer|codec(-base)?|common|handler|resolver"
    r"|transport(-classes-epoll|-native-unix-common)?)|metrics-core|snappy-java"
    r"|slf4j-api|log4j-(api|core|slf4j2-impl)|commons-(io|cli))-\d[^/]*\.jar"
)
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
#: A small heap and the cheap compiler: one node takes 75 MB, and starts in half the time.
_JVM_FLAGS: Final = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dorg.apache.logging.log4j.level=WARN",
)

#: Sessions are counted in ticks, and end at a tick: 3 s become 3 to 3.5.
TICK_MS: Final = 500
LEAST_SESSION_MS: Final = 1_000
MOST_SESSION_MS: Final = 60_000

_MODE: Final = re.compile(rb"^Mode: (\w+)", re.MULTILINE)
_MOST_ANSWER: Final = 16 << 10


class ZooKeeperNotFound(RocketPipeError):
    """No jars of ZooKeeper; the message names the line that installs them."""


@dataclass(frozen=True, slots=True)
class Node:
    """One server of an ensemble: its number from 1 on, and where clients and the others reach it.

    The last two ports count only where there is more than one node.
    """

    number: int
    port: int
    peer_port: int = 0
    election_port: int = 0


def find_jars(environ: Mapping[str, str] | None = None) -> list[Path]:
    """The jars for the class path.

    Raises:
        ZooKeeperNotFound: If there are none.
    """
    environ = os.environ if environ is None else environ
    if named := environ.get(JARS_VARIABLE):
        jars = sorted(Path(named).glob("*.jar"))
        if not any(jar.name.startswith("zookeeper-") for jar in jars):
            raise ZooKeeperNotFound(
                f"{JARS_VARIABLE} names {named}, which has no zookeeper-*.jar: name the directory "
                "`lib` of an unpacked ZooKeeper, or unset it"
            )
        return jars
    spark = importlib.util.find_spec("pyspark")
    where = Path(spark.origin).parent / "jars" if spark and spark.origin else None
    jars = sorted(where.glob("*.jar")) if where else []
    needed = [jar for jar in jars if _NEEDED.fullmatch(jar.name)]
    if not any(jar.name.startswith("zookeeper-") for jar in needed):
        raise ZooKeeperNotFound(
            "ZooKeeper's jars come with PySpark, which is not here: install it with "
            "`pip install 'pyspark<5'`, run a ZooKeeper of your own, or name a directory "
            f"with its jars in {JARS_VARIABLE}"
        )
    return needed


def server_command(
    java: Path,
    directory: Path,
    node: Node,
    others: Sequence[Node] = (),
    *,
    host: str = "127.0.0.1",
    jars: Sequence[Path] | None = None,
) -> list[str]:
    """Write the node's settings, and give the command that runs it until SIGTERM.

    ``java`` is the program itself. ``others`` are the rest of the ensemble.

    Raises:
        ZooKeeperNotFound: If there are no jars.
        OSError: If the directory cannot be written.
    """
    found = find_jars() if jars is None else jars
    directory = directory.absolute()
    (directory / "data").mkdir(parents=True, exist_ok=True)
    (directory / "data" / "myid").write_text(f"{node.number}\n")
    config = directory / "zoo.cfg"
    config.write_text(_settings(directory, node, others, host))
    path = os.pathsep.join(map(str, found))
    return [str(java), *_JVM_FLAGS, "-cp", path, _MAIN, str(config)]


def _settings(directory: Path, node: Node, others: Sequence[Node], host: str) -> str:
    settings = {
        "tickTime": TICK_MS,
        "initLimit": 20,
        "syncLimit": 10,
        "minSessionTimeout": LEAST_SESSION_MS,
        "maxSessionTimeout": MOST_SESSION_MS,
        # A backslash escapes there.
        "dataDir": str(directory / "data").replace("\\", "\\\\"),
        "clientPort": node.port,
        "clientPortAddress": host,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr,ruok,mntr",
        "autopurge.snapRetainCount": 3,
        "autopurge.purgeInterval": 1,
    }
    if others:
        for each in sorted([node, *others], key=lambda each: each.number):
            settings[f"server.{each.number}"] = f"{host}:{each.peer_port}:{each.election_port}"
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def mode_of(port: int, *, host: str = "127.0.0.1", timeout_s: float = 1.0) -> str | None:
    """What the node there says it is: standalone, leader or follower; None while it does not serve.

    It blocks for as long as the timeout says.
    """
    answer = b""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(b"srvr")
            while len(answer) < _MOST_ANSWER and (more := connection.recv(4096)):
                answer += more
    except OSError:
        return None
    found = _MODE.search(answer)
    return found[1].decode() if found else None
