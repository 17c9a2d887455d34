"""Runs of a pipeline on a real Spark, over a real broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketpipe.pipeline.session import SparkPlace
from rocketpipe.projects import checking, records, resetting
from rocketpipe.projects.errors import ServerFailed
from rocketpipe.projects.folder import Folder
from rocketpipe.projects.lock import held
from rocketpipe.projects.records import Run
from rocketpipe.projects.running import Ask, Workshop, run_recorded, workshop
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
    send(servers, ("Lima", 2000), ("Oslo", 1))
    with held(shop), workshop(shop, PLACE, servers.name_server) as floor:
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
@pytest.mark.timeout(3600)
def test_a_pipeline_killed_at_any_moment_and_run_to_its_end_has_each_row_once(
    shop: Folder, servers: Kit
) -> None:
    send(servers, *[("Oslo", number) for number in range(990, 1010)])
    command = [sys.executable, "-m", "rocketpipe.cli.main", "pipeline", "run"]
    environment = {**os.environ, "ROCKETPIPE_NAMESRV": servers.name_server}
    for state in ("running", "batch", "done"):
        with subprocess.Popen(command, cwd=shop.root, env=environment) as driver:
            _wait(lambda state=state, driver=driver: _reached(shop, state, driver))
            driver.send_signal(signal.SIGKILL)
    with held(shop), workshop(shop, PLACE, servers.name_server) as floor:
        assert run_recorded(floor, Ask()).state == "completed"
    wanted = Counter((number, "Oslo") for number in range(990, 1010))
    assert rows(shop, "orders") == wanted
    sent = PipelineCopy(shop.root, shop.root.parent / "copy", servers.name_server)
    assert len(sent.messages("dear-orders")) == 10


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
        again = run_recorded(floor, resetting.backfill(shop, run.graph, flow, since_ms))
        assert again.state == "completed"
    assert rows(shop, "orders") == Counter([(2, "Lima")])


def _reached(shop: Folder, state: str, driver: subprocess.Popen[bytes]) -> bool:
    run = records.last(shop)
    if run is None or driver.poll() is not None:
        return driver.poll() is not None
    if state == "running":
        return any(flow.state == "running" for flow in run.flows.values())
    if state == "batch":
        return any(flow.batches for flow in run.flows.values())
    return run.state == "completed"


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
