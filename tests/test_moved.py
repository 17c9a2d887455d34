"""Modules that pages of earlier versions named are still found by their old paths."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from rocketpipe.moved import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_leads_to_the_module_itself(old: str) -> None:
    now, public = MOVED[old]
    sys.modules.pop(f"rocketpipe.{old}", None)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved: import what you need from"):
        found = import_module(f"rocketpipe.{old}")
    assert found is import_module(f"rocketpipe.{now}")
    import_module(f"rocketpipe.{public}" if public else "rocketpipe")


def test_the_warning_names_the_line_that_imports() -> None:
    code = "\nfrom rocketpipe.client.consumer.assignment import CIRCLE\nprint(CIRCLE.name)"
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "AVG_BY_CIRCLE\n"
    assert "<string>:2: DeprecationWarning" in done.stderr


def test_what_never_was_is_still_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("rocketpipe.client.consumer.nothing")
