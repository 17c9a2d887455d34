"""Work beside a block."""

from __future__ import annotations

import asyncio

import pytest

from rocketpipe.background import running


async def test_the_work_ends_with_the_block() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    async with running(work(), "work"):
        await asyncio.sleep(0)
        assert not ended.is_set()
    assert ended.is_set()


async def test_the_blocks_own_error_comes_out_unwrapped() -> None:
    async def work() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(KeyError, match="mine"):
        async with running(work(), "work"):
            raise KeyError("mine")


async def test_work_that_fails_is_logged_by_name(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("broken")

    async with running(work(), "the breaking one"):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert "the breaking one" in caplog.text
    assert "broken" in caplog.text
