"""The oldest Spark that is served, and a cluster whose executors do not have this package."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest
from tests.compat.support import spark_program
from tests.compat.support.spark_cluster import cluster_environment, environment, spark_cluster
from tests.faults.support.sink_process import outlive

from rocketpipe import Producer
from rocketpipe.pipeline.register import package_root
from rocketpipe.testing import serving

pytestmark = [pytest.mark.compat, pytest.mark.spark]

OLDEST = "pyspark==4.0.*"
MESSAGES = 80
DEATHS_OF_A_CLUSTER = (
    "stream-rr-executor_kill",
    "stream-rand-speculation",
    "batch-rr-speculation",
    "batch-rand-executor_kill",
)
NEEDED_BY_CONNECT = ("grpcio", "grpcio-status", "googleapis-common-protos", "pandas<3", "zstandard")
NEEDED_BY_WORKERS = ("pyspark", "py4j", "pyarrow", "numpy", "numpy.libs", "msgspec")


def send(name_server: str) -> None:
    async def work() -> None:
        async with Producer(name_server) as producer:
            for number in range(MESSAGES):
                await producer.send("spark-compat", b"%d" % number, timeout_ms=30_000)

    asyncio.run(work())


def seen_by(
    python: Path, master: str, directory: Path, environ: dict[str, str], *more: str
) -> dict[str, Any]:
    with serving(directory) as servers:
        send(servers.name_server)
        ran = subprocess.run(
            [
                str(python),
                spark_program.__file__,
                master,
                servers.name_server,
                "spark-compat",
                str(directory),
                *more,
            ],
            capture_output=True,
            text=True,
            env=environ,
            cwd=directory,
            timeout=280,
            check=False,
        )
    lines = [line for line in ran.stdout.splitlines() if line.startswith("SEEN ")]
    assert lines, ran.stdout[-2000:] + ran.stderr[-6000:]
    found: dict[str, Any] = json.loads(lines[0].removeprefix("SEEN "))
    return found


def python_in(directory: Path, paths: Sequence[Path]) -> Path:
    """A Python that sees these directories after its own packages."""
    venv.create(directory, with_pip=False, symlinks=True)
    [packages] = directory.glob("lib/python3*/site-packages")
    (packages / "others.pth").write_text("".join(f"{path}\n" for path in paths))
    return directory / "bin" / "python"


def test_the_oldest_spark_reads_batches_and_streams(tmp_path: Path) -> None:
    ours = Path(pyspark.__file__).parents[1]
    python = python_in(tmp_path / "venv", [ours, package_root()])
    [packages] = (tmp_path / "venv").glob("lib/python3*/site-packages")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), OLDEST]
    installed = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if installed.returncode != 0:
        pytest.skip(f"{OLDEST} cannot be installed: {installed.stderr.strip()[-300:]}")
    environ = environment(PYSPARK_PYTHON=str(python))
    seen = seen_by(python, "local[2]", tmp_path, environ)
    assert seen["version"].startswith("4.0.")
    everything = list(range(MESSAGES))
    assert seen["batch"] == everything
    assert seen["one queue"] == MESSAGES // 4
    # This Spark does not tell a limited source to go on: each start reads one batch.
    assert seen["batches"] == [[30], [30]]
    assert len(seen["stream"]) == len(set(seen["stream"])) == 60


def test_rows_show_once_where_executors_die_and_tasks_run_twice(
    tmp_path: Path, lasting_port: int
) -> None:
    """An executor takes its shuffle files with it; both attempts of a slow task send their rows."""
    environ = cluster_environment()
    with spark_cluster(tmp_path, environ=environ) as cluster:
        outlive(tmp_path, lasting_port, DEATHS_OF_A_CLUSTER, cluster.master)


def python_without_us(tmp_path: Path, *more: Path) -> Path:
    """A Python that has what workers need, and not this package."""
    lean = tmp_path / "lean"
    lean.mkdir()
    ours = Path(pyspark.__file__).parents[1]
    for name in NEEDED_BY_WORKERS:
        if (ours / name).exists():
            (lean / name).symlink_to(ours / name)
    workers = python_in(tmp_path / "workers", [lean, *more])
    missing = subprocess.run([str(workers), "-c", "import rocketpipe"], capture_output=True)
    assert missing.returncode != 0
    return workers


def test_a_local_cluster_gets_the_package_by_register(tmp_path: Path) -> None:
    """Its name begins like that of a Spark in one process, but its executors are processes."""
    workers = python_without_us(tmp_path)
    environ = cluster_environment() | {"PYSPARK_PYTHON": str(workers)}
    environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    master = "local-cluster[1,1,512]"
    seen = seen_by(Path(sys.executable), master, tmp_path, environ, "register")
    assert seen["batch"] == list(range(MESSAGES))
    assert seen["stream"] == list(range(MESSAGES))


def test_a_connect_server_gets_the_package_by_register(tmp_path: Path) -> None:
    libraries = tmp_path / "connect"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(libraries)]
    installed = subprocess.run(
        [*command, *NEEDED_BY_CONNECT], capture_output=True, text=True, timeout=900, check=False
    )
    if installed.returncode != 0:
        pytest.skip(f"Spark Connect cannot be installed: {installed.stderr.strip()[-300:]}")
    workers = python_without_us(tmp_path, libraries)
    environ = environment(PYSPARK_PYTHON=str(workers), PYTHONPATH=str(libraries))
    seen = seen_by(Path(sys.executable), "connect:local[2]", tmp_path, environ, "register")
    assert seen["batch"] == list(range(MESSAGES))
    assert seen["one queue"] == MESSAGES // 4
    assert seen["stream"] == list(range(MESSAGES))


def test_a_cluster_gets_the_package_by_register(tmp_path: Path) -> None:
    workers = python_without_us(tmp_path)
    environ = cluster_environment()
    with spark_cluster(tmp_path, environ=environ) as cluster:
        seen = seen_by(
            Path(sys.executable),
            cluster.master,
            tmp_path,
            environ | {"PYSPARK_PYTHON": str(workers), "PYSPARK_DRIVER_PYTHON": sys.executable},
            "register",
        )
    everything = list(range(MESSAGES))
    assert seen["batch"] == everything
    assert seen["one queue"] == MESSAGES // 4
    assert seen["batches"] == [[30, 30, 20], []]
    assert seen["stream"] == everything
