"""Everything that a broker measures, asked of one that runs."""

from __future__ import annotations

import re

import pytest
from tests.broker.metrics.conftest import WHO, Measured

from rocketpipe import Admin, Producer

pytestmark = pytest.mark.scenario


async def test_what_is_told_is_what_prometheus_reads(measured: Measured) -> None:
    async with Admin(measured.names) as admin, Producer(measured.names) as producer:
        await admin.topics.create("orders", queues=1)
        await admin.groups.create("spark-job")
        for number in range(5):
            await producer.send("orders", b"order %d" % number)
        await admin.offsets.move_to_ends("spark-job", "orders", newest=False)
        (place,) = await admin.offsets.of_group("spark-job", "orders")
        await admin.offsets.commit("spark-job", {place.queue: 2})  # type: ignore[dict-item]
        text = measured.text()
        sample = re.compile(r'\w+(\{(\w+="[^"]*",?)+\})? [-+.e\d]+|# (HELP|TYPE) \w+ .+')
        assert all(sample.fullmatch(line) for line in text.splitlines())
        # Each name once: a scraper refuses a second.
        types = re.findall("^# TYPE (\\w+)", text, re.M)
        assert len(types) == len(set(types))
        assert measured.value("rocketmq_messages_in_total", topic="orders") == 5
        assert measured.value("rocketmq_consumer_lag_messages", consumer_group="spark-job") == 3
        (size,) = [line for line in text.splitlines() if "consumer_lag_bytes{" in line]
        assert 0 < int(size.rpartition(" ")[2]) <= measured.core.store.positions.written
        assert WHO in size
        await admin.groups.delete("spark-job", offsets=True)
        assert "spark-job" not in measured.text()
