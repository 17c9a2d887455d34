"""The OpenMessaging Benchmark measures us with its RocketMQ driver as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.compat.support.openmessaging import benchmark

from rocketpipe.testing import serving

pytestmark = pytest.mark.compat

WORKLOAD = """
name: short
topics: 2
partitionsPerTopic: 4
messageSize: 1024
useRandomizedPayloads: true
randomBytesRatio: 0.5
randomizedPayloadPoolSize: 100
subscriptionsPerTopic: 2
consumerPerSubscription: 1
producersPerTopic: 1
producerRate: 500
consumerBacklogSizeGB: 0
warmupDurationMinutes: 0
testDurationMinutes: 1
"""


@pytest.mark.timeout(1200)
def test_a_workload_is_sent_and_received_without_an_error(tmp_path: Path) -> None:
    workload, output = tmp_path / "workload.yaml", tmp_path / "result.json"
    workload.write_text(WORKLOAD)
    with serving(tmp_path) as servers:
        done = benchmark(workload, servers.name_server, output)
    assert done.returncode == 0, done.stdout[-3000:]
    (result,) = tmp_path.glob("result*")
    figures = json.loads(result.read_text())
    assert figures["driver"] == "RocketMQ"
    assert sum(figures["publishRate"]) > 0
    assert sum(figures["publishErrorRate"]) == 0
    # Two subscriptions have each message; the last of them may be under way.
    assert sum(figures["consumeRate"]) > 1.8 * sum(figures["publishRate"])
