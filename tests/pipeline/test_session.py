"""Where a command's Spark is, and what is told when it is not there."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpipe.errors import ConfigError
from rocketpipe.pipeline import launch, session
from rocketpipe.pipeline.session import ClusterUnreachable, SparkPlace, opened

IN_A_PROCESS = """
from rocketpipe.pipeline.session import SparkPlace, opened
place = SparkPlace(master="local[1]", conf={"spark.sql.shuffle.partitions": "3"})
with opened(place, name="t") as spark:
    print(spark.range(5).count(), spark.conf.get("spark.sql.shuffle.partitions"))
    print(spark.sparkContext.master, spark.conf.get("spark.sql.session.timeZone"))
    try:
        spark.read.format("rocketpipe").load()
    except Exception as error:
        print("nameServer" in str(error))
"""


@pytest.fixture
def unused_port() -> int:
    """Of this machine, where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def test_a_place_is_a_master_or_a_server_and_not_both() -> None:
    with pytest.raises(ConfigError, match="not both"):
        SparkPlace(master="local", remote="sc://a")


def test_a_server_of_spark_connect_has_an_address_of_its_kind() -> None:
    with pytest.raises(ConfigError, match="no sc://HOST:PORT"):
        SparkPlace(remote="spark://a:7077")


@pytest.mark.parametrize("master", [None, "local", "local[4]", "local[*]"])
def test_a_local_master_is_a_spark_of_our_own(master: str | None) -> None:
    assert SparkPlace(master=master).is_own


@pytest.mark.parametrize("master", ["spark://a:7077", "yarn", "local-cluster[2,1,512]"])
def test_any_other_is_not(master: str) -> None:
    assert not SparkPlace(master=master).is_own


@pytest.mark.parametrize("form", ["spark://127.0.0.1:{0}", "spark://127.0.0.1:{0},127.0.0.1:{0}"])
def test_a_cluster_that_is_away_is_told_at_once(form: str, unused_port: int) -> None:
    place = SparkPlace(master=form.format(unused_port))
    with pytest.raises(ClusterUnreachable, match="check the address"), opened(place, name="t"):
        pass


def test_a_server_that_is_away_is_told_without_what_the_address_carries(unused_port: int) -> None:
    place = SparkPlace(remote=f"sc://127.0.0.1:{unused_port}/;token=hidden")
    with pytest.raises(ClusterUnreachable) as caught:
        place.check_reachable()
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("master", ["nonsense", "spark://a", "sc://a:1", "spark://a:7077,b", ""])
def test_a_master_is_spelt_as_spark_spells_it(master: str) -> None:
    with pytest.raises(ConfigError, match=r"is none of spark://HOST:PORT, yarn"):
        SparkPlace(master=master)


def test_the_spark_of_spark_submit_is_the_one_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not SparkPlace().is_submitted
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert SparkPlace().is_submitted
    assert not SparkPlace().is_own
    assert SparkPlace(master="local[2]").is_own
    assert not SparkPlace(remote="sc://a").is_submitted


def test_a_port_that_speaks_something_else_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_SPEAK_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = SparkPlace(remote=f"sc://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(ClusterUnreachable, match="does not speak as Spark Connect does"):
            place.check_reachable()


def test_of_a_server_that_dies_nothing_else_is_told(unused_port: int) -> None:
    gone = SparkPlace(remote=f"sc://127.0.0.1:{unused_port}/;token=hidden")
    with pytest.raises(ClusterUnreachable, match="it died") as caught, session._told_if_gone(gone):
        raise RuntimeError("UNAVAILABLE\nand more")
    assert "hidden" not in str(caught.value)
    with pytest.raises(RuntimeError), session._told_if_gone(SparkPlace(master="local")):
        raise RuntimeError


def test_why_a_driver_did_not_start_is_one_line(tmp_path: Path) -> None:
    error = RuntimeError("An error occurred\n: java.lang.IllegalStateException: it stopped\n  at x")
    assert session._reason(error, tmp_path) == "it stopped"
    (tmp_path / launch.LOG_NAME).write_text("ERROR All masters are unresponsive! Giving up.\n")
    assert session._reason(error, tmp_path) == "who listens there does not answer as a master does"
    assert session._reason(RuntimeError("plain\nmore"), tmp_path / "none") == "plain"


def test_one_of_several_masters_is_enough(unused_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = server.getsockname()[1]
        SparkPlace(master=f"spark://127.0.0.1:{unused_port},127.0.0.1:{there}").check_reachable()


@pytest.mark.spark
@pytest.mark.soak  # a table that is followed by the command, and pages of docs/, have such a Spark
def test_a_spark_of_our_own_knows_topics_and_what_it_was_told() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, timeout=200
    )
    assert done.stdout.split() == ["5", "3", "local[1]", "UTC", "True"], done.stderr
