"""A schema registry for the tests of formats."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.schema_registry import SchemaRegistry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry that knows nothing yet."""
    with SchemaRegistry() as running:
        yield running
