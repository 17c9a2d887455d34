from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from rocketpipe import compiled
from rocketpipe.cli.serving import hints


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Says what this machine has: an event loop, and which twins do not run."""

    def has(*, uvloop: bool = True, reason: str = "", platform: str = "linux") -> None:
        monkeypatch.setattr(hints.sys, "platform", platform)
        found = object() if uvloop else None
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: found)
        monkeypatch.setattr(compiled, "states", lambda _: {"record._hot": reason, "other": ""})

    return has


def test_where_nothing_is_missing_nothing_is_said(machine: Any) -> None:
    machine()
    assert hints.faster({}) == []


def test_what_is_missing_is_said_with_what_brings_it(machine: Any) -> None:
    machine(uvloop=False, reason="it was not built")
    (fact,) = hints.faster({})
    engine, loop = fact.value
    assert "`pip install uvloop`" in loop
    assert "it was not built" in engine
    assert "C compiler" in engine
    assert fact.text == f"{engine} and {loop}"
    assert not fact.alarming


def test_who_asked_for_python_is_told_so(machine: Any) -> None:
    machine(reason="ROCKETPIPE_PURE=1")
    (fact,) = hints.faster({"ROCKETPIPE_PURE": "1"})
    assert fact.value == ["the compiled engine (ROCKETPIPE_PURE=1 turns it off)"]


def test_who_edited_a_twin_is_told_to_build_it(machine: Any) -> None:
    machine(reason="it was built from other source: run `make setup`")
    (fact,) = hints.faster({})
    assert "run `make setup`" in fact.text


def test_a_loop_that_there_is_not_is_not_asked_for(machine: Any) -> None:
    machine(uvloop=False, platform="win32")
    assert hints.faster({}) == []
