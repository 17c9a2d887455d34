"""Listening to the queries of a session."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.conftest import Send

from rocketpipe.errors import PortUnavailable
from rocketpipe.pipeline import watch_queries
from rocketpipe.pipeline.figures import Figures
from rocketpipe.pipeline.listening import MetricsPort
from rocketpipe.testing import Cluster

PATIENCE_S = 120


def page(address: str | None, path: str) -> str:
    with urlopen(f"http://{address}{path}", timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_batches_are_told_to_prometheus_and_to_the_log(
    spark: SparkSession,
    servers: Cluster,
    send: Send,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    send("listened", [b"%d" % number for number in range(30)])
    with (
        caplog.at_level(logging.INFO, "rocketpipe.pipeline.queries"),
        watch_queries(spark, port=0) as watch,
    ):
        query = (
            spark.readStream.format("rocketpipe")
            .options(nameServer=servers.name_server, subscribe="listened")
            .options(startingOffsets="earliest", maxOffsetsPerTrigger="20")
            .load()
            .writeStream.queryName("heard")
            .format("noop")
            .option("checkpointLocation", str(tmp_path / "kept"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        wait_for(lambda: 'active{query="heard"} 0' in page(watch.address, "/metrics"))
        told = page(watch.address, "/metrics")
        assert page(watch.address, "/readyz") == "ready\n"
    assert 'rocketpipe_query_rows_total{query="heard"} 30' in told
    assert 'rocketpipe_query_batches_total{query="heard"} 2' in told
    assert 'rocketpipe_query_lag{query="heard",topic="listened"} 0' in told
    first, second = (each.message for each in caplog.records if "queries" in each.name)
    assert first.startswith("batch query=heard number=0 rows=20 took_ms=")
    assert first.endswith("lag=10")
    assert second.endswith("lag=0")
    with pytest.raises(OSError):
        page(watch.address, "/metrics")


def test_a_query_that_failed_is_not_ready() -> None:
    figures = Figures()
    with MetricsPort(figures, 0) as port:
        figures.ended("paid", "no broker")
        with pytest.raises(HTTPError, match="503") as refused:
            page(port.address, "/readyz")
        assert refused.value.read() == b"query paid failed: no broker\n"
        number = int(port.address.rpartition(":")[2])
        with pytest.raises(PortUnavailable):
            MetricsPort(figures, number)
