"""What would have a server do more with a core of this machine, for the banner."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping

from rocketpipe import compiled
from rocketpipe.cli.serving.banner import Fact


def faster(environ: Mapping[str, str] = os.environ) -> list[Fact]:
    """What this installation lacks, and what brings it; nothing where it lacks nothing."""
    lacking = [*_engine(environ), *_loop()]
    return [Fact("Faster with", " and ".join(lacking), "faster_with", lacking)] if lacking else []


def _loop() -> list[str]:
    if sys.platform == "win32" or sys.implementation.name != "cpython":
        return []  # there is no uvloop for these
    if importlib.util.find_spec("uvloop") is not None:
        return []
    return ["uvloop (`pip install uvloop`)"]


def _engine(environ: Mapping[str, str]) -> list[str]:
    reasons = [reason for reason in compiled.states(environ).values() if reason]
    if not reasons:
        return []
    reason = reasons[0]
    if reason.startswith(compiled.SWITCH):
        return [f"the compiled engine ({reason} turns it off)"]
    if "make setup" in reason:
        return [f"the whole compiled engine ({reason})"]
    return [f"the compiled engine ({reason}: install a wheel, or a C compiler and again)"]
