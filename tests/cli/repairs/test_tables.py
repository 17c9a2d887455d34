"""``table verify``, ``rebuild`` and ``replay``: what they refuse, and what they print."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.cli.repairs.tables import _print
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.tables.differences import Finding
from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.spec import TableSpec
from rocketpipe.tables.table import FollowedTable
from rocketpipe.tables.verifying import VerifyReport

Command = Callable[..., str]


@pytest.mark.scenario
def test_what_cannot_be_mended_is_refused_in_a_line(command: Command, tmp_path: Path) -> None:
    spec = TableSpec(topic="nobody", name_server="127.0.0.1:1", decode="text")
    table = FollowedTable(TableDirectory(tmp_path / "lake"), spec)
    table.prepare()
    lake, none = str(tmp_path / "lake"), str(tmp_path / "none")
    refused: dict[tuple[str, ...], tuple[int, str]] = {
        ("verify", none): (1, "is not there"),
        ("verify", str(tmp_path)): (1, "is no table that follows a topic"),
        ("verify", lake): (1, "no NameServer answers"),
        ("verify", lake, "--store", str(tmp_path)): (1, str(tmp_path)),
        ("verify", lake, "--store", "x", "-n", "127.0.0.1:1"): (2, "not both"),
        ("rebuild", none): (1, "is not there"),
        ("rebuild", lake): (1, "no NameServer answers"),
        ("rebuild", lake, "--partition-by", "town"): (2, "no column 'town'"),
        ("rebuild", lake, "--master", "spark://127.0.0.1:1"): (1, "no Spark at"),
        ("replay", none, "--to", "table"): (1, "is not there"),
        ("replay", lake, "--to", "table", "--schema", "n INT"): (2, "is for bodies that are JSON"),
        ("replay", lake, "--to", "table", "--error", "["): (2, "no regular expression"),
    }
    for words, (code, said) in refused.items():
        printed = command("table", *words, code=code)
        assert said in printed, (words, printed)
    with table.directory.locked():
        assert "is being written by process" in command("table", "rebuild", lake, code=1)
        assert "is being written by process" in command(
            "table", "replay", lake, "--to", "table", code=1
        )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lake"]


def report(**fields: Any) -> VerifyReport:
    kept: dict[str, Any] = {
        "topic": "orders",
        "rows": 1200,
        "bad_rows": 3,
        "messages": 1203,
        "older": 0,
        "unknown": 0,
        "behind": 0,
        "wrong": {},
        "findings": (),
        "lost_files": (),
    }
    return VerifyReport(**{**kept, **fields})


def printed(form: str, found: VerifyReport, most: int = 20) -> str:
    out = io.StringIO()
    _print(Printer(form, out), "lake", found, most)
    return out.getvalue()


def test_an_equal_table_is_told_in_a_line() -> None:
    compared = "1,200 rows and 3 bad rows, 1,203 messages"
    assert printed("table", report()) == f"lake: equal to topic orders: {compared}\n"
    more = printed("table", report(older=10, unknown=2, behind=5, skipped=7))
    assert more.endswith(
        "; 10 older than the topic, each there once; 2 older than the topic, not looked at; "
        "7 left out, as they had aged out before they were followed; 5 not followed yet\n"
    )


def test_findings_are_told_as_ranges_and_not_without_end() -> None:
    findings = tuple(Finding("missing", "broker-a", 1, first, first + 1) for first in (0, 10, 20))
    found = report(wrong={"missing": 6}, findings=findings, lost_files=("part-1.parquet: gone",))
    lines = printed("table", found, most=2).splitlines()
    assert lines[0].split() == ["KIND", "BROKER", "QUEUE", "ID", "FIRST", "LAST", "MESSAGES"]
    assert lines[1].split() == ["missing", "broker-a", "1", "0", "1", "2"]
    assert lines[3:5] == ["not readable: part-1.parquet: gone", "… and 2 messages more"]
    assert lines[5].startswith("lake: differs from topic orders: 6 missing (1,200 rows")
    told = json.loads(printed("json", found))
    assert (told["equal"], told["wrong"], len(told["findings"])) == (False, {"missing": 6}, 3)
    assert printed("csv", report()) == "kind,broker,queue_id,first,last,messages\n"
