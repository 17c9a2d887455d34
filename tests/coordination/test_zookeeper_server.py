"""A ZooKeeper of our own."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from rocketpipe.coordination import zookeeper_server
from rocketpipe.coordination.zookeeper_server import (
    JARS_VARIABLE,
    Node,
    ZooKeeperNotFound,
    find_jars,
    mode_of,
    server_command,
)

JAVA = Path("/usr/bin/java")


def lines(directory: Path) -> set[str]:
    return set((directory / "zoo.cfg").read_text().splitlines())


def test_jars_are_those_of_pyspark() -> None:
    names = {jar.name.split("-")[0] for jar in find_jars({})}
    assert names == {"zookeeper", "netty", "metrics", "snappy", "slf4j", "log4j", "commons"}
    assert len(find_jars({})) < 25


def test_other_jars_can_be_named(tmp_path: Path) -> None:
    for name in ("zookeeper-3.8.4.jar", "anything.jar"):
        (tmp_path / name).touch()
    found = find_jars({JARS_VARIABLE: str(tmp_path)})
    assert [jar.name for jar in found] == ["anything.jar", "zookeeper-3.8.4.jar"]


def test_a_directory_without_them_is_named(tmp_path: Path) -> None:
    with pytest.raises(ZooKeeperNotFound, match=r"which has no zookeeper-\*\.jar"):
        find_jars({JARS_VARIABLE: str(tmp_path)})


def test_without_pyspark_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_server.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ZooKeeperNotFound, match=r"pip install 'pyspark<5'"):
        find_jars({})


def test_one_node_stands_alone(tmp_path: Path) -> None:
    command = server_command(JAVA, tmp_path / "zk", Node(1, 2181), jars=[Path("a.jar")])
    assert command[0] == str(JAVA)
    assert command[command.index("-cp") + 1] == "a.jar"
    assert command[-1] == str(tmp_path / "zk" / "zoo.cfg")
    settings = lines(tmp_path / "zk")
    assert {"clientPort=2181", "clientPortAddress=127.0.0.1", "minSessionTimeout=1000"} <= settings
    assert not any(line.startswith("server.") for line in settings)


def test_nodes_of_an_ensemble_know_each_other(tmp_path: Path) -> None:
    nodes = [Node(number, 100 + number, 200 + number, 300 + number) for number in (1, 2, 3)]
    server_command(JAVA, tmp_path, nodes[1], [nodes[0], nodes[2]], jars=[])
    assert (tmp_path / "data" / "myid").read_text() == "2\n"
    assert {f"server.{number}=127.0.0.1:20{number}:30{number}" for number in (1, 2, 3)} <= lines(
        tmp_path
    )


@pytest.mark.parametrize(
    ("answer", "mode"),
    [
        (b"Zookeeper version: 3.9.5\nMode: standalone\nNode count: 5\n", "standalone"),
        (b"Mode: follower\n", "follower"),
        (b"This ZooKeeper instance is not currently serving requests\n", None),
        (b"x" * (1 << 20), None),
        (b"", None),
    ],
)
def test_a_node_is_asked_what_it_is(answer: bytes, mode: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                assert connection.recv(4, socket.MSG_WAITALL) == b"srvr"
                try:
                    connection.sendall(answer)
                except OSError:
                    pass  # it has read enough

        serving = threading.Thread(target=serve)
        serving.start()
        assert mode_of(listening.getsockname()[1]) == mode
        serving.join()


def test_who_is_not_there_is_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        # It accepts, and never answers.
        assert mode_of(port, timeout_s=0.05) is None
    assert mode_of(port) is None
