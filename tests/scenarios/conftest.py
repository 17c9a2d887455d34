"""In which order scenarios run."""

from __future__ import annotations

import pytest

#: It takes a minute, whatever the machine: begun last, it would be all that still runs.
LONGEST = "test_nothing_is_wrong_with_a_mix_of_everything_while_the_broker_dies"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.name != LONGEST)
