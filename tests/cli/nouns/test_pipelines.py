"""``rocketpipe pipeline``, as far as no Spark is needed; runs are in tests/projects."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest

from rocketpipe.cli.main import main
from rocketpipe.cli.nouns import pipelines
from rocketpipe.projects import records
from rocketpipe.projects.folder import Folder, find
from rocketpipe.projects.graph import Dataset, Flow, Graph, Kind
from rocketpipe.projects.lock import held
from rocketpipe.projects.records import Run

Capture = pytest.CaptureFixture[str]
NOBODY = ["-n", "127.0.0.1:1"]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Folder:
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "init", "shop"]) == 0
    assert "cd shop" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path / "shop")
    return find(Path.cwd())


@pytest.fixture
def a_run(shop: Folder) -> Run:
    """A run that ended, in the folder's records."""
    run = Run.new("shop", 1_700_000_000_000)
    run.take_graph(
        Graph(
            {"orders": Dataset("orders", Kind.TABLE), "out": Dataset("out", Kind.SINK, "dear")},
            {
                "orders": Flow("orders", "orders", (), ("orders",), "shop-orders"),
                "to_out": Flow("to_out", "out", ("orders",)),
            },
        )
    )
    orders = run.flows["orders"]
    orders.rows, orders.batches, orders.last_batch_ms, orders.state_rows = 12, 1, 240, 7
    run.finish("completed", 1_700_000_002_500)
    records.save(shop, run)
    return run


def test_the_last_run_is_shown_also_where_no_broker_answers(a_run: Run, capsys: Capture) -> None:
    assert main(["pipeline", "show", *NOBODY]) == 0
    told = capsys.readouterr()
    assert "2.5 s" in told.out
    assert "shop-orders" in told.out
    assert told.err.startswith("lag is not known: ")
    assert main(["pipeline", "show", "-o", "json", *NOBODY]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run"], shown["state"], shown["rows"]) == (a_run.run, "completed", 12)
    assert [flow["rows_read"] for flow in shown["flows"]] == [12, None]
    figures = ("batches", "batch_ms", "state_rows")
    assert [tuple(flow[name] for name in figures) for flow in shown["flows"]] == [
        (1, 240, 7),
        (None, None, None),
    ]


def test_a_port_that_is_taken_is_told_before_spark_starts(shop: Folder, capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["pipeline", "run", "--metrics-port", port, *NOBODY]) == 1
    assert port in capsys.readouterr().err


def test_a_run_whose_driver_is_gone_has_died(shop: Folder, a_run: Run, capsys: Capture) -> None:
    a_run.state, a_run.ended_ms = "running", None
    records.save(shop, a_run)
    assert main(["pipeline", "show", "-o", "json", *NOBODY]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["state"], shown["ended"]) == ("died", None)
    assert "it was killed" in shown["error"]
    with held(shop):
        assert main(["pipeline", "show", "-o", "json", *NOBODY]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "running"


def test_the_picture_goes_to_a_file_or_to_the_output(a_run: Run, capsys: Capture) -> None:
    assert main(["pipeline", "graph", "p.svg", *NOBODY]) == 0
    assert main(["pipeline", "graph", *NOBODY]) == 0
    assert capsys.readouterr().out == Path("p.svg").read_text()


def test_a_reset_is_shown_asked_for_and_done(shop: Folder, a_run: Run, capsys: Capture) -> None:
    runs = shop.own / "runs"
    assert main(["pipeline", "reset", "--dry-run"]) == 0
    assert str(runs) in capsys.readouterr().out
    assert main(["pipeline", "reset"]) == 1
    assert "not confirmed" in capsys.readouterr().err
    assert runs.exists()
    assert main(["pipeline", "reset", "--yes"]) == 0
    assert not runs.exists()
    capsys.readouterr()
    assert main(["pipeline", "reset", "--yes"]) == 0
    assert "nothing to reset" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("show", 1, "pipeline shop has not run yet"),
        ("backfill orders --from yesterday", 2, "'yesterday' is no time"),
        ("backfill orders --from now", 1, "has not run yet"),
        ("run --follow --timeout 5s", 2, "is for a single run"),
        ("run --master a --remote sc://b", 2, "either --master or --remote"),
        ("run --remote sc://127.0.0.1:1", 1, "no Spark at sc://127.0.0.1:1"),
        ("init shop!", 1, "is no name for a pipeline"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(
    shop: Folder, capsys: Capture, command: str, code: int, said: str
) -> None:
    assert main(["pipeline", *command.split()]) == code
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_definitions_that_are_none_are_refused_before_spark_starts(
    shop: Folder, capsys: Capture
) -> None:
    (shop.root / "transformations" / "bad.py").write_text("def f(:\n")
    (shop.root / "transformations" / "notes.txt").write_text("")
    assert main(["pipeline", "run"]) == 1
    assert "transformations/bad.py:1: invalid syntax (and 1 more" in capsys.readouterr().err
    assert main(["pipeline", "check"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "problem: transformations/bad.py:1: invalid syntax",
        "problem: transformations/notes.txt: definitions are .py and .sql files: move it elsewhere",
    ]


def test_there_may_be_no_pipeline_or_one_that_runs(
    shop: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with held(shop):
        assert main(["pipeline", "run"]) == 1
    assert "runs already, as process" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "run"]) == 1
    assert "no spark-pipeline.yml here or above" in capsys.readouterr().err


def test_a_service_that_is_stopped_says_by_what(
    shop: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> int:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(pipelines, "_carried_out", stopped)
    assert main(["pipeline", "run", "--follow", "--folder", str(shop.root)]) == 143
    assert signal.getsignal(signal.SIGTERM) is before
