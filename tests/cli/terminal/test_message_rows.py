"""A message as a row."""

from __future__ import annotations

from rocketpipe.cli.terminal.message_rows import body_text, line


def test_bytes_that_are_no_text_are_escaped() -> None:
    assert body_text("é".encode()) == "é"
    assert body_text(b"\xff") == "\\xff"


def test_who_follows_gets_a_line() -> None:
    row = {"broker": "a", "queue": 1, "offset": 2, "stored": "now", "tags": None, "keys": ["A1"]}
    assert line({**row, "body": "x"}) == "now  a:1:2  -  A1  x"
