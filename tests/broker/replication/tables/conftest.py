"""A leader and a follower, as far as their tables go."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.support.table_parts import Replica


@pytest.fixture
async def leader(tmp_path: Path) -> Replica:
    leader = Replica(tmp_path / "leader")
    await leader.lead()
    return leader


@pytest.fixture
def follower(tmp_path: Path) -> Replica:
    return Replica(tmp_path / "follower")
