"""What is left of a broker, on one line."""

from __future__ import annotations

import io

import pytest

from rocketpipe.cli.terminal import backlog_line
from rocketpipe.cli.terminal.backlog_line import BacklogLine
from rocketpipe.client.admin.draining import Backlog, GroupBacklog

GROUPS = tuple(GroupBacklog(f"g{number}", "orders", number, number) for number in range(1, 6))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_groups_that_have_most_to_read_are_named() -> None:
    line = BacklogLine("b-1", io.StringIO())
    assert line.text(Backlog(7, GROUPS, {"delayed": 1200}, {}, {})) == (
        "b-1: 1,215 left: g5 of orders 5 (5 members), g4 of orders 4 (4 members), g3 of orders 3 "
        "(3 members), 2 more with 3, delayed 1,200"
    )
    alone = (GroupBacklog("g", "t", 2, 0),)
    assert line.text(Backlog(7, alone, {}, {}, {})) == "b-1: 2 left: g of t 2 (no members)"
    assert line.text(Backlog(7, (), {}, {"t": 4}, {})) == "b-1: everything was read"
    assert line.text(Backlog(None, (), {}, {}, {})) == "b-1: messages still come in"
    assert "start again" in line.text(None)


def test_on_a_terminal_it_is_written_over_and_gone_in_the_end() -> None:
    out = Terminal()
    with BacklogLine("b-1", out) as line:
        line.show(None)
    assert out.getvalue().startswith("\rb-1 does not answer")
    assert out.getvalue().endswith("\r\x1b[K")


def test_elsewhere_a_line_comes_when_there_is_news_and_not_too_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(backlog_line.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    with BacklogLine("b-1", out) as line:
        line.show(None)
        line.show(Backlog(7, (), {}, {}, {}))
        now[0] += 11
        line.show(None)
        line.show(Backlog(7, (), {}, {}, {}))
    assert out.getvalue().splitlines() == [
        "b-1 does not answer: waiting for it to start again",
        "b-1: everything was read",
    ]
