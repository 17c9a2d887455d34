"""Runs of a pipeline on a real Spark, over a real broker."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rocketpipe.pipeline.session import SparkPlace
from rocketpipe.projects import asks, checking, records, resetting
from rocketpipe.projects.asks import Ask
from rocketpipe.projects.errors import ServerFailed
from rocketpipe.projects.folder import Folder, find
from rocketpipe.projects.lock import held
from rocketpipe.projects.records import Run
from rocketpipe.projects.running import Workshop, run_recorded, workshop
from rocketpipe.projects.table_files import files_of
from rocketpipe.testing import Kit, PipelineCopy, kit

PLACE = SparkPlace(master="local[2]")
SQL = """\
-- expect drop: cents >= 0
CREATE STREAMING TABLE paid AS SELECT city, cents FROM STREAM(orders);
"""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Kit]:
    with kit(tmp_path / "servers") as running:
        yield running


def send(servers: Kit, *orders: tuple[str, int]) -> None:
    with servers.blocking.producer() as producer:
        for city, cents in orders:
            producer.send("orders", b'{"city": "%s", "cents": %d}' % (city.encode(), cents))


def rows(shop: Folder, table: str) -> Counter[tuple[object, ...]]:
    import pyarrow.parquet as pq

    place = shop.table_files(table)
    assert place is not None
    return Counter(
        tuple(row[name] for name in sorted(row) if name != "store_timestamp" and name != "keys")
        for file in files_of(place)
        for row in pq.read_table(file).to_pylist()
    )


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_second_run_goes_on_where_the_first_one_was(shop: Folder, servers: Kit) -> None:
    (shop.root / "transformations" / "paid.sql").write_text(SQL)
    send(servers, ("Oslo", 1500), ("Oslo", -20), ("Lima", 5))
    with held(shop), workshop(shop, PLACE, servers.name_server) as floor:
        run = run_recorded(floor, Ask())
        assert (run.state, run.error) == ("completed", None)
        assert {flow.name: flow.state for flow in run.flows.values()} == {
            "cities": "completed",
            "orders": "completed",
            "orders_quarantine": "completed",
            "paid": "completed",
            "to_dear_orders": "completed",
        }
        # On another Spark it goes on as well: the demo, and the kills below, show that.
        send(servers, ("Lima", 2000), ("Oslo", 1))
        last = run_recorded(floor, Ask())
        (shop.root / "transformations" / "bad.sql").write_text(
            "CREATE MATERIALIZED VIEW bad AS SELECT no_such_column FROM orders;"
        )
        _, found = checking.dry_run(floor, Run.new("shop", 0))
    assert (last.state, last.flows["orders"].rows) == ("completed", 2)
    assert rows(shop, "orders") == Counter(
        [(1500, "Oslo"), (-20, "Oslo"), (5, "Lima"), (2000, "Lima"), (1, "Oslo")]
    )
    assert rows(shop, "cities") == Counter([(1481, "Oslo", 3), (2005, "Lima", 2)])
    assert rows(shop, "paid") == rows(shop, "orders") - Counter([(-20, "Oslo")])
    sent = PipelineCopy(shop.root, shop.root.parent / "copy", servers.name_server)
    assert Counter(sent.messages("dear-orders")) == Counter(
        [b'{"city":"Oslo","cents":1500}', b'{"city":"Lima","cents":2000}']
    )
    (dropped,) = [rule for rule in run.rules if rule.action == "drop"]
    assert (dropped.rule, dropped.rows, dropped.failed) == ("cents >= 0", 3, 1)
    (problem,) = found
    assert problem.startswith("flow bad: [UNRESOLVED_COLUMN")
    assert "no_such_column" in problem
    kept = records.last(shop)
    assert kept is not None
    assert kept.run == last.run
    assert [each.name for each in shop.own.glob("spark-*")] == []


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_spark_that_is_killed_ends_the_run_and_the_next_goes_on(
    shop: Folder, servers: Kit
) -> None:
    send(servers, ("Oslo", 1500), ("Lima", 5))

    def kill(floor: Workshop, state: Run) -> None:
        if state.flows and floor.server.process is not None:
            floor.server.process.kill()

    with held(shop), workshop(shop, PLACE, servers.name_server) as floor:
        floor.watch = lambda run: kill(floor, run)
        with pytest.raises(ServerFailed, match="Spark died in the run: run it again"):
            run_recorded(floor, Ask())
    died = records.last(shop)
    assert died is not None
    assert died.state == "died"
    with held(shop), workshop(shop, PLACE, servers.name_server) as floor:
        assert run_recorded(floor, Ask()).state == "completed"
    assert rows(shop, "orders") == Counter([(1500, "Oslo"), (5, "Lima")])


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_pipeline_killed_at_ten_random_moments_equals_one_that_never_was(
    shop: Folder, servers: Kit
) -> None:
    """The command or its Spark, whatever it is about: what is left is that of the calm one."""
    calm = copied(shop, "calm")
    moments = random.Random(19)
    first = 980
    send(servers, *[("Oslo", number) for number in range(first, first + 20)])
    took_s = run_to_the_end(calm, servers)
    for _ in range(10):
        first += 20
        send(servers, *[(f"c{number % 3}", number - 1) for number in range(first, first + 20)])
        victim = moments.choice(("command", "Spark"))
        run_killed(shop, servers, victim, moments.uniform(0, took_s))
    run_to_the_end(shop, servers)
    run_to_the_end(calm, servers)
    for table in ("orders", "cities", "orders_quarantine"):
        assert rows(shop, table) == rows(calm, table), table
    sent = PipelineCopy(shop.root, shop.root.parent / "copy", servers.name_server)
    ours, theirs = (Counter(sent.messages(topic)) for topic in ("dear-orders", "calm-orders"))
    assert ours == theirs
    assert sum(ours.values()) > 100


def copied(shop: Folder, name: str) -> Folder:
    """The same pipeline under another name, with a topic of its own to write to."""
    root = shop.root.parent / name
    shutil.copytree(shop.root, root)
    for path in (root / "spark-pipeline.yml", root / "transformations" / "orders.py"):
        text = path.read_text().replace("dear-orders", f"{name}-orders")
        path.write_text(text.replace("name: shop", f"name: {name}"))
    return find(root)


def run_to_the_end(shop: Folder, servers: Kit) -> float:
    """Run a pipeline until it has ended well; gives how long that took.

    Where a machine is too busy for Spark's ten seconds, a run may fail: the next goes on.
    """
    began_s = time.monotonic()
    for _ in range(5):
        with started(shop, servers) as driver:
            if driver.wait(900) == 0:
                return time.monotonic() - began_s
    pytest.fail(f"{shop.name} did not come to its end")


def run_killed(shop: Folder, servers: Kit, victim: str, after_s: float) -> None:
    """Run a pipeline by its command, and kill that or its Spark on the way."""
    with started(shop, servers) as driver:
        with suppress(subprocess.TimeoutExpired):
            driver.wait(after_s)
        spark = None if victim == "command" else spark_of(driver)
        if spark is None:
            driver.kill()
        else:
            with suppress(ProcessLookupError):
                os.killpg(spark, signal.SIGKILL)
            driver.wait(900)


def started(shop: Folder, servers: Kit) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rocketpipe.cli.main", "pipeline", "run"]
    environment = {**os.environ, "ROCKETPIPE_NAMESRV": servers.name_server}
    return subprocess.Popen(command, cwd=shop.root, env=environment)


def spark_of(driver: subprocess.Popen[bytes]) -> int | None:
    """The Spark that a command has started, if it has come so far."""
    try:
        children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
        for child in map(int, children):
            if b"SparkConnectServer" in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
    except FileNotFoundError:
        pass
    return None


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_table_is_filled_again_from_a_time(shop: Folder, servers: Kit) -> None:
    send(servers, ("Oslo", 1))
    servers.clock.advance("1h")
    since_ms = servers.clock.now_ms()
    send(servers, ("Lima", 2))
    with held(shop), workshop(shop, PLACE, servers.name_server) as floor:
        run = run_recorded(floor, Ask())
        assert rows(shop, "orders") == Counter([(1, "Oslo"), (2, "Lima")])
        flow = resetting.find_flow(run.graph, "orders")
        resetting.backfill(shop, run.graph, flow, since_ms)
        again = run_recorded(floor, Ask())
        assert again.state == "completed"
        assert asks.with_kept(shop, Ask()) == Ask()  # it is done
    assert rows(shop, "orders") == Counter([(2, "Lima")])
