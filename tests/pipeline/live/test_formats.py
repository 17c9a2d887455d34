"""Bodies in Avro and Protobuf, read by a real Spark: at once, as a stream, and into a table."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.formats.proto_files import COMMON, descriptor_set, message
from tests.schema_registry import SchemaRegistry, framed

from rocketpipe.tables import follow
from rocketpipe.testing import Cluster

pytestmark = pytest.mark.spark

Load = Callable[..., DataFrame]

OLD: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "city", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NEW = OLD | {"fields": [*OLD["fields"], {"name": "cents", "type": "int", "default": -1}]}


def written(schema: Any, value: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def test_spark_and_a_table_read_what_a_registry_describes(
    spark: SparkSession, servers: Cluster, send: Any, load: Load, tmp_path: Path
) -> None:
    with SchemaRegistry() as registry:
        old, new = (registry.register("avro-orders-value", each) for each in (OLD, NEW))
        bodies = [framed(old, written(OLD, {"city": "Oslo", "at": 1_000}))]
        bodies += [
            framed(new, written(NEW, {"city": "Lima", "at": 2_000, "cents": each}))
            for each in range(20)
        ]
        send("avro-orders", [*bodies, b"{}"])
        options = {"subscribe": "avro-orders", "decode": "avro", "schemaRegistry": registry.url}
        rows = load(**options, columns="city,cents,at,decode_error").collect()
        assert {row.at.timestamp() for row in rows if row.city == "Lima"} == {2.0}
        assert sorted(row.cents for row in rows if row.city) == [-1, *range(20)]
        assert [row.decode_error for row in rows if row.city is None] == [
            "no schema id: 2 bytes are too few"
        ]
        assert load(**options).count() == 22

        reader = spark.readStream.format("rocketpipe").options(
            nameServer=servers.name_server, startingOffsets="earliest", **options
        )
        query = (
            reader.load()
            .select("city", "cents")
            .writeStream.format("memory")
            .queryName("avro_orders")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.processAllAvailable()
        query.stop()
        assert spark.table("avro_orders").where("cents >= 0").count() == 20

        done = follow(
            "avro-orders",
            to=tmp_path / "orders",
            name_server=servers.name_server,
            decode="avro",
            registry=registry.url,
            once=True,
            spark=spark,
        )
        assert (done.rows, done.bad_rows) == (21, 1)
    table = DeltaTable(tmp_path / "orders").to_pyarrow_table()
    assert sorted(table["cents"].to_pylist()) == [-1, *range(20)]


def test_spark_reads_protobuf_by_a_compiled_file(send: Any, load: Load, tmp_path: Path) -> None:
    place = message("shop.Place", COMMON)
    send("proto-places", [place(city=f"c{each}").SerializeToString() for each in range(9)])
    (tmp_path / "common.desc").write_bytes(descriptor_set(COMMON))
    frame = load(
        subscribe="proto-places", decode="protobuf", schemaFile=str(tmp_path / "common.desc")
    )
    assert {row.city for row in frame.select("city").collect()} == {f"c{each}" for each in range(9)}
