"""Why a broker is not ready."""

from __future__ import annotations

import pytest
from tests.broker.metrics.conftest import Measured

from rocketpipe.broker.metrics.problems import end_of, problem_of
from rocketpipe.store.errors import StoreFull

pytestmark = pytest.mark.scenario


async def test_a_full_store_is_a_problem_and_no_reason_to_end(measured: Measured) -> None:
    core = measured.core
    assert problem_of(core) is None
    core.store.health.full(StoreFull(core.config.data, 1, "the disk is full"))
    problem = problem_of(core)
    assert problem is not None
    assert "the store is full" in problem
    assert end_of(core) is None
