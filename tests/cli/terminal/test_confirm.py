"""Tests of asking first."""

from __future__ import annotations

import argparse
import io

import pytest

from rocketpipe.cli.terminal.confirm import NotConfirmed, add_flags, confirm


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return parser.parse_args(words)


def test_yes_beforehand_is_enough() -> None:
    confirm("delete it", options("--yes"))


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(NotConfirmed, match=r"delete it: not confirmed.*--yes"):
        confirm("delete it", options())


@pytest.mark.parametrize("typed", ["y\n", "YES\n"])
def test_a_yes_on_the_terminal_goes_on(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    confirm("delete it", options())


@pytest.mark.parametrize("typed", ["\n", "n\n", ""])
def test_anything_else_does_not(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    with pytest.raises(NotConfirmed):
        confirm("delete it", options())
