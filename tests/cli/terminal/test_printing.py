"""Tests of tables, JSON and CSV."""

from __future__ import annotations

import io
import json

import pytest

from rocketpipe.cli.terminal.printing import Printer, has_colours, moment

ROWS = [
    {"topic": "orders", "messages": 12, "keys": ["a", "b"], "last": None},
    {"topic": "a\x1b[31mb\n", "messages": 7, "keys": [], "last": "now"},
]
COLUMNS = ["topic", "messages", "keys", "last"]


def printed(form: str) -> str:
    out = io.StringIO()
    Printer(form, out).rows(ROWS, COLUMNS)
    return out.getvalue()


def test_a_table_lines_up_and_shows_what_is_unknown_as_a_dash() -> None:
    assert printed("table") == (
        "TOPIC         MESSAGES  KEYS  LAST\n"
        "orders              12  a,b   -\n"
        "a\\x1b[31mb\\n         7  -     now\n"
    )


def test_json_keeps_names_and_kinds() -> None:
    assert json.loads(printed("json")) == ROWS


def test_csv_leaves_the_unknown_empty() -> None:
    assert printed("csv").splitlines()[:2] == [
        "topic,messages,keys,last",
        'orders,12,"[""a"", ""b""]",',
    ]


def test_a_record_is_a_line_for_each_fact() -> None:
    out = io.StringIO()
    printer = Printer("table", out)
    printer.record({"name": "a", "is_ready": True, "parts": {"x": 1}})
    printer.line("for people")
    assert out.getvalue() == "NAME      a\nIS READY  yes\nPARTS     x=1\nfor people\n"


def test_programs_do_not_get_lines_for_people() -> None:
    out = io.StringIO()
    Printer("json", out).line("for people")
    assert out.getvalue() == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_and_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert has_colours(Terminal())
    assert not has_colours(io.StringIO())
    assert Printer("table", Terminal()).styled("x", "bad") == "\x1b[31mx\x1b[0m"
    assert Printer("json", Terminal()).styled("x", "bad") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(Terminal())


def test_a_moment_says_its_zone_and_an_unknown_one_is_none() -> None:
    assert moment(0) == "1970-01-01 00:00:00.000+00:00"
    assert moment(None) is None
    assert moment(-1) is None
    assert moment(1 << 62) == f"{1 << 62} ms"


def test_a_table_may_have_titles_of_its_own_and_programs_get_the_keys() -> None:
    for form, head in (("table", "#QID"), ("csv", "queue")):
        out = io.StringIO()
        Printer(form, out).rows([{"queue": 1}], ["queue"], ["#QID"])
        assert out.getvalue().splitlines()[0] == head


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("table", "for people\nfor people\n"),
        ("json", '{"a": 1, "b": null}\n{"a": 1, "b": null}\n'),
        ("csv", "a,b\n1,\n1,\n"),
    ],
)
def test_rows_of_a_stream_are_out_at_once_a_line_each(form: str, expected: str) -> None:
    out = io.StringIO()
    printer = Printer(form, out)
    for _ in range(2):
        printer.stream({"a": 1, "c": 2}, ["a", "b"], "for people")
    assert out.getvalue() == expected


def test_a_table_fits_a_terminal_unless_it_is_to_be_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [{"id": "7F0000010A2B18B4AAC2000000000001", "count": 1.0}, {"id": "x", "count": 2.0}]
    narrow, wide = Terminal(), Terminal()
    Printer(out=narrow).rows(rows, ["id", "count"])
    assert max(map(len, narrow.getvalue().splitlines())) <= 30
    assert narrow.getvalue().splitlines()[1].endswith("…00000000001      1")
    Printer(out=wide, wide=True).rows(rows, ["id", "count"])
    assert rows[0]["id"] in wide.getvalue()


def test_on_a_narrow_terminal_columns_that_say_nothing_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [{"broker": "broker-a", "epoch": None, "address": "127.0.0.1:10911"}]
    shown = {}
    for width in ("32", "30"):
        monkeypatch.setenv("COLUMNS", width)
        out = Terminal()
        Printer(out=out).rows(rows, ["broker", "epoch", "address"])
        shown[width] = out.getvalue().splitlines()
    assert shown["32"][0].split() == ["BROKER", "EPOCH", "ADDRESS"]
    assert shown["30"] == ["BROKER    ADDRESS", "broker-a  127.0.0.1:10911"]


def test_pairs_of_a_record_are_on_as_many_lines_as_they_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "24")
    out = Terminal()
    Printer(out=out).record({"msgBody": "a b " * 10, "pairs": {"KEYS": "A1", "TAGS": "paid"}})
    assert out.getvalue().splitlines() == [
        f"MSG BODY  {'a b ' * 10}",
        "PAIRS     KEYS=A1",
        "          TAGS=paid",
    ]


def test_numbers_keep_their_decimals_together() -> None:
    out = io.StringIO()
    Printer(out=out).rows([{"rate": 1.0}, {"rate": 2.5}, {"rate": None}], ["rate"])
    assert out.getvalue().split() == ["RATE", "1.0", "2.5", "-"]


def test_nothing_is_said_in_words_to_people_alone() -> None:
    shown = {}
    for form in ("table", "json", "csv"):
        out = io.StringIO()
        Printer(form, out).rows([], ["topic"], none="no topics yet")
        shown[form] = out.getvalue()
    assert shown == {"table": "no topics yet\n", "json": "[]\n", "csv": "topic\n"}
