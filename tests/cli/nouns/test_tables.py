"""``rocketpipe table``: what it refuses, what it shows, and a run of it until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from deltalake import DeltaTable

from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.spec import TableSpec
from rocketpipe.tables.table import FollowedTable
from rocketpipe.testing.servers import Servers

pytestmark = pytest.mark.scenario

Command = Callable[..., str]
Answer = Callable[..., Any]

JSON = ("--decode", "json", "--schema", "city STRING, cents INT")


def made(place: Path, **fields: Any) -> FollowedTable:
    spec = TableSpec(
        **{"topic": "orders", "name_server": "127.0.0.1:1", "decode": "text", **fields}
    )
    table = FollowedTable(TableDirectory(place), spec)
    table.prepare()
    return table


def test_what_cannot_be_followed_is_refused_in_a_line_and_nothing_is_written(
    command: Command, tmp_path: Path
) -> None:
    command("topic", "create", "orders")
    lake = tmp_path / "lake"
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.png").touch()
    away, secret = "postgresql://127.0.0.1:1", "postgresql://me:hush@127.0.0.1:1/x"
    refused: dict[tuple[str, ...], tuple[int, str]] = {
        ("ordesr", "--to", str(lake), *JSON): (1, "the nearest is 'orders'"),
        ("orders", "--to", str(lake), "--decode", "json"): (2, "name the fields of the bodies"),
        ("orders", "--to", str(lake), *JSON[:3], "city TEXTS"): (2, "type 'texts' is not known"),
        ("orders", "--to", str(lake), *JSON, "--partition-by", "town"): (2, "no column 'town'"),
        ("orders", "--to", str(tmp_path / "photos")): (1, "one.png"),
        ("orders", "--to", "s3://lake/orders"): (2, "is no directory"),
        ("orders", "--to", str(lake), "--format", "postgres"): (2, "needs --to postgresql://"),
        ("orders", "--to", f"{away}/x", "--state", str(lake)): (1, f"{away}/x: cannot be reached"),
        ("orders", "--to", secret, "--state", str(lake)): (2, "PGPASSFILE or --password-file"),
        ("orders", "--to", str(lake), "--format", "iceberg", "--table", "x"): (2, "CATALOGUE."),
        ("--to", str(lake)): (2, "name the topic to follow"),
        ("orders", "--to", str(lake), "--keep", "5m"): (2, "longest query"),
        ("orders", "--to", str(lake), "--remote", "spark://x"): (2, "sc://HOST:PORT"),
        ("orders", "--to", str(lake), "--master", "spark://127.0.0.1:1"): (1, "no Spark at"),
        ("orders", "--to", str(lake), "-n", "127.0.0.1:1"): (1, "no NameServer answers"),
    }
    for words, (code, said) in refused.items():
        printed = command("table", "follow", *words, code=code)
        assert said in printed, words
        assert "hush" not in printed
        assert printed.count("\n") <= 2, printed
    assert not lake.exists()


def test_another_table_is_not_made_of_the_one_that_is_there(
    command: Command, tmp_path: Path
) -> None:
    command("topic", "create", "orders", "--if-missing")
    command("topic", "create", "visits", "--if-missing")
    table = made(tmp_path / "lake")
    kept = table.directory.spec_path.read_text()
    to = ("--to", str(tmp_path / "lake"))
    for words, said in {
        ("visits", *to): "its topic is 'orders', not 'visits'",
        ("orders", *to, *JSON): "its decode is 'text', not 'json'",
        ("orders", *to, "--format", "parquet"): "its format is 'delta'",
    }.items():
        assert said in command("table", "follow", *words, code=1)
    with table.directory.locked():
        said = command("table", "follow", *to, "-n", os.environ["ROCKETPIPE_NAMESRV"], code=1)
        assert f"is being written by process {os.getpid()}" in said
    assert table.directory.spec_path.read_text() == kept
    table.rows.commit([], 3)
    said = command("table", "follow", *to, "-n", os.environ["ROCKETPIPE_NAMESRV"], code=1)
    assert "the table has batch 3, and its checkpoint ends at -1" in said


def test_a_table_is_shown_from_its_directory(
    command: Command, answer: Answer, tmp_path: Path
) -> None:
    made(tmp_path / "lake", group="table-lake", partition_by="date").rows.commit([], 0)
    shown = answer("table", "show", str(tmp_path / "lake"))
    assert (shown["topic"], shown["rows"], shown["bad_rows"], shown["last_batch"]) == (
        "orders",
        0,
        0,
        0,
    )
    assert shown["columns"].startswith("text, broker")
    assert shown["written_by"] is None
    assert "table-lake" in command("table", "show", str(tmp_path / "lake"))
    assert "is not there" in command("table", "show", str(tmp_path / "none"), code=1)
    assert "is no table" in command("table", "show", str(tmp_path), code=1)


@pytest.mark.spark
def test_a_table_is_followed_until_ctrl_c(
    command: Command, answer: Answer, servers: Servers, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text('{"city": "Oslo", "cents": 5}\nno\n{"city": "Lima", "cents": 7}\n')
    command("topic", "create", "sales")
    command("message", "send", "sales", "--lines", str(lines))
    to = str(tmp_path / "lake" / "sales")
    words = ("table", "follow", "sales", "--to", to, *JSON, "--partition-by", "date")
    with subprocess.Popen(
        [sys.executable, "-m", "rocketpipe.cli.main", *words, "--metrics-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        metrics = running.stderr.readline().strip().removeprefix("metrics at ")
        assert running.stdout.readline() == "batch 0: 2 rows, 1 bad\n"
        # Who would follow it as well is told who does.
        assert f"process {running.pid}" in command(*words, code=1)
        _wait_for_page(metrics, 'rocketpipe_query_rows_total{query="table sales"} 3')
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        out, err = running.communicate(timeout=120)
        assert running.returncode == 130, err
        assert f"{to}: 2 rows and 1 bad rows more\n" in out
        assert err == ""
    cents = DeltaTable(to).to_pyarrow_table().column("cents").to_pylist()
    assert sorted(cents) == [5, 7]
    assert answer("table", "show", to)["bad_rows"] == 1
    lag = answer("group", "lag", "table-sales", "--summary")
    assert lag


def _wait_for_page(address: str, line: str) -> None:
    """Spark tells of a batch a moment after it is done."""
    deadline = time.monotonic() + 60
    while True:
        with urlopen(address, timeout=30) as answer:
            page = answer.read().decode()
        if line in page:
            return
        assert time.monotonic() < deadline, page
        time.sleep(0.1)
