"""Commands on a cluster of a master and two workers, of which one dies, and by Spark Connect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.compat.support.spark_cluster import (
    Cluster,
    cluster_environment,
    connect_server,
    environment,
    spark_cluster,
)
from tests.compat.test_spark import python_without_us

from rocketpipe.blocking import Producer
from rocketpipe.pipeline.launch import lean_python
from rocketpipe.projects import starting
from rocketpipe.projects.table_files import files_of
from rocketpipe.testing import serving
from rocketpipe.testing.servers import Servers

pytestmark = [pytest.mark.compat, pytest.mark.spark, pytest.mark.timeout(3600)]

ORDERS = 600
CITIES = ("Oslo", "Lima", "Pune")
#: So long a command may take on a machine that is busy with other things.
LIMIT_S = 1200
JSON = ("--decode", "json", "--schema", "city STRING, cents INT")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("servers")) as running:
        with Producer(running.name_server) as producer:
            for number in range(ORDERS):
                city = CITIES[number % len(CITIES)].encode()
                body = b'{"city": "%s", "cents": %d}' % (city, number)
                producer.send("orders", body, keys=[f"K{number}"], timeout_ms=30_000)
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


class Command:
    """A ``rocketpipe`` command that runs, with what it prints in files."""

    def __init__(
        self, words: Sequence[str], directory: Path, servers: Servers, **more: str
    ) -> None:
        self._words = words
        self._printed = directory / f"printed-{time.monotonic_ns()}"
        # Spark gives a Python ten seconds to start, also where the machine is busy.
        python = {"PYSPARK_PYTHON": lean_python(directory), **more}
        environ = environment(ROCKETPIPE_NAMESRV=servers.name_server, **python)
        with self._printed.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rocketpipe.cli.main", *words],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environ,
                cwd=directory,
            )

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return self._printed.read_text(errors="replace")

    def wait_until(self, holds: Callable[[], object]) -> None:
        """Wait for something that happens while it runs."""
        deadline_s = time.monotonic() + LIMIT_S
        while not holds():
            assert self.process.poll() is None, self.printed
            assert time.monotonic() < deadline_s, self.printed
            time.sleep(0.1)

    def ended(self, code: int | None = 0) -> str:
        """What it printed, when it is over."""
        got = self.process.wait(LIMIT_S)
        assert code is None or got == code, (self._words, got, self.printed)
        return self.printed


def executors_of(cluster: Cluster, number: int) -> int:
    """How many executors a worker has ever started."""
    return len(list((cluster.directory / f"work-{number}").glob("app-*/*/stderr")))


def kill_at_work(cluster: Cluster, number: int, command: Command) -> None:
    """Kill a worker as soon as it works for a command."""
    before = executors_of(cluster, number)
    command.wait_until(lambda: executors_of(cluster, number) > before)
    cluster.kill_worker(number)


def cents_in(table: Path) -> Counter[int]:
    return Counter(DeltaTable(table).to_pyarrow_table()["cents"].to_pylist())


def rows_of(table: Path) -> Counter[tuple[object, ...]]:
    import pyarrow.parquet as pq

    return Counter(
        tuple(row[name] for name in sorted(row) if name not in ("store_timestamp", "keys"))
        for file in files_of(table)
        for row in pq.read_table(file).to_pylist()
    )


def all_orders() -> Counter[int]:
    return Counter(range(ORDERS))


def test_a_table_has_each_message_once_though_a_worker_dies(
    cluster: Cluster, servers: Servers, tmp_path: Path
) -> None:
    to = tmp_path / "lake"
    place = ("--master", cluster.master)
    words = ("table", "follow", "orders", "--to", str(to), *JSON, "--batch-rows", "150", "--once")
    following = Command([*words, *place], tmp_path, servers)
    following.wait_until(lambda: "batch 0:" in following.printed)
    cluster.kill_worker(1)
    try:
        said = following.ended()
        assert said.endswith(f"{to}: {ORDERS:,} rows and 0 bad rows more\n")
        assert cents_in(to) == all_orders()
        Command(["table", "verify", str(to), *place], tmp_path, servers).ended()
    finally:
        cluster.add_worker(1)


def test_a_pipeline_a_statement_and_a_job_end_well_though_a_worker_dies(
    cluster: Cluster, servers: Servers, tmp_path: Path
) -> None:
    root = starting.make("shop", tmp_path)
    running = Command(["pipeline", "run", "--master", cluster.master], root, servers)
    kill_at_work(cluster, 2, running)
    try:
        running.ended()
        orders = rows_of(root / "storage" / "tables" / "shop.db" / "orders")
        assert orders == Counter((n, CITIES[n % len(CITIES)]) for n in range(ORDERS))
    finally:
        cluster.add_worker(2)
    asking = Command(
        [
            *("sql", "SELECT city, count(*), sum(cents) FROM orders GROUP BY 1", "-o", "csv"),
            *("--schema", "orders=city STRING, cents INT", "--master", cluster.master),
        ],
        tmp_path,
        servers,
    )
    kill_at_work(cluster, 1, asking)
    try:
        answer = asking.ended()
        for first, city in enumerate(CITIES):
            assert f"{city},200,{sum(range(first, ORDERS, len(CITIES)))}" in answer
    finally:
        cluster.add_worker(1)
    audit = tmp_path / "audit"
    words = ("job", "run", "audit", "--topic", "orders", "--to", str(audit))
    auditing = Command([*words, "--master", cluster.master], tmp_path, servers)
    kill_at_work(cluster, 2, auditing)
    try:
        auditing.ended()
        assert (audit / "report.html").is_file()
    finally:
        cluster.add_worker(2)


def test_nodes_get_the_package_and_say_what_they_lack(
    cluster: Cluster, servers: Servers, tmp_path: Path
) -> None:
    """Executors have another Python than the driver, which this package is not installed in."""
    lean = python_without_us(tmp_path)
    (tmp_path / "driver").mkdir()
    chooses = tmp_path / "chooses"
    place = ("--master", cluster.master)
    root = starting.make("shop", tmp_path)
    chooses.write_text(
        f'#!/bin/sh\n[ -n "$SPARK_EXECUTOR_DIRS" ] && exec {lean} "$@"\n'
        f'exec {lean_python(tmp_path / "driver")} "$@"\n'
    )
    chooses.chmod(0o755)
    python = {"PYSPARK_PYTHON": str(chooses)}
    Command(["pipeline", "run", *place], root, servers, **python).ended()
    assert sum(rows_of(root / "storage" / "tables" / "shop.db" / "orders").values()) == ORDERS
    lake = tmp_path / "lake"
    follow = ("table", "follow", "orders", "--to", str(lake), *JSON, "--once", *place)
    Command(follow, tmp_path, servers, **python).ended()
    assert cents_in(lake) == all_orders()
    nowhere = {"PYSPARK_PYTHON": "/nowhere/python"}
    words = ("sql", "SELECT count(*) FROM orders", *place)
    *_, line = Command(words, tmp_path, servers, **nowhere).ended(1).splitlines()
    assert "have no Python at /nowhere/python: set PYSPARK_PYTHON" in line


def test_a_submitted_command_runs_on_the_spark_that_it_was_submitted_to(
    cluster: Cluster, servers: Servers, tmp_path: Path
) -> None:
    root = starting.make("shop", tmp_path)
    lake = tmp_path / "lake"
    environ = cluster_environment(PYSPARK_PYTHON=lean_python(tmp_path))
    environ["PATH"] = f"{environ['SPARK_HOME']}/bin:{environ['PATH']}"
    for words in (
        ["pipeline", "run"],
        ["table", "follow", "orders", "--to", str(lake), *JSON, "--once"],
    ):
        words += ["--master", cluster.master, "--print-submit"]
        submit = Command(words, root, servers).ended()
        assert submit.startswith("spark-submit ")
        done = subprocess.run(
            ["sh", "-c", submit], env=environ, cwd=root, capture_output=True, timeout=LIMIT_S
        )
        assert done.returncode == 0, done.stderr[-4000:]
    assert sum(rows_of(root / "storage" / "tables" / "shop.db" / "orders").values()) == ORDERS
    assert cents_in(lake) == all_orders()


def test_a_connect_server_that_is_killed_costs_nothing_but_the_run(
    cluster: Cluster, servers: Servers, tmp_path: Path
) -> None:
    root = starting.make("shop", tmp_path)
    lake = tmp_path / "lake"
    follow = ("table", "follow", "orders", "--to", str(lake), *JSON, "--once")
    catalogue = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={tmp_path}/catalogue;create=true"
        ),
        "spark.sql.warehouse.dir": str(root / "storage" / "tables"),
    }
    environ = cluster_environment(
        ROCKETPIPE_NAMESRV=servers.name_server, PYSPARK_PYTHON=lean_python(tmp_path)
    )
    with connect_server(tmp_path / "first", cluster.master, environ=environ, **catalogue) as (
        remote,
        process,
    ):
        place = ("--remote", remote)
        following = Command([*follow, "--batch-rows", "100", *place], tmp_path, servers)
        following.wait_until(lambda: len(list((lake / "_delta_log").glob("*.json"))) > 2)
        os.killpg(process.pid, signal.SIGKILL)
        (line,) = following.ended(1).splitlines()[-1:]
        assert "Spark" in line
        pipeline = Command(["pipeline", "run", *place], root, servers).ended(1)
        assert "no Spark at" in pipeline
    with connect_server(tmp_path / "second", cluster.master, environ=environ, **catalogue) as (
        remote,
        process,
    ):
        place = ("--remote", remote)
        Command([*follow, *place], tmp_path, servers).ended()
        assert cents_in(lake) == all_orders()
        Command(["table", "verify", str(lake), *place], tmp_path, servers).ended()
        answer = Command(["sql", "SELECT count(*) FROM orders", *place], tmp_path, servers).ended()
        assert str(ORDERS) in answer.split()
        audit = ("job", "run", "audit", "--topic", "orders", "--to", str(tmp_path / "audit"))
        Command([*audit, *place], tmp_path, servers).ended()
        running = Command(["pipeline", "run", *place], root, servers)
        running.ended()
        orders = rows_of(root / "storage" / "tables" / "shop.db" / "orders")
        assert orders == Counter((n, CITIES[n % len(CITIES)]) for n in range(ORDERS))
