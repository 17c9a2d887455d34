"""Streams that cannot be read, and what Spark's users see of it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.pipeline.support.own_frames import own_frames

from rocketpipe.pipeline.columns.rows import SCHEMA
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.refused_stream import RefusedStream
from rocketpipe.pipeline.source import RocketPipeSource
from rocketpipe.pipeline.spark_columns import spark_schema
from rocketpipe.pipeline.stream import STREAM_READER_BASES, StreamReader
from rocketpipe.testing import Cluster

ENDING = {"nameServer": "127.0.0.1:1", "subscribe": "orders", "endingOffsets": "latest"}


def test_whatever_is_asked_of_it_is_answered_with_the_reason_but_stopping() -> None:
    refused = RocketPipeSource(ENDING).streamReader(spark_schema(SCHEMA))
    assert isinstance(refused, RefusedStream)
    assert isinstance(refused, STREAM_READER_BASES)
    for ask in (
        refused.initialOffset,
        refused.latestOffset,
        refused.getDefaultReadLimit,
        refused.prepareForTriggerAvailableNow,
        lambda: refused.latestOffset({}, None),
        lambda: refused.partitions({}, {}),
        lambda: refused.read(None),
    ):
        with pytest.raises(OptionError, match=r"'endingOffsets' is for spark\.read"):
            ask()
    refused.stop()
    asked = set(inspect.signature(StreamReader.latestOffset).parameters)
    assert asked == set(inspect.signature(RefusedStream.latestOffset).parameters)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("schema", "options", "said"),
    [
        (None, {"endingOffsets": "latest"}, "a stream ends with .trigger(availableNow=True)"),
        ("body BINARY", {"startingOfsets": "x"}, "did you mean 'startingOffsets'?"),
        ("value BINARY", {}, "did you mean 'body'?"),
    ],
)
def test_a_stream_with_a_mistake_says_it_in_a_sentence(
    servers: Cluster,
    send: Any,
    spark: SparkSession,
    tmp_path: Path,
    schema: str | None,
    options: dict[str, str],
    said: str,
) -> None:
    send("refused", [b"x"])
    reader = spark.readStream.format("rocketpipe").options(
        nameServer=servers.name_server, subscribe="refused", **options
    )
    frame = (reader.schema(schema) if schema is not None else reader).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    assert said in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert not own_frames(caught.value)
