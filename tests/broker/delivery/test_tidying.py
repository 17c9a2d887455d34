"""Old files go by themselves, and what cannot be removed is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketpipe.background import running
from rocketpipe.broker.delivery.tidying import TIDY_EVERY_MS, TIDY_FIRST_MS, keep_tidy
from rocketpipe.errors import StoreError
from rocketpipe.testing.clock import ManualClock


async def test_retention_runs_again_and_again_whatever_it_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs: list[int] = []
    clock = ManualClock()

    def run() -> Iterator[Any]:
        runs.append(clock.now_ms())
        if len(runs) == 1:
            raise StoreError("no such disk")
        yield from ()

    began_ms = clock.now_ms()
    async with running(keep_tidy(cast("Any", SimpleNamespace(running=run)), clock), "retention"):
        await asyncio.sleep(0)
        for wait_ms in (TIDY_FIRST_MS, TIDY_EVERY_MS):
            await clock.advance(wait_ms)
    first_ms = began_ms + TIDY_FIRST_MS
    assert runs == [first_ms, first_ms + TIDY_EVERY_MS]
    assert "nothing could be removed reason=no such disk" in caplog.text
