"""Two replicas of one group whose roles a test decides; neither follows or leads yet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.support.replica_parts import Parts, replica_parts


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Parts]:
    async with replica_parts(tmp_path / "1") as parts:
        yield parts


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Parts]:
    async with replica_parts(tmp_path / "2", 2) as parts:
        yield parts
