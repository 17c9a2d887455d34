"""What would make a server faster on this machine, for the banner."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping

from rocketpipe import compiled
from rocketpipe.cli.serving.banner import Fact


def faster(environ: Mapping[str, str] = os.environ) -> list[Fact]:
    """What is missing, and what brings it; nothing where nothing is."""
    hints = [*_of_loop(), *_of_engine(environ)]
    return [Fact("Faster", "; ".join(hints), "faster", hints)] if hints else []


def _of_loop() -> list[str]:
    if sys.platform == "win32" or sys.implementation.name != "cpython":
        return []  # there is no uvloop for these
    if importlib.util.find_spec("uvloop") is not None:
        return []
    return ["uvloop is not installed: pip install uvloop"]


def _of_engine(environ: Mapping[str, str]) -> list[str]:
    reasons = [reason for reason in compiled.states(environ).values() if reason]
    if not reasons:
        return []
    reason = reasons[0]
    if reason.startswith(compiled.SWITCH):
        return [f"hot functions run in Python, as {reason} asks: unset {compiled.SWITCH}"]
    if "make setup" in reason:
        return [f"hot functions run in Python: {reason}"]
    return [f"hot functions run in Python ({reason}): install rocketpipe where a C compiler is"]
