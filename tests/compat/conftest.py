"""What tests with other people's programs share."""

from __future__ import annotations

import pytest
from tests.compat.support.apache import Apache, find_apache


@pytest.fixture(scope="session")
def apache() -> Apache:
    """Apache's servers: ``async with apache.cluster(tmp_path) as cluster`` runs both of them."""
    return find_apache()
