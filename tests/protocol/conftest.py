"""How much work a call does, whatever the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def count_calls() -> Callable[[Callable[[], Any]], int]:
    """Count the functions, ours and built in, that are called on the way."""

    def count(work: Callable[[], Any]) -> int:
        calls = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in {"call", "c_call"}

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(before)
        return calls

    return count
