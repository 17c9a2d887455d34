"""The Spark of a run: what it is told, and that its processes end. Its runs are in test_running."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.session import ClusterUnreachable, SparkPlace
from rocketpipe.projects import server
from rocketpipe.projects.errors import MissingPackage
from rocketpipe.projects.folder import Folder

PARENT = """
import os, subprocess, sys
from pathlib import Path
from rocketpipe.projects.server import ending_with_us
command = [sys.executable, "-c", "import time; time.sleep(600)"]
with ending_with_us(command, dict(os.environ), Path("/"), subprocess.DEVNULL) as child:
    print(child.pid, flush=True)
    sys.stdin.read()
"""


def test_it_listens_on_this_machine_alone_and_keeps_its_catalogue_in_the_folder(
    shop: Folder, tmp_path: Path
) -> None:
    given = server.settings(shop, SparkPlace(conf={"spark.x": "1"}), tmp_path)
    assert given["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert given["spark.connect.grpc.binding.port"] == "0"
    assert str(shop.own / "catalogue") in given["spark.hadoop.javax.jdo.option.ConnectionURL"]
    assert given["spark.sql.warehouse.dir"] == shop.tables
    assert (given["spark.master"], given["spark.x"]) == ("local[*]", "1")
    away = server.settings(shop, SparkPlace(master="spark://h:7077"), tmp_path)
    assert away["spark.master"] == "spark://h:7077"
    assert not away.keys() & {"spark.driver.host", "spark.driver.bindAddress", "spark.local.dir"}
    # Nodes that see the folder get the package with it.
    assert away["spark.executorEnv.PYTHONPATH"] == str(tmp_path / "rocketpipe.zip")
    assert (
        "rocketpipe/pipeline/daemon.py" in zipfile.ZipFile(tmp_path / "rocketpipe.zip").namelist()
    )


def test_a_server_of_others_that_goes_is_noticed(
    shop: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_NEIGHBOUR_EVERY_S", 0)
    monkeypatch.setattr(SparkPlace, "check_reachable", lambda self: None)
    with server.serving(shop, SparkPlace(remote="sc://127.0.0.1:1"), None) as found:
        assert found.is_alive
        monkeypatch.undo()
        monkeypatch.setattr(server, "_NEIGHBOUR_EVERY_S", 0)
        assert not found.is_alive


def test_a_server_that_is_there_is_used_as_it_is(shop: Folder) -> None:
    nobody = SparkPlace(remote="sc://127.0.0.1:1")
    with pytest.raises(ClusterUnreachable), server.serving(shop, nobody, None):
        pass


def test_settings_are_not_for_a_server_that_runs(
    shop: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkPlace, "check_reachable", lambda self: None)
    place = SparkPlace(remote="sc://somewhere", conf={"a": "b"})
    with pytest.raises(ConfigError, match="leave --conf out"), server.serving(shop, place, None):
        pass
    with server.serving(shop, SparkPlace(remote="sc://somewhere"), None) as found:
        assert found.environment["SPARK_REMOTE"] == "sc://somewhere"
        assert found.is_alive


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_NEEDED", ("sys", "no_such_package"))
    with pytest.raises(MissingPackage, match=r"no_such_package.*pip install 'pyspark\[pipelines"):
        server.check_packages()


def test_what_a_killed_command_left_is_removed(shop: Folder) -> None:
    (shop.own / "spark-x" / "events").mkdir(parents=True)
    (shop.own / "catalogue").mkdir()
    server.remove_leftovers(shop)
    assert [place.name for place in shop.own.iterdir()] == ["catalogue"]


def test_processes_end_with_whoever_started_them() -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(child, 0)
        parent.kill()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{child}/cmdline").exists() and Path(f"/proc/{child}/cmdline").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_process_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STOP_TIMEOUT_S", 0.2)
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); "
    stubborn = deaf + "print(1, flush=True); time.sleep(600)"
    with server.ending_with_us(
        [sys.executable, "-c", stubborn],
        dict(os.environ),
        Path("/"),
        subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"1\n"
    assert child.returncode == -9
