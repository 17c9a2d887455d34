"""What is measured of a store."""

from __future__ import annotations

import pytest
from tests.broker.metrics.conftest import Measured

from rocketpipe import Producer

pytestmark = pytest.mark.scenario


async def test_disk_log_and_age_are_told_as_rocketmq_labels_them(measured: Measured) -> None:
    where = {"storage_type": "local", "storage_medium": "disk"}
    reserve = "rocketmq_storage_message_reserve_time_milliseconds"
    assert measured.value(reserve) is None, "nothing is kept yet"
    async with Producer(measured.names) as producer:
        await producer.send("orders", b"one espresso")
    assert measured.value(reserve, **where) is not None
    assert measured.value("rocketpipe_log_bytes") == measured.core.store.positions.written
    used = measured.value("rocketmq_storage_size_bytes", **where)
    total = measured.value("rocketpipe_disk_bytes")
    assert used is not None
    assert total is not None
    assert 0 < used <= total
    for name in ("flush", "dispatch"):
        behind = measured.value(f"rocketmq_storage_{name}_behind_bytes", **where)
        assert behind is not None
        assert behind >= 0
