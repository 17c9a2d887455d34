"""Reads a topic in a given Spark, in batch and by a stream that is started twice.

python spark_program.py MASTER NAME_SERVER TOPIC DIRECTORY [register]

MASTER may be ``connect:local[2]``: then the session comes by Spark Connect, from such a server.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession


def main(master: str, name_server: str, topic: str, directory: Path, is_shipped: bool) -> None:
    builder = SparkSession.builder
    remote = master.removeprefix("connect:")
    builder = builder.remote(remote) if remote != master else builder.master(master)
    spark = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", (directory / "warehouse").as_uri())
        .getOrCreate()
    )
    if is_shipped:
        from rocketpipe.pipeline import register

        register(spark)
    given = {"nameServer": name_server, "subscribe": topic, "minPartitions": "2"}
    frame = spark.read.format("rocketpipe").options(**given).load()
    seen: dict[str, object] = {
        "version": pyspark.__version__,
        "batch": sorted(int(row.body) for row in frame.select("body").collect()),
        "one queue": frame.where("queue_id = 1").count(),
        "batches": [],
    }
    stream = given | {"startingOffsets": "earliest", "groupId": "compat"}
    stream |= {"maxOffsetsPerTrigger": "30", "columns": "queue_id,queue_offset,body"}
    for _ in range(2):
        query = (
            spark.readStream.format("rocketpipe")
            .options(**stream)
            .load()
            .writeStream.format("parquet")
            .option("path", str(directory / "out"))
            .option("checkpointLocation", str(directory / "kept"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = [each.numInputRows for each in query.recentProgress if each.numInputRows]
        seen["batches"] = [*seen["batches"], rows]  # type: ignore[misc]
    found = spark.read.parquet(str(directory / "out")).collect()
    seen["stream"] = sorted(int(row.body) for row in found)
    sys.stdout.write("SEEN " + json.dumps(seen) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), "register" in sys.argv[5:])
