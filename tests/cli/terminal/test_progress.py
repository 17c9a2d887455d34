"""Tests of the bar."""

from __future__ import annotations

import io

from rocketpipe.cli.terminal.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_it_shows_how_much_is_done_and_is_gone_in_the_end() -> None:
    out = Terminal()
    with Progress("replaying", 4, out) as progress:
        progress.advance(2)
        assert out.getvalue() == f"\rreplaying {'█' * 15:<30} 2 of 4\x1b[K"
    assert out.getvalue().endswith("\r\x1b[K")


def test_without_a_total_it_counts() -> None:
    out = Terminal()
    with Progress("read", out=out) as progress:
        progress.advance(1200)
    assert "read 1,200" in out.getvalue()


def test_into_a_file_it_writes_nothing() -> None:
    out = io.StringIO()
    with Progress("replaying", 4, out) as progress:
        progress.advance()
    assert out.getvalue() == ""
