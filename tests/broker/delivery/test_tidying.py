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
    looks: list[int] = []
    clock = ManualClock()

    def run() -> Iterator[Any]:
        runs.append(clock.now_ms())
        if len(runs) == 1:
            raise StoreError("no such disk")
        yield from ()

    began_ms = clock.now_ms()
    retention = SimpleNamespace(running=run, heed_room=lambda: looks.append(clock.now_ms()))
    async with running(keep_tidy(cast("Any", retention), clock), "retention"):
        await asyncio.sleep(0)
        assert looks == [began_ms], "a full disk is full from the start on"
        for _ in range(0, TIDY_FIRST_MS + TIDY_EVERY_MS, TIDY_EVERY_MS):
            await clock.advance(TIDY_EVERY_MS)
    first_ms = began_ms + TIDY_FIRST_MS
    assert runs == [first_ms, first_ms + TIDY_EVERY_MS]
    assert looks == list(range(began_ms, first_ms, TIDY_EVERY_MS))
    assert "nothing could be removed reason=no such disk" in caplog.text
