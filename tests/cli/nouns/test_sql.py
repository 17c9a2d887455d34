"""``rocketpipe sql``, as far as it needs no Spark; what it runs is in tests/sql."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from rocketpipe.cli.main import main
from rocketpipe.cli.nouns import sql
from rocketpipe.cli.terminal.printing import FORMATS, Printer
from rocketpipe.sql.session import Result


def _typing(*lines: str | type[BaseException]) -> Callable[[str], str]:
    left: Iterator[str | type[BaseException]] = iter([*lines, EOFError])

    def ask(_: str) -> str:
        line = next(left)
        if isinstance(line, str):
            return line
        raise line

    return ask


def test_a_prompt_gathers_lines_until_a_semicolon() -> None:
    typed = sql.typed(_typing("SELECT 1,", "2; SELECT", "3;", "", "SELECT 4"))
    assert [statement.split() for statement in typed] == [["SELECT", "1,", "2"], ["SELECT", "3"]]


def test_a_prompt_has_short_words(capsys: pytest.CaptureFixture[str]) -> None:
    typed = list(
        sql.typed(_typing("\\d", "\\d my-notes", "\\d rocketpipe.lag;", "\\?", "\\q", "x;"))
    )
    assert typed == ["SHOW TABLES", "DESCRIBE `my-notes`", "DESCRIBE rocketpipe.lag"]
    assert "semicolon" in capsys.readouterr().out


def test_ctrl_c_at_a_prompt_drops_what_was_begun() -> None:
    assert list(sql.typed(_typing("SELECT", KeyboardInterrupt, "SHOW TABLES;"))) == ["SHOW TABLES"]


def test_the_last_statement_may_lack_its_semicolon() -> None:
    ran: list[str] = []
    sql.run_all("SELECT 1; -- one\nSELECT ';' ", ran.append)
    assert [each.strip() for each in ran] == ["SELECT 1", "-- one\nSELECT ';'"]


def test_rows_are_printed_as_values_are(capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    row = {"body": b"caf\xc3\xa9\xff", "at": at, "part": 0.125, "map": {"a": 1}, "none": None}
    result = Result(list(row), [row], more=True)
    out = io.StringIO()
    sql.show(result, Printer("json", out))
    assert json.loads(out.getvalue()) == [
        {
            "body": "caf\u00e9\\xff",
            "at": "2026-05-01 12:00:00.000+00:00",
            "part": 0.125,
            "map": {"a": 1},
            "none": None,
        }
    ]
    assert capsys.readouterr().err == "more rows: 1 are shown, --limit 0 shows all\n"
    out = io.StringIO()
    sql.show(result, Printer("table", out))
    assert out.getvalue().splitlines()[0].split() == list(row)
    assert "0.125" in out.getvalue()


def test_odd_values_keep_their_digits_and_are_valid_json() -> None:
    row = {
        "floats": [float("nan"), float("inf"), float("-inf")],
        "decimal": Decimal("1.000E-7"),
        "at": datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC),
        "by_number": {1: float("nan")},
        "nothing": {},
        "text": 'he said "no"\n\u2028over',
    }
    out = io.StringIO()
    sql.show(Result(list(row), [row, row]), Printer("json", out))

    def never(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    assert json.loads(out.getvalue(), parse_constant=never) == 2 * [
        {
            "floats": ["NaN", "Infinity", "-Infinity"],
            "decimal": "0.0000001000",
            "at": "2026-05-01 12:00:00.123456+00:00",
            "by_number": {"1": "NaN"},
            "nothing": {},
            "text": row["text"],
        }
    ]
    out = io.StringIO()
    sql.show(Result(list(row), [row]), Printer("csv", out))
    [head, cells] = csv.reader(io.StringIO(out.getvalue()))
    assert dict(zip(head, cells, strict=True))["text"] == row["text"]


@pytest.mark.parametrize("form", FORMATS)
def test_rows_are_printed_as_they_come_and_not_kept(form: str) -> None:
    alive: WeakSet[Value] = WeakSet()

    class Value(str):
        """Text of which is known who keeps it."""

        __slots__ = ("__weakref__",)

    def rows() -> Iterator[dict[str, Any]]:
        for number in range(5000):
            value = Value(number)
            alive.add(value)
            yield {"text": value}
            assert len(alive) < 1100, "they are kept"

    out = io.StringIO()
    sql.show(Result(["text"], rows()), Printer(form, out))
    assert "4999" in out.getvalue()


def test_a_plan_is_printed_line_by_line() -> None:
    plan = Result(["plan"], [{"plan": "== Physical Plan ==\n* Project\n"}])
    out = io.StringIO()
    sql.show(plan, Printer("table", out))
    assert out.getvalue() == "== Physical Plan ==\n* Project\n"


def test_rows_of_none_still_have_their_columns() -> None:
    for form, text in (("table", "a  b\n"), ("csv", "a,b\n"), ("json", "[]\n")):
        out = io.StringIO()
        sql.show(Result(["a", "b"], []), Printer(form, out))
        assert out.getvalue() == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--schema", "orders=a TEXTILE", "SELECT 1"], "--schema"),
        (["--master", "local", "--remote", "sc://a", "SELECT 1"], "not both"),
        (["--conf", "x", "SELECT 1"], "--conf"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_cluster_that_is_away_is_told_before_spark_starts(
    lasting_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", "-n", f"127.0.0.1:{lasting_port}", "SELECT 1"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("rocketpipe sql: ")
    assert "no NameServer answers" in error


def test_lines_of_a_prompt_are_kept_for_their_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with sql._history():
        pass
    kept = tmp_path / "rocketpipe" / "sql_history"
    assert kept.stat().st_mode & 0o777 == 0o600
