"""Tests of the bar."""

from __future__ import annotations

import io

from rocketpipe.cli.terminal.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_it_ends_with_how_much_was_done() -> None:
    out = Terminal()
    with Progress("replaying", 4, out) as progress:
        for _ in range(4):
            progress.advance()
    assert out.getvalue().endswith(f"\rreplaying {'█' * 30} 4 of 4\x1b[K\n")


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
